"""Memory that a solution needs, and accuracy that the noise on X'X costs, from public sizes.

The memory is a tight upper bound, as in `primo_scale.accumulation.needs`, so that a
release can be refused before it is paid. Tests compare it with measured peaks.

An LD block of m variants has ``S = N diag(lambda)`` in the basis of its eigenvectors, in which
symmetric noise has the same law. The weights are ``W = F G`` for the filter F of the noisy S with
eigenvalues raised to a share of the noise norm, effects of variance t, residual variance v and
noise of variance s^2 in G. Their scores have the squared correlation ::

    tr(L F S)^2 t / (tr L tr[F L F (t S^2 + v S + s^2 I)]),    L = diag(lambda)

with the genetic values, on average over effects, people and the noise in G. One draw of public
random numbers stands for the noise in S, because the traces of a large matrix hardly vary. Source:
docs/maths/planning.md, "The spectral forecast".
"""

from __future__ import annotations

import math

import numpy as np

from primo_scale.machine import usable_cpus
from primo_scale.methods import linear_algebra
from primo_scale.methods.catalogue import Estimator, Method
from primo_scale.methods.effects import COLUMNS_AT_A_TIME
from primo_scale.storage.block_matrices import BlockLayout

_FLOAT64 = 8
# Number of matrices of (variants of a block, phenotypes) in memory: while a block is solved, and of
# the phenotype before, if each has a decomposition of its own.
_COLUMNS_SOLVING, _COLUMNS_BEFORE = 13, 6
# Matrices of (variants of a block, variants of a block) while LAPACK's ``dsyevd`` decomposes one.
_MATRICES_DECOMPOSING = 5
# Matrices of (variants of a block, phenotypes) for the prior mean of public scores.
_COLUMNS_OF_MEAN = 3
# Numbers for each coordinate of LD components and phenotype, while genetic factors are estimated.
_COORDINATES = 6
# Matrices of (components, variants) of a block that is solved, those of (components, components)
# beside its decomposition, and numbers for each variant of a sampler of effects.
_MAPS, _GRAMS, _OF_A_SAMPLER = 3, 2, 6
# Z'Z and the matrices of its decomposition, for a projection across phenotypes.
_OUTCOME_GRAMS = 5
# Variants of the block that is drawn; its noise has the same norm as that of the block it stands
# for, and its eigenvalues are as many quantiles.
_DRAWN = 256


def effects_bytes(layout: BlockLayout, block_sizes: tuple[int, ...], estimator: Estimator) -> int:
    """Return the further memory of fitting effects and of LD components, in bytes.

    `layout` is that of the statistics, and `block_sizes` are the numbers of variants of each block.
    """
    phenotypes, n_variants = layout.n_phenotypes, sum(block_sizes)
    maps = [m * d for m, d in zip(layout.sizes, block_sizes, strict=True)]
    needed = _OUTCOME_GRAMS * phenotypes**2
    if estimator.fits_variances:
        columns = phenotypes if estimator.fits_factors else min(phenotypes, COLUMNS_AT_A_TIME)
        needed += _COORDINATES * layout.n_variants * columns
    samples = estimator.samples_effects_of(n_variants, phenotypes)
    if samples or layout.sizes != block_sizes:
        solving = (_MAPS * m + _GRAMS * n**2 for m, n in zip(maps, layout.sizes, strict=True))
        needed += sum(sorted(solving)[-usable_cpus() :])
    if samples:
        needed += sum(maps)  # kept twice in float32
        needed += n_variants * (phenotypes + _OF_A_SAMPLER * min(usable_cpus(), phenotypes))
    return _FLOAT64 * needed


def solve_bytes(
    layout: BlockLayout, method: Method, estimator: Estimator, *, n_scores: int = 0
) -> int:
    """Return the memory that solving every phenotype adds to the process, in bytes.

    `n_scores` is the number of public scores, whose effects are in memory already.
    """
    columns = 1 if method.gram_per_phenotype else layout.n_phenotypes

    def spectrum(size: int) -> int:
        """Return the entries of a block's decomposition."""
        return size * (size + columns)

    def entries(size: int) -> int:
        """Return the most entries at a time while a block is solved."""
        solving = spectrum(size) + _COLUMNS_SOLVING * size * columns
        decomposing = size * (_MATRICES_DECOMPOSING * size + 2 * layout.n_outcomes)
        if method.gram_per_phenotype:
            decomposing += spectrum(size) + _COLUMNS_BEFORE * size * columns
        if n_scores:
            solving += _COLUMNS_OF_MEAN * size * columns
            decomposing += size * n_scores
        return max(solving, decomposing)

    large = [entries(size) for size in layout.sizes if size > linear_algebra.LARGEST_SIDE_BY_SIDE]
    small = sorted(
        entries(size) for size in layout.sizes if size <= linear_algebra.LARGEST_SIDE_BY_SIDE
    )
    kept = sum(map(spectrum, layout.sizes)) if estimator.needs_every_spectrum else 0
    weights = layout.n_variants * layout.n_phenotypes
    across = _OUTCOME_GRAMS * layout.n_outcomes**2 if method.projects_phenotypes else 0
    at_once = max(*large, sum(small[-usable_cpus() :]), 0)
    return _FLOAT64 * (at_once + kept + weights + across)


def share_with_noisy_gram(
    eigenvalues: linear_algebra.Float64,
    *,
    size: int,
    gram_sigma: float,
    cross_sigma: float,
    eigenvalue: float,
    effect_variance: float,
    residual_variance: float,
) -> float:
    """Return R^2 with the noise on X'X, as a share of that with the exact X'X.

    Parameters
    ----------
    eigenvalues
        Any number of eigenvalues of the correlation matrix, of mean 1.
    size
        Number of variants of the LD block.
    gram_sigma, cross_sigma
        Standard deviations of the noise on the diagonal of X'X, and s of that on X'Y.
    eigenvalue
        Mean eigenvalue N of X'X without noise.
    effect_variance, residual_variance
        Variances t of an effect and v of a phenotype, in lattice units as all others.
    """
    if gram_sigma == 0:
        return 1.0
    values = np.quantile(eigenvalues, (np.arange(_DRAWN) + 0.5) / _DRAWN) * eigenvalue
    sigma = gram_sigma * math.sqrt(size / _DRAWN)

    def factors(values: linear_algebra.Float64, sigma: float) -> linear_algebra.Float64:
        """Return the factors of the weights for known noise, shape (d,)."""
        floor = linear_algebra.FLOOR_SHARE * linear_algebra.noise_norm(sigma, len(values))
        raised = np.maximum(values, floor)
        signal = effect_variance * raised
        total = signal * raised + residual_variance * raised + cross_sigma**2
        return linear_algebra.quotient(signal, total)

    def squared_correlation(filtered: linear_algebra.Float64) -> float:
        """Return the squared correlation of scores and genetic values, up to a constant."""
        covariance = float(filtered.diagonal() @ values**2)
        in_target = effect_variance * values**2 + residual_variance * values
        variance = float(values @ filtered**2 @ (in_target + cross_sigma**2))
        return covariance**2 / variance

    normal = np.random.Generator(np.random.Philox(key=0)).standard_normal((_DRAWN, _DRAWN))
    noisy = np.diag(values) + (normal + normal.T) * (sigma / 2)
    noisy[np.diag_indices(_DRAWN)] = values + normal.diagonal() * sigma
    found, vectors = np.linalg.eigh(noisy)
    filtered = (vectors * factors(found, sigma)) @ vectors.T
    return squared_correlation(filtered) / squared_correlation(np.diag(factors(values, 0.0)))
