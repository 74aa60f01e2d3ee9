"""Frequencies that centre.afreq may contain: those of a genotype coding by public frequencies.

A variant's centre is ``m / k`` for small integers that follow from its reference frequency p
(docs/maths/clipping-and-integers.md). A verifier without the reference panel therefore detects a
column of other numbers, such as the cohort's own frequencies. The panel's frequencies themselves
are not checked.
"""

from __future__ import annotations

from functools import cache

import numpy as np

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
    return frozenset(
        centre_frequency(m / k)
        for k in range(1, LARGEST_CODE + 1)
        for m in range(max(0, 2 * k - LARGEST_CODE), min(2 * k, LARGEST_CODE) + 1)
        if _is_implied(k, m)
    )


def _is_implied(k: int, m: int) -> bool:
    """Return whether a frequency p with ``m = round(2pk)`` has approximately this k.

    ``k = round(16 / sqrt(2p(1-p)))``, or lower if a code would be outside [-127, 127].
    """
    rarer = min(m, 2 * k - m)  # count of the rarer allele; the coding is symmetric in the alleles
    least, most = (rarer - 0.5) / (2 * k), (rarer + 0.5) / (2 * k)
    p = np.linspace(max(least, SMALLEST_FREQUENCY), min(most, 0.5), _PLACES)
    limit = (LARGEST_CODE + 0.5) / (2 * (1 - p))
    wanted = np.minimum(REFERENCE_UNIT / np.sqrt(2 * p * (1 - p)), limit)
    return bool(np.any((wanted - _LOWERED <= k) & (k <= wanted + _RAISED)))
