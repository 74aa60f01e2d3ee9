"""LD blocks in the basis of their eigenvectors, in which every shrinkage rule acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from primo_scale.interruption import check
from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.eigenvectors import Eigenvectors, eigenvectors
from primo_scale.methods.projection import PhenotypeProjection
from primo_scale.methods.shrinkage import Float64, floored_at_zero


@dataclass(frozen=True)
class Spectrum:
    """Decomposition ``S = V diag(lambda) V'`` and target ``H = V'G`` of one LD block."""

    phenotypes: slice  # all, or a single one if each has its own X'X
    fixed_cross: Float64  # denoised X_b'C, shape (d_b, f)
    # Eigenvalues lambda in ascending order; negative and negligible ones are 0, shape (d_b,).
    values: Float64
    mean_value: float  # mean eigenvalue before any is set to 0
    vectors: Eigenvectors  # V
    target: Float64  # target H, or its projection across phenotypes, shape (d_b, l)
    # Standard deviation of the noise on an entry of each column of the target, shape (l,).
    target_sigma: Float64
    gram_sigma: float  # standard deviation of the noise on the diagonal of S


def spectra_of(
    adjustment: Adjustment, projection: PhenotypeProjection | None, block: int
) -> Iterator[Spectrum]:
    """Yield the spectrum of one block, or its spectrum for each phenotype, one at a time.

    The latter is the case if the statistics hold a copy of X'X per phenotype. The projection
    applies to columns without the correction for missing values.

    A spectrum holds ``d_b (2 d_b + l)`` float64 values, or ``d_b (d_b + l)`` if l is at least half
    of d_b. Before the decomposition, the integers that the matrix is converted from take a square.
    """
    layout, copies = adjustment.statistics.layout, adjustment.statistics.gram_copies
    every = slice(0, layout.n_phenotypes)
    groups = [slice(j, j + 1) for j in range(copies)] if copies > 1 else [every]
    adjusted = adjustment.block(block)
    target, sigma = adjusted.target, adjusted.target_sigma
    if projection is not None:  # of rescaled columns
        rescale = adjustment.rescale
        across = projection.matrix * rescale / rescale[:, None]
        target, sigma = target @ across, np.sqrt(adjusted.noise.along(across))
    for copy, phenotypes in enumerate(groups):
        check()
        gram, rounding = adjustment.gram(adjusted, block, copy)
        values, vectors = eigenvectors(gram, phenotypes.stop - phenotypes.start)
        del gram  # overwritten
        yield Spectrum(
            phenotypes=phenotypes,
            fixed_cross=adjusted.fixed_cross,
            values=floored_at_zero(values, rounding),
            mean_value=float(values.mean()),
            vectors=vectors,
            target=vectors.coordinates(target[:, phenotypes]),
            target_sigma=sigma[phenotypes],
            gram_sigma=adjustment.gram_sigma(block),
        )
