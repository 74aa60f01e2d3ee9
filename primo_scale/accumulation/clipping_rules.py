"""Clipping of records that exceed their public norm bounds: one rule for each privacy unit.

A record has coded genotypes x (in LD blocks x_b) and phenotypes y, adjusted for the covariates, on
the lattice. Each rule is a function of one record and of public
numbers, so that it costs no privacy. Its results satisfy integer inequalities, which the privacy
guarantee rests on (docs/maths/planning.md):

==============  ==============================================================================
record          ``||x_b||^2 <= beta_b``, ``||x||^2 <= N_x``, ``||y||^2 <= N_y``. If x is too long,
                the whole record is scaled down. This is weighted least squares, and unbiased
                unless y is clipped as well.
phenotypes      x and the covariates c are public and not clipped (label privacy). y is clipped so
                that ``||y||^2 <= N_y`` and ``||x||^2 ||y||^2 <= N_x N_y``.
contributions   Every phenotype has columns x_k of its own (docs/maths/rounds.md). Only y is scaled,
                so that ``sum_k y_k^2 ||x_k||^2 <= N_x N_y``.
==============  ==============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from primo_scale.kernels import products
from primo_scale.kernels.products import UNCLIPPED, Int16, Int64


@dataclass(frozen=True)
class ClippingRule:
    """Clipping rule with its public bounds, which are squared norms in lattice units."""

    # Part of a record that is clipped if the record is too long.
    long_records: Literal["record", "phenotypes", "contributions"]
    row_norm: int  # N_x, of all genotypes of a record
    block_norms: tuple[int, ...] | None  # beta_b, of the genotypes of each LD block
    phenotype_norm: int  # N_y, of the phenotypes
    # Whether Y'Y is published without noise: then no genotype may change it, and records in it are
    # not scaled.
    exact_phenotype_gram: bool = False

    def needs_norms(self, largest: Int64) -> bool:
        """Return whether any record can be too long, given the `largest` ||x_b||^2 of each block.

        The answer is public.
        """
        if self.block_norms is not None and (largest > np.array(self.block_norms)).any():
            return True
        return bool(largest.sum() > self.row_norm)

    def shrink(self, norms: Int64) -> tuple[Int64, Int64]:
        """Return the multipliers of every block and of the whole record, in units of 2^-31.

        The norms ``||x_b||^2`` before clipping have the shape (people, blocks). So have the
        multipliers of blocks, but for one column if blocks have no bounds of their own; those of
        records have the shape (people,).

        The multiplier r_b brings block b within beta_b, so that ``p_b = min(||x_b||^2, beta_b)``
        bounds the block's new squared norm. The multiplier r brings ``sum p_b`` within N_x.
        Entries are multiplied once, by ``m_b = floor(r_b r / 2^31)``. Then
        ``sum_b ||x_b||^2 m_b^2 / 2^62 <= N_x``, and each term is within beta_b.
        """
        people, n_blocks = norms.shape
        if self.long_records != "record":
            record = np.full(people, UNCLIPPED, dtype=np.int64)
            return record[:, None], record
        if self.block_norms is None:
            record = products.row_multipliers(norms.sum(axis=1), self.row_norm)
            return record[:, None], record
        columns = [
            products.row_multipliers(norms[:, b], self.block_norms[b]) for b in range(n_blocks)
        ]
        blocks = np.stack(columns, axis=1)
        left = np.where(blocks == UNCLIPPED, norms, np.array(self.block_norms))
        record = products.row_multipliers(left.sum(axis=1), self.row_norm)
        return (blocks * record[:, None]) // UNCLIPPED, record

    def clip_outcomes(
        self, rows: Int16, n_fixed: int, record: Int64, norms: Int64, *, phenotype_step: int = 1
    ) -> Int16:
        """Return the outcome columns ``(c, y)`` of clipped records, shape (people, q).

        `n_fixed` is the number of columns of c, `record` the multipliers of records from `shrink`,
        and `norms` its argument. Phenotypes become multiples of `phenotype_step`.
        """
        phenotypes = slice(n_fixed, rows.shape[1])
        limit: int | Int64 = self.phenotype_norm
        if self.long_records == "record":
            rows = products.scale_entries(rows, record[:, None])
        else:
            limit = self._phenotype_limits(norms.sum(axis=1))
        return products.clip_rows(rows, phenotypes, limit, phenotype_step)

    def clip_contributions(self, phenotypes: Int16, norms: Int64) -> Int16:
        """Return scaled phenotypes, shape (people, l), given the ``||x_k||^2`` of each of them.

        The float64 sum of l positive terms has a relative error below l 2^-52, which is far below
        2^-20, so that every length is an upper bound.
        """
        contributions = (phenotypes.astype(np.float64) ** 2 * norms).sum(axis=1)
        lengths = np.floor(contributions * (1 + 2.0**-20)) + 1
        record = products.row_multipliers(lengths, self.row_norm * self.phenotype_norm)
        return products.scale_entries(phenotypes, record[:, None])

    def _phenotype_limits(self, lengths: Int64) -> Int64:
        """Return the bound on ``||y||^2`` for each ``||x||^2`` in `lengths`, shape (people,)."""
        limits = np.full(lengths.shape, self.phenotype_norm, dtype=np.int64)
        for person in np.flatnonzero(lengths > self.row_norm):
            # Python integers, because the product of two norms can exceed 64 bits.
            limits[person] = self.row_norm * self.phenotype_norm // int(lengths[person])
        return limits


def multiplier_columns(rule: ClippingRule | None) -> int:
    """Return the number of row multipliers per person: one per block if blocks have bounds."""
    return 1 if rule is None or rule.block_norms is None else len(rule.block_norms)
