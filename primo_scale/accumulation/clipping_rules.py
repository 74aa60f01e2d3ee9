"""What becomes of a record that is longer than its public bounds: one rule a privacy unit.

A record has three parts on the lattice: coded genotypes x (in LD blocks x_b), fixed columns c (the
constant, the covariates) and phenotypes y. Each rule is a function of one record and of public
numbers, so it costs no privacy, and ends in integer inequalities that alone carry the guarantee
(docs/maths/clipping-and-integers.md):

==============  ==============================================================================
record          ``||x_b||^2 <= beta_b``, ``||x||^2 <= N_x``, ``||y||^2 <= N_y``. A long x shrinks
                the whole record: weighted least squares, unbiased where y is not clipped too.
predictors      The same, but y keeps its weight: it is public (feature privacy).
phenotypes      x and c are public and stay as they are (label privacy); y is clipped so that
                ``||y||^2 <= N_y`` and ``||x||^2 ||y||^2 <= N_x N_y``.
==============  ==============================================================================

``||c||^2 <= N_c`` holds by the coding of c.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.coding import largest_block_norms
from primo_scale.kernels.clipping import (
    UNCLIPPED,
    clip_rows,
    row_multipliers,
    scale_entries,
)

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]


class LongRecords(StrEnum):
    """Which part of a record that is too long gives way."""

    RECORD = "record"
    PREDICTORS = "predictors"
    PHENOTYPES = "phenotypes"


@dataclass(frozen=True)
class RowRule:
    """A rule with its public bounds; all norms are squared, in lattice units.

    Attributes
    ----------
    long_records
        What gives way.
    row_norm
        N_x.
    block_norms
        beta_b for every LD block, or None: no bound on single blocks.
    fixed_norm, phenotype_norm
        N_c and N_y.
    """

    long_records: LongRecords
    row_norm: int
    block_norms: tuple[int, ...] | None
    fixed_norm: int
    phenotype_norm: int

    def to_json(self) -> dict[str, Any]:
        """Everything that decides the clipped record."""
        return {
            "long_records": str(self.long_records),
            "row_norm": self.row_norm,
            "block_norms": None if self.block_norms is None else list(self.block_norms),
            "fixed_norm": self.fixed_norm,
            "phenotype_norm": self.phenotype_norm,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RowRule:
        """Invert `to_json`."""
        norms = value["block_norms"]
        return cls(
            **{
                **value,
                "long_records": LongRecords(value["long_records"]),
                "block_norms": None if norms is None else tuple(norms),
            }
        )

    def needs_norms(self, largest: Int64) -> bool:
        """Whether any record can be too long, from the largest norm of each block; public."""
        if self.block_norms is not None and (largest > np.array(self.block_norms)).any():
            return True
        return bool(largest.sum() > self.row_norm)

    def shrink(self, norms: Int64) -> tuple[Int64, Int64]:
        """Multipliers over 2^31 of every block, and of the record as a whole.

        Parameters
        ----------
        norms
            ``||x_b||^2`` before clipping, shape (people, blocks).

        Returns
        -------
        blocks : ndarray of int64, shape (people, blocks) or (people, 1)
            One column for all blocks where they have no bounds of their own.
        record : ndarray of int64, shape (people,)

        Notes
        -----
        With r_b the multiplier that brings block b within beta_b, ``p_b = min(||x_b||^2, beta_b)``
        bounds what it leaves, and r brings ``sum p_b`` within N_x. Entries are multiplied once, by
        ``m_b = floor(r_b r / 2^31)``: ``sum_b ||x_b||^2 m_b^2 / 2^62 <= N_x`` and each term is
        within beta_b.
        """
        people, n_blocks = norms.shape
        if self.long_records is LongRecords.PHENOTYPES:
            return _whole(people, 1), _whole(people, 1)[:, 0]
        if self.block_norms is None:
            record = row_multipliers(norms.sum(axis=1), self.row_norm)
            return record[:, None], record
        columns = [row_multipliers(norms[:, b], self.block_norms[b]) for b in range(n_blocks)]
        blocks = np.stack(columns, axis=1)
        left = np.where(blocks == UNCLIPPED, norms, np.array(self.block_norms))
        record = row_multipliers(left.sum(axis=1), self.row_norm)
        return (blocks * record[:, None]) // UNCLIPPED, record

    def clip_outcomes(self, rows: Int16, n_fixed: int, record: Int64, norms: Int64) -> Int16:
        """The outcome side ``(c, y)`` of clipped records.

        Parameters
        ----------
        rows
            Shape (people, q), before clipping.
        n_fixed
            Columns of c.
        record
            Multiplier of each record, from `shrink`.
        norms
            ``||x_b||^2`` before clipping, shape (people, blocks).
        """
        phenotypes = slice(n_fixed, rows.shape[1])
        if self.long_records is LongRecords.RECORD:
            rows = scale_entries(rows, record[:, None])
            return clip_rows(rows, phenotypes, self.phenotype_norm)
        if self.long_records is LongRecords.PREDICTORS:
            rows = rows.copy()
            rows[:, :n_fixed] = scale_entries(rows[:, :n_fixed], record[:, None])
            return clip_rows(rows, phenotypes, self.phenotype_norm)
        return clip_rows(rows, phenotypes, self._phenotype_limits(norms.sum(axis=1)))

    def _phenotype_limits(self, lengths: Int64) -> Int64:
        """Largest ``||y||^2`` beside public genotypes of these squared norms, shape (people,)."""
        limits = np.full(lengths.shape, self.phenotype_norm, dtype=np.int64)
        for person in np.flatnonzero(lengths > self.row_norm):
            # Python integers: the product of two norms has no fixed width.
            limits[person] = self.row_norm * self.phenotype_norm // int(lengths[person])
        return limits


def may_clip(
    rule: RowRule | None, code_table: npt.NDArray[np.int8], boundaries: tuple[int, ...]
) -> bool:
    """Whether any genotypes could be beyond their bounds; a public comparison."""
    return rule is not None and rule.needs_norms(largest_block_norms(code_table, boundaries))


def multiplier_columns(rule: RowRule | None) -> int:
    """Columns of row multipliers: one a block where blocks have bounds of their own."""
    return 1 if rule is None or rule.block_norms is None else len(rule.block_norms)


def _whole(people: int, columns: int) -> Int64:
    return np.full((people, columns), UNCLIPPED, dtype=np.int64)
