"""Exact sums for the means and standard deviations of phenotypes. PRIVATE.

The public bounds map a value y to ``u = (clamp(y) - midpoint) / half range`` in [-1, 1] and to
``U = trunc(2^20 u)``. The sums of U, of ``floor(U^2 / 2^20)`` and of 2^20, over people who have the
phenotype, are integers of the same scale (docs/maths/counts-and-moments.md, Theorem 2). A missing
value counts as 0 in all three sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import SampleTable
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import code_outcomes
from primo_scale.outcomes.matching import match_people
from primo_scale.outcomes.tables import open_outcome_table

UNIT = 2**20


@dataclass(frozen=True, eq=False)
class RawMoments:
    """Exact sums of phenotypes. PRIVATE: only `primo_scale.privacy.phenotype_moments` may use them.

    Attributes
    ----------
    sums : ndarray of int64, shape (3, l)
        Sums of U, of ``floor(U^2 / 2^20)`` and of 2^20.
    """

    sums: npt.NDArray[np.int64]


def sum_moments(
    file: Path, samples: SampleTable, phenotypes: Sequence[PhenotypeBounds]
) -> RawMoments:
    """Return the sums of the l phenotypes in a file over the people `samples`, matched by ID.

    Raises
    ------
    InputError
        The file is malformed or does not match the people, as `match_people` describes.
    """
    coding = code_outcomes(phenotypes, (), weight=1.0)  # defines missing values
    lower = np.array([p.lower for p in phenotypes])
    upper = np.array([p.upper for p in phenotypes])
    sums = np.zeros((3, len(phenotypes)), dtype=np.int64)
    names = tuple(phenotype.name for phenotype in phenotypes)
    for matched in match_people(open_outcome_table(file), names, samples):
        observed = coding.observed(matched.values)
        within = np.clip(matched.values, lower, upper)
        u = (within - (lower + upper) / 2) / ((upper - lower) / 2)
        units = np.where(observed, np.clip(np.trunc(UNIT * u), -UNIT, UNIT), 0).astype(np.int64)
        sums += np.stack(
            [units.sum(axis=0), (units**2 // UNIT).sum(axis=0), UNIT * observed.sum(axis=0)]
        )
    return RawMoments(sums)
