"""Adjusting X'X and X'Y for the fixed columns C: the constant and the covariates.

By Frisch, Waugh and Lovell, weights of X in a regression on X and C, where C is not shrunk, are
those of a regression on what C does not explain::

    S = X'X - X'C (C'C)^-1 C'X
    G = X'Y - X'C (C'C)^-1 C'Y

On noisy statistics this is post-processing (docs/maths/estimation.md, "Covariates").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from primo_scale.methods.shrinkage import Float64, noise_norm
from primo_scale.privacy.mechanism import NoiseScales
from primo_scale.storage.block_matrices import BlockMatrices

# Rows of a Gram matrix that are adjusted at a time: no second matrix of its size is needed.
_ROWS = 1024


@dataclass(frozen=True)
class AdjustedBlock:
    """One LD block, adjusted.

    Attributes
    ----------
    fixed_cross
        X_b'C without what is noise in it, shape (d_b, f).
    projection
        X_b'C (C'C)^-1, shape (d_b, f).
    target
        G, shape (d_b, l).
    target_sigma
        Noise of an entry of G, for each phenotype, shape (l,).
    """

    fixed_cross: Float64
    projection: Float64
    target: Float64
    target_sigma: Float64


@dataclass(frozen=True)
class Adjustment:
    """What C explains, and the statistics that are adjusted for it.

    Attributes
    ----------
    statistics
        X'X by blocks, X'Z and Z'Z; private, or exact for a release stamped NOT PRIVATE.
    scales
        Noise in them.
    rescale
        Factor on each phenotype's column that makes up for missing values, shape (l,).
    gram_factor
        Factor on X'X that makes up for people it was not summed over: 1, or n/s for a subsample.
    fixed_inverse
        (C'C)^-1, shape (f, f), eigenvalues of C'C raised to its noise first.
    fixed_phenotypes
        C'Y, rescaled, shape (f, l).
    """

    statistics: BlockMatrices
    scales: NoiseScales
    rescale: Float64
    gram_factor: float
    fixed_inverse: Float64
    fixed_phenotypes: Float64

    def block(self, block: int) -> AdjustedBlock:
        """Adjust X'Y of one block."""
        n_fixed = self.statistics.layout.n_fixed
        cross = self.statistics.cross(block).astype(np.float64)
        # X'C enters twice, so its noise would not average out: where X'C is mostly noise, the
        # weights of the covariates would come out at a multiple of what they should be.
        kept = _signal_share(cross[:, :n_fixed], self.scales.fixed_cross)
        fixed_cross = cross[:, :n_fixed] * kept
        projection = fixed_cross @ self.fixed_inverse
        target = cross[:, n_fixed:] * self.rescale - projection @ self.fixed_phenotypes
        explained = kept[:, None] * (self.fixed_inverse @ self.fixed_phenotypes)
        variance = (self.scales.phenotype_cross * self.rescale) ** 2
        variance = variance + self.scales.fixed_cross**2 * (explained**2).sum(axis=0)
        return AdjustedBlock(fixed_cross, projection, target, np.sqrt(variance))

    def gram(self, adjusted: AdjustedBlock, block: int, copy: int) -> tuple[Float64, float]:
        """S of one block, shape (d_b, d_b), and the rounding error of its eigenvalues."""
        gram = self.statistics.gram(block, copy).astype(np.float64)
        gram *= self.gram_factor
        rounding = 16 * adjusted.projection.shape[1] * np.finfo(np.float64).eps
        rounding *= float(np.linalg.norm(gram))
        for start in range(0, len(gram), _ROWS):
            rows = slice(start, start + _ROWS)
            gram[rows] -= adjusted.projection[rows] @ adjusted.fixed_cross.T
        return gram, rounding

    def gram_sigma(self, block: int) -> float:
        """Noise on the diagonal of S of one block."""
        return self.gram_factor * self.scales.gram[block]


def adjust(
    statistics: BlockMatrices, scales: NoiseScales, rescale: Float64, *, gram_factor: float
) -> Adjustment:
    """Prepare the adjustment of every block; parameters as in `Adjustment`."""
    f = statistics.layout.n_fixed
    outcome_gram = statistics.outcome_gram()[:f].astype(np.float64)
    return Adjustment(
        statistics=statistics,
        scales=scales,
        rescale=rescale,
        gram_factor=gram_factor,
        fixed_inverse=_floored_inverse(outcome_gram[:, :f], noise_norm(scales.fixed_gram, f)),
        fixed_phenotypes=outcome_gram[:, f:] * rescale,
    )


def _signal_share(columns: Float64, sigma: float) -> Float64:
    """Factor of the positive-part James-Stein estimate of each column, seen with known noise.

    ``max(0, 1 - (k-2) sigma^2 / ||column||^2)``, shape (c,).
    """
    squared = (columns**2).sum(axis=0)
    noise = max(0, len(columns) - 2) * sigma**2
    share = np.divide(noise, squared, out=np.ones_like(squared), where=squared > 0)
    return np.asarray(np.clip(1 - share, 0, None))


def _floored_inverse(matrix: Float64, floor: float) -> Float64:
    """Inverse after raising eigenvalues to `floor`; a null direction stays null."""
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    raised = np.maximum(values, floor)
    negligible = len(values) * np.finfo(np.float64).eps * np.abs(raised).max(initial=0.0)
    factors = np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > negligible)
    return np.asarray((vectors * factors) @ vectors.T)
