"""Frequencies that centre.afreq may contain: those of a genotype coding by public frequencies.

A variant's centre is ``m / k`` for small integers that follow from its reference frequency p
(docs/maths/clipping-and-integers.md). A verifier without the reference panel therefore detects a
column of other numbers, such as the cohort's own frequencies. The panel's frequencies themselves
are not checked.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.coding import LARGEST_CODE, REFERENCE_UNIT, SMALLEST_FREQUENCY
from primo_scale.publication.weights import centre_frequency

_PLACES = 65
# k is rounded and may be lowered by one; between two places it moves by less than a quarter.
_LOWERED, _RAISED = 1.75, 0.75


@cache
def possible_frequencies(*, informed: bool) -> frozenset[str]:
    """Return the possible frequencies in the notation of centre.afreq, with nine digits.

    Genotypes are coded by reference frequencies (`informed`), or every variant is centred at one
    copy.
    """
    if not informed:
        return frozenset({centre_frequency(1.0)})
    codings = [
        (k, m)
        for k in range(1, LARGEST_CODE + 1)
        for m in range(max(0, 2 * k - LARGEST_CODE), min(2 * k, LARGEST_CODE) + 1)
    ]
    implied = _are_implied(*np.array(codings).T)
    return frozenset(
        centre_frequency(m / k) for (k, m), found in zip(codings, implied, strict=True) if found
    )


def _are_implied(k: npt.NDArray[np.int64], m: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether a frequency p with ``m = round(2pk)`` has approximately this k; shape (c,).

    ``k = round(16 / sqrt(2p(1-p)))``, or lower if a code would be outside [-127, 127].
    """
    rarer = np.minimum(m, 2 * k - m)  # count of the rarer allele; the coding is symmetric
    least, most = (rarer - 0.5) / (2 * k), (rarer + 0.5) / (2 * k)
    p = np.linspace(np.maximum(least, SMALLEST_FREQUENCY), np.minimum(most, 0.5), _PLACES)
    limit = (LARGEST_CODE + 0.5) / (2 * (1 - p))
    wanted = np.minimum(REFERENCE_UNIT / np.sqrt(2 * p * (1 - p)), limit)
    return np.asarray(np.any((wanted - _LOWERED <= k) & (k <= wanted + _RAISED), axis=0))
