"""Which frequencies centre.afreq may hold: those of a coding by public frequencies, and no others.

A variant's centre is ``m / k`` for small integers that its reference frequency p implies
(docs/maths/clipping-and-integers.md). So a column of other numbers, the cohort's own frequencies
say, is found although the panel is not at hand; what a panel's frequencies are is not checked,
beyond this grid.
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
    """Frequencies as centre.afreq has them, nine digits.

    Parameters
    ----------
    informed
        Whether genotypes are coded by reference frequencies; if not, each is coded about one copy.
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
    """Whether a p with ``m = round(2pk)`` has about this k.

    ``k = round(16 / sqrt(2p(1-p)))``, or lower where a code would leave [-127, 127].
    """
    rarer = min(m, 2 * k - m)  # of the two alleles; the coding treats them alike
    least, most = (rarer - 0.5) / (2 * k), (rarer + 0.5) / (2 * k)
    p = np.linspace(max(least, SMALLEST_FREQUENCY), min(most, 0.5), _PLACES)
    limit = (LARGEST_CODE + 0.5) / (2 * (1 - p))
    wanted = np.minimum(REFERENCE_UNIT / np.sqrt(2 * p * (1 - p)), limit)
    return bool(np.any((wanted - _LOWERED <= k) & (k <= wanted + _RAISED)))
