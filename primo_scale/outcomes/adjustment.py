"""Exact Gram matrices of the covariates and each phenotype, by which phenotypes are adjusted.

For every phenotype y, over the people who have it, they are the sums of v v' for v = (c, y): the
constant and the covariates, and the phenotype. A person's rows are scaled down together so that
``sum_j |v_j|^4`` is within a public bound (docs/maths/adjustment.md, Theorem 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.products import row_multipliers, scale_entries
from primo_scale.outcomes.coding import Int16, Int64, OutcomeCoding
from primo_scale.outcomes.store import OutcomeStore

_ROWS = 1 << 13  # at a time: the products of so many codes are exact in float64
# Squared norms are compared in steps of 2^10.
_STEP_BITS = 10
_ENTRY_BITS = 13  # of the largest magnitude of a code in the sums
# The bound on a person's rows, relative to people whose covariates have this mean square, in units
# of their bounds, and whose phenotypes vary as their public sds say. Larger rows count less.
_MARGIN, _MEAN_SQUARE = 1.2, 0.1
_ABOVE = 1 + 2.0**-20  # more than the rounding of a sum of so many squares


@dataclass(frozen=True, eq=False)
class RawAdjustment:
    """Exact Gram matrices. PRIVATE: only `privacy.phenotype_adjustment` may use them."""

    grams: Int64  # of (c, y) for each phenotype, shape (l, f + 1, f + 1)


@dataclass(frozen=True)
class AdjustmentScale:
    """Public scale of the rows (c, y) in the Gram matrices.

    The constant, and every covariate at its farther bound, is about twice a phenotype's public
    standard deviation, and larger than a case of a binary phenotype. A larger scale of the
    phenotypes would need less noise, but more rows would be scaled down, which biases means and
    standard deviations.
    """

    shifts: tuple[int, ...]  # bits by which the codes of each phenotype are divided
    norm: int  # bound N on the root of ``sum_j |v_j|^4`` of a person

    @classmethod
    def of(cls, coding: OutcomeCoding) -> AdjustmentScale:
        """Return the scale for a public coding."""
        n_fixed = 1 + len(coding.covariates)
        largest = coding.max_abs[n_fixed:].tolist()
        kinds = (phenotype.kind for phenotype in coding.phenotypes)
        shifts = tuple(
            max(1, (2 * bound // coding.unit).bit_length(), bound.bit_length() - _ENTRY_BITS)
            if kind == "binary"
            else max(1, bound.bit_length() - _ENTRY_BITS)
            for bound, kind in zip(largest, kinds, strict=True)
        )
        of_fixed = coding.constant**2 * (1 + _MEAN_SQUARE * len(coding.covariates))
        squares = [(of_fixed + (coding.unit / 2**shift) ** 2) ** 2 for shift in shifts]
        return cls(shifts, math.ceil(_MARGIN * math.sqrt(sum(squares))))

    def rows(self, rows: Int16) -> tuple[Int64, Int64]:
        """Return the scaled rows c, shape (people, f), and y, shape (people, l), of coded rows.

        For every person they satisfy ``sum_j (|c|^2 + y_j^2)^2 <= norm^2``, over the phenotypes
        whose code is not 0.
        """
        n_fixed = rows.shape[1] - len(self.shifts)
        fixed = rows[:, :n_fixed].astype(np.int32)
        phenotypes = rows[:, n_fixed:].astype(np.int32)
        phenotypes = np.sign(phenotypes) * (np.abs(phenotypes) >> np.array(self.shifts))
        squares = (fixed.astype(np.int64) ** 2).sum(axis=1)[:, None] + phenotypes.astype(int) ** 2
        steps = np.where(rows[:, n_fixed:] != 0, -(-squares >> _STEP_BITS), 0)
        total = (steps.astype(np.float64) ** 2).sum(axis=1)
        root = (np.sqrt(total) * _ABOVE).astype(np.int64) + 1  # above the exact root
        multipliers = row_multipliers(root << _STEP_BITS, self.norm)[:, None]
        scaled = (scale_entries(part, multipliers) for part in (fixed, phenotypes.astype(np.int32)))
        c, y = (part.astype(np.int64) for part in scaled)
        return c, y


def sum_grams(store: OutcomeStore, scale: AdjustmentScale) -> RawAdjustment:
    """Return the sums over the people of a store who are not held out.

    In the store, a phenotype of 0 is missing, and an observed 0 is stored as 1.
    """
    n_phenotypes = len(scale.shifts)
    n_fixed = store.n_columns - n_phenotypes
    grams = np.zeros((n_phenotypes, n_fixed + 1, n_fixed + 1), dtype=np.int64)
    for start in range(0, store.n_samples, _ROWS):
        rows = store.read_rows(slice(start, min(start + _ROWS, store.n_samples)))
        c, y = scale.rows(rows)
        everybody = _product(c, c)
        grams[:, :-1, :-1] += everybody
        cross = _product(c, y)
        grams[:, :-1, -1] += cross.T
        grams[:, -1, :-1] += cross.T
        grams[:, -1, -1] += (y * y).sum(axis=0)
        missing = rows[:, n_fixed:] == 0
        for j in np.flatnonzero(missing.any(axis=0)):
            without = c[missing[:, j]]
            grams[j, :-1, :-1] -= _product(without, without)
    return RawAdjustment(grams)


def _product(one: Int64, other: Int64) -> Int64:
    """Return the exact product of the transpose of one with the other."""
    product: npt.NDArray[np.float64] = one.T.astype(np.float64) @ other.astype(np.float64)
    return product.astype(np.int64)
