"""Ridge regression of every phenotype at once, from block statistics.

For one LD block with lattice genotypes X, fixed columns C (the constant and the covariates, not
penalised) and phenotypes Y::

    minimise over W, B   ||Y - X W - C B||_F^2 + r ||W||_F^2

    S~ = X'X - X'C (C'C)^-1 C'X        (Frisch-Waugh-Lovell: C is eliminated first)
    G~ = X'Y - X'C (C'C)^-1 C'Y
    W  = (S~ + r I)^-1 G~              one eigendecomposition, all phenotypes
    B  = (C'C)^-1 (C'Y - sum over blocks of C'X W)

On private statistics all of this is post-processing. Noise makes S~ indefinite, so its
eigenvalues are floored at zero and r is at least the norm of the noise: docs/maths.md, sections 5
and 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from primo_scale.storage.block_matrices import BlockMatrices

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NoiseScales:
    """Standard deviations of the noise in a set of statistics; all zero where there is none.

    Attributes
    ----------
    gram, outcome_gram
        Of the diagonal of X'X and Z'Z; off the diagonal it is smaller by sqrt(2).
    cross
        Of X'Z.
    """

    gram: float
    cross: float
    outcome_gram: float


@dataclass(frozen=True)
class LatticeWeights:
    """Weights for coded genotypes and coded outcome-side columns.

    Attributes
    ----------
    genotypes
        W, shape (d, l), float64.
    fixed
        B, shape (1 + c, l), float64: the constant, then the covariates.
    ridge
        Penalty r used in each block.
    """

    genotypes: Float64
    fixed: Float64
    ridge: tuple[float, ...]


def noise_norm(sigma: float, size: int) -> float:
    """Bound on the spectral norm of symmetric noise in the svec layout.

    ``P(norm > sigma (sqrt(2 size) + 3))`` is below 1% on either side: docs/maths.md, section 5.
    """
    return sigma * (float(np.sqrt(2 * size)) + 3)


def automatic_ridge(variance: float, heritability: float) -> float:
    """Penalty under which ridge is the posterior mean of equally small effects.

    With lattice genotype variance V in all and Var(y) = 1 lattice unit, effects have variance
    ``h2/V`` and residuals ``1 - h2``: ``r = V (1 - h2)/h2``. Both are public.
    """
    return variance * (1 - heritability) / heritability


def solve_ridge(
    statistics: BlockMatrices,
    noise: NoiseScales,
    rescale: Float64,
    ridge_of_block: Callable[[int], float],
) -> LatticeWeights:
    """Solve every block and every phenotype.

    Parameters
    ----------
    statistics
        X'X by blocks, X'Z and Z'Z; private, or exact for a release stamped NOT PRIVATE.
    noise
        Scales of the noise in them.
    rescale
        Shape (l,): factor on each phenotype's column that makes up for missing values.
    ridge_of_block
        Penalty r for a block of so many variants.
    """
    layout = statistics.layout
    f = layout.n_fixed
    outcome_gram = statistics.outcome_gram().astype(np.float64)
    fixed_inverse = _floored_inverse(outcome_gram[:f, :f], noise_norm(noise.outcome_gram, f))
    fixed_phenotypes = outcome_gram[:f, f:] * rescale
    genotypes = np.empty((layout.n_variants, layout.n_phenotypes))
    residual = fixed_phenotypes.copy()
    ridges = tuple(ridge_of_block(size) for size in layout.sizes)
    for block, ridge in enumerate(ridges):
        cross = statistics.cross(block).astype(np.float64)
        cross_fixed = shrunk_columns(cross[:, :f], noise.cross)
        cross_phenotypes = cross[:, f:] * rescale
        projection = cross_fixed @ fixed_inverse
        gram = statistics.gram(block).astype(np.float64) - projection @ cross_fixed.T
        target = cross_phenotypes - projection @ fixed_phenotypes
        values, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
        weights = ridge_weights(floored_at_zero(values), vectors, target, ridge)
        genotypes[layout.variants(block)] = weights
        residual -= cross_fixed.T @ weights
    return LatticeWeights(genotypes, fixed_inverse @ residual, ridges)


def missing_rescale(observed: Float64, n_samples: int) -> Float64:
    """Factor n / max(n_j, n/10) that undoes the zero filling of missing phenotypes.

    Valid when values are missing completely at random; docs/maths.md, section 6.

    Parameters
    ----------
    observed
        Noisy (or, NOT PRIVATE, exact) number of people with each phenotype, shape (l,).
    n_samples
        Public number of people n.
    """
    return n_samples / np.clip(observed, n_samples / 10, n_samples)


def shrunk_columns(columns: Float64, sigma: float) -> Float64:
    """Positive-part James-Stein estimate of vectors observed with known noise.

    X'C enters the solution twice, so its noise does not average out: left as it is, where X'C is
    mostly noise the weights of the covariates come out at a multiple of what they should be.

    Parameters
    ----------
    columns
        Each a vector with independent noise of standard deviation `sigma`, shape (k, c).
    """
    squared = (columns**2).sum(axis=0)
    noise = max(0, len(columns) - 2) * sigma**2
    share = np.divide(noise, squared, out=np.ones_like(squared), where=squared > 0)
    return columns * np.clip(1 - share, 0, None)


def floored_at_zero(eigenvalues: Float64) -> Float64:
    """Eigenvalues with the negative and the numerically negligible ones set to zero."""
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = len(eigenvalues) * np.finfo(np.float64).eps * largest
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def ridge_weights(
    eigenvalues: Float64, eigenvectors: Float64, target: Float64, ridge: float
) -> Float64:
    """``(V diag(lambda) V' + r I)^-1 G``.

    Parameters
    ----------
    eigenvalues, eigenvectors
        lambda, shape (d,), and V, shape (d, d), of the Gram matrix.
    target
        G, shape (d, l).
    ridge
        r; where ``lambda + r`` is zero the direction gets no weight.
    """
    denominator = eigenvalues + ridge
    factors = np.divide(1.0, denominator, out=np.zeros_like(denominator), where=denominator != 0)
    return np.asarray(eigenvectors @ (factors[:, None] * (eigenvectors.T @ target)))


def _floored_inverse(matrix: Float64, floor: float) -> Float64:
    """Inverse after raising eigenvalues to `floor`; a null direction stays null."""
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    raised = np.maximum(values, floor)
    negligible = len(values) * np.finfo(np.float64).eps * np.abs(raised).max(initial=0.0)
    factors = np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > negligible)
    return np.asarray((vectors * factors) @ vectors.T)
