"""Linear prediction of every phenotype at once, from block statistics.

For one LD block with lattice genotypes X, fixed columns C (the constant and the covariates, not
shrunk) and phenotypes Y::

    S~ = X'X - X'C (C'C)^-1 C'X        (Frisch-Waugh-Lovell: C is eliminated first)
    G~ = X'Y - X'C (C'C)^-1 C'Y
    W  = V diag(f) V' G~,  S~ = V diag(lambda) V'      one eigendecomposition, all phenotypes
    B  = (C'C)^-1 (C'Y - sum over blocks of C'X W)

where f is a rule of `primo_scale.methods.shrinkage`, and eigenvalues that noise made negative
count as zero. On private statistics all of this is
post-processing: docs/maths.md, sections 5 to 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from primo_scale.methods.shrinkage import (
    Float64,
    Shrinkage,
    floored_at_zero,
    noise_norm,
    shrunk_columns,
)
from primo_scale.storage.block_matrices import BlockMatrices


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
    """

    genotypes: Float64
    fixed: Float64


def solve(
    statistics: BlockMatrices, noise: NoiseScales, rescale: Float64, shrinkage: Shrinkage
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
    shrinkage
        Rule applied in each block.
    """
    layout = statistics.layout
    f = layout.n_fixed
    outcome_gram = statistics.outcome_gram().astype(np.float64)
    fixed_inverse = _floored_inverse(outcome_gram[:f, :f], noise_norm(noise.outcome_gram, f))
    fixed_phenotypes = outcome_gram[:f, f:] * rescale
    genotypes = np.empty((layout.n_variants, layout.n_phenotypes))
    residual = fixed_phenotypes.copy()
    for block in range(layout.n_blocks):
        cross = statistics.cross(block).astype(np.float64)
        # X'C enters twice, so its noise would not average out: where X'C is mostly noise, the
        # weights of the covariates would come out at a multiple of what they should be.
        cross_fixed = shrunk_columns(cross[:, :f], noise.cross)
        projection = cross_fixed @ fixed_inverse
        gram = statistics.gram(block).astype(np.float64) - projection @ cross_fixed.T
        target = cross[:, f:] * rescale - projection @ fixed_phenotypes
        values, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
        weights = vectors @ (shrinkage.factors(floored_at_zero(values)) * (vectors.T @ target))
        genotypes[layout.variants(block)] = weights
        residual -= cross_fixed.T @ weights
    return LatticeWeights(genotypes, fixed_inverse @ residual)


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


def _floored_inverse(matrix: Float64, floor: float) -> Float64:
    """Inverse after raising eigenvalues to `floor`; a null direction stays null."""
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    raised = np.maximum(values, floor)
    negligible = len(values) * np.finfo(np.float64).eps * np.abs(raised).max(initial=0.0)
    factors = np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > negligible)
    return np.asarray((vectors * factors) @ vectors.T)
