"""LD blocks in the basis of their eigenvectors, in which every shrinkage rule acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from primo_scale.interruption import check
from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.eigenvectors import eigenvectors
from primo_scale.methods.projection import PhenotypeProjection
from primo_scale.methods.shrinkage import Float64, floored_at_zero


@dataclass(frozen=True)
class Spectrum:
    """Decomposition ``S = V diag(lambda) V'`` and target ``H = V'G`` of one LD block.

    Attributes
    ----------
    block : int
        Index of the block.
    phenotypes : slice
        Phenotypes of the spectrum: all, or a single one if each has its own X'X.
    fixed_cross : ndarray of float64, shape (d_b, f)
        Denoised X_b'C.
    values : ndarray of float64, shape (d_b,)
        Eigenvalues lambda in ascending order; negative and negligible ones are 0.
    vectors : ndarray of float64, shape (d_b, d_b)
        Eigenvectors V.
    target : ndarray of float64, shape (d_b, l)
        Target H, or its projection across phenotypes.
    target_sigma : ndarray of float64, shape (l,)
        Standard deviation of the noise on an entry of each column of the target.
    gram_sigma : float
        Standard deviation of the noise on the diagonal of S.
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
    """Yield the spectra of the blocks, one at a time.

    Parameters
    ----------
    adjustment : Adjustment
        Adjusted statistics. If they hold a copy of X'X per phenotype, each copy is decomposed for
        its phenotype.
    projection : PhenotypeProjection or None
        Projection across phenotypes, for columns without the correction for missing values.

    Yields
    ------
    Spectrum
        Spectrum of one block, or of one phenotype in one block.

    Notes
    -----
    A spectrum holds ``d_b (d_b + l)`` float64 values. The decomposition needs one more square
    matrix; before it, the integers that the matrix is converted from take another.
    """
    layout, copies = adjustment.statistics.layout, adjustment.statistics.gram_copies
    every = slice(0, layout.n_phenotypes)
    groups = [slice(j, j + 1) for j in range(copies)] if copies > 1 else [every]
    across = None if projection is None else _rescaled(projection.matrix, adjustment.rescale)
    for block in range(layout.n_blocks):
        check()
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
    """Return the floored eigenvalues and the eigenvectors of a matrix, which is overwritten."""
    values, vectors = eigenvectors(symmetric)
    return floored_at_zero(values, rounding), vectors


def _rescaled(projection: Float64, rescale: Float64) -> Float64:
    """Return the projection matrix that applies to rescaled columns."""
    return np.asarray(projection * rescale / rescale[:, None])
