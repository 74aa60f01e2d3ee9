"""Exact sums for the means and standard deviations of phenotypes. PRIVATE.

A value is coded within its public bounds as an integer U (`outcomes.coding.code_within_bounds`).
The sums of U, of ``floor(U^2 / 2^20)`` and of 2^20, over people who have the phenotype, are
integers of the same scale (docs/maths/counts-and-moments.md, Theorem 2). A missing value counts as
0 in all three sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import SampleTable
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import BOUNDED_UNIT, code_within_bounds
from primo_scale.outcomes.matching import match_people
from primo_scale.outcomes.tables import open_outcome_table


@dataclass(frozen=True, eq=False)
class RawMoments:
    """Exact sums of phenotypes. PRIVATE: only `privacy.phenotype_moments` may use them."""

    sums: npt.NDArray[np.int64]  # sums of U, of ``floor(U^2 / 2^20)`` and of 2^20, shape (3, l)


def sum_moments(
    file: Path, samples: SampleTable, phenotypes: Sequence[PhenotypeBounds]
) -> RawMoments:
    """Return the sums of the l phenotypes in a file over the people that `match_people` matches."""
    sums = np.zeros((3, len(phenotypes)), dtype=np.int64)
    names = tuple(phenotype.name for phenotype in phenotypes)
    for matched in match_people(open_outcome_table(file), names, samples):
        units, observed = code_within_bounds(matched.values, phenotypes)
        sums += np.stack(
            [
                units.sum(axis=0),
                (units**2 // BOUNDED_UNIT).sum(axis=0),
                BOUNDED_UNIT * observed.sum(axis=0),
            ]
        )
    return RawMoments(sums)
