"""One LD block in the basis of its own eigenvectors, where every rule of shrinkage acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from primo_scale.methods.adjustment import Adjustment
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
    values
        lambda, ascending, the negative and the negligible ones as 0, shape (d_b,).
    vectors
        V, shape (d_b, d_b).
    target
        H, or its projection across phenotypes, shape (d_b, l).
    target_sigma
        Standard deviation of the noise on an entry of each column of the target, shape (l,).
    gram_sigma
        Noise on the diagonal of S.
    """

    block: int
    phenotypes: slice
    fixed_cross: Float64
    values: Float64
    vectors: Float64
    target: Float64
    target_sigma: Float64
    gram_sigma: float


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
    A spectrum holds ``d_b (d_b + l)`` float64; decomposing needs one more square matrix, and the
    integers it was read from another before that.
    """
    layout, copies = adjustment.statistics.layout, adjustment.statistics.gram_copies
    every = slice(0, layout.n_phenotypes)
    groups = [slice(j, j + 1) for j in range(copies)] if copies > 1 else [every]
    across = None if projection is None else _rescaled(projection.matrix, adjustment.rescale)
    for block in range(layout.n_blocks):
        adjusted = adjustment.block(block)
        target, sigma = adjusted.target, adjusted.target_sigma
        if across is not None:
            target, sigma = target @ across, np.sqrt(sigma**2 @ across**2)
        for copy, phenotypes in enumerate(groups):
            values, vectors = _decomposed(*adjustment.gram(adjusted, block, copy))
            yield Spectrum(
                block=block,
                phenotypes=phenotypes,
                fixed_cross=adjusted.fixed_cross,
                values=values,
                vectors=vectors,
                target=vectors.T @ target[:, phenotypes],
                target_sigma=sigma[phenotypes],
                gram_sigma=adjustment.gram_sigma(block),
            )


def _decomposed(symmetric: Float64, rounding: float) -> tuple[Float64, Float64]:
    """Return the floored eigenvalues and the eigenvectors; the matrix is destroyed.

    Its transpose, the same matrix, lies in memory as LAPACK wants it. The driver evr is as fast as
    evd (0.7 s each at d = 2,000 on two cores) in two thirds of the memory.
    """
    values, vectors = scipy.linalg.eigh(
        symmetric.T, driver="evr", overwrite_a=True, check_finite=False
    )
    return floored_at_zero(values, rounding), vectors


def _rescaled(projection: Float64, rescale: Float64) -> Float64:
    """The projection, for columns that have been rescaled."""
    return np.asarray(projection * rescale / rescale[:, None])
