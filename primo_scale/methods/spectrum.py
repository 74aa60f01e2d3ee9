"""One LD block in the basis of its own eigenvectors, where every rule of shrinkage acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from primo_scale.interruption import check
from primo_scale.methods.adjustment import AdjustedBlock, Adjustment
from primo_scale.methods.eigenvectors import eigenvectors
from primo_scale.methods.projection import PhenotypeProjection
from primo_scale.methods.shrinkage import Float64, floored_at_zero


@dataclass(frozen=True)
class Spectrum:
    """``S = V diag(lambda) V'`` and ``H = V'G`` of one LD block, for some phenotypes.

    Attributes
    ----------
    block
        Which block.
    phenotypes
        Which phenotypes: all, or one where each has an X'X of its own.
    fixed_cross
        X_b'C, shape (d_b, f).
    raw_values
        lambda as computed, ascending, shape (d_b,): noise makes some negative.
    rounding
        Size below which they are rounding error.
    vectors
        V, shape (d_b, d_b).
    measured
        H, shape (d_b, l).
    target
        What is solved for: H, or its projection across phenotypes.
    measured_sigma, target_sigma
        Noise of an entry of each column of them, shapes (l,).
    target_gain
        Share of its own column that each column of the target keeps, shape (l,): 1 without a
        projection.
    gram_sigma
        Noise on the diagonal of S.
    """

    block: int
    phenotypes: slice
    fixed_cross: Float64
    raw_values: Float64
    rounding: float
    vectors: Float64
    measured: Float64
    target: Float64
    measured_sigma: Float64
    target_sigma: Float64
    target_gain: Float64
    gram_sigma: float

    @property
    def values(self) -> Float64:
        """Lambda, the negative and the negligible ones as 0, shape (d_b,)."""
        return floored_at_zero(self.raw_values, self.rounding)


def spectra(adjustment: Adjustment, projection: PhenotypeProjection | None) -> Iterator[Spectrum]:
    """Decompose one block after the other.

    Parameters
    ----------
    adjustment
        Adjusted statistics. Where they hold a copy of X'X for every phenotype, each copy is
        decomposed for its own.
    projection
        Across phenotypes, for their columns as they were before making up for missing values.

    Notes
    -----
    A spectrum holds ``d_b (d_b + 2 l)`` float64; decomposing needs one more square matrix, and the
    integers it was read from another before that.
    """
    layout, copies = adjustment.statistics.layout, adjustment.statistics.gram_copies
    every = slice(0, layout.n_phenotypes)
    groups = [slice(j, j + 1) for j in range(copies)] if copies > 1 else [every]
    across = None if projection is None else _rescaled(projection.matrix, adjustment.rescale)
    for block in range(layout.n_blocks):
        check()
        adjusted = adjustment.block(block)
        wanted = _wanted(adjusted, across)
        for copy, phenotypes in enumerate(groups):
            values, vectors, rounding = _decomposed(*adjustment.gram(adjusted, block, copy))
            measured = vectors.T @ adjusted.target[:, phenotypes]
            yield Spectrum(
                block=block,
                phenotypes=phenotypes,
                fixed_cross=adjusted.fixed_cross,
                raw_values=values,
                rounding=rounding,
                vectors=vectors,
                measured=measured,
                target=measured if across is None else vectors.T @ wanted.target[:, phenotypes],
                measured_sigma=adjusted.target_sigma[phenotypes],
                target_sigma=wanted.sigma[phenotypes],
                target_gain=wanted.gain[phenotypes],
                gram_sigma=adjustment.gram_sigma(block),
            )


def _decomposed(symmetric: Float64, rounding: float) -> tuple[Float64, Float64, float]:
    """Decompose a matrix that nobody else holds, so that its memory is free again afterwards."""
    return *eigenvectors(symmetric), rounding


@dataclass(frozen=True)
class _Wanted:
    """What is solved for in a block: see `Spectrum`."""

    target: Float64
    sigma: Float64
    gain: Float64


def _wanted(adjusted: AdjustedBlock, across: Float64 | None) -> _Wanted:
    """Project, or do not, and follow the noise."""
    if across is None:
        return _Wanted(adjusted.target, adjusted.target_sigma, np.ones(adjusted.target.shape[1]))
    variance = adjusted.target_sigma**2 @ across**2
    return _Wanted(adjusted.target @ across, np.sqrt(variance), across.diagonal())


def _rescaled(projection: Float64, rescale: Float64) -> Float64:
    """The projection, for columns that have been rescaled."""
    return np.asarray(projection * rescale / rescale[:, None])
