"""Rows of the product: its noise scales, split and shrinkage on simulated haplotypes.

The public parameters are the standard deviation of phenotypes and two norm quantiles: genotype rows
are clipped at the 99% quantile of their norms, and phenotype rows at the 99% quantile of a chi
distribution with l degrees of freedom. With feature privacy phenotypes are public, so By is their
largest norm and they are not clipped. Data are floats here and integers in the product; the sigmas
are those of the product's lattice, with 2^12 steps per unit. The sampler is not the product's
(`gaussian_noise`). `experiments.product_weights` solves for the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from experiments.gaussian_noise import Draws, Float64
from experiments.haplotypes import Cohort
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.effects import EffectPrior
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe, calibrate
from primo_scale.privacy.planning import (
    PRIOR_HERITABILITY,
    PublicSizes,
    choose_phenotype_clip,
    clipped_moments,
    split_for,
)

_QUANTILE = 0.99
STEPS = 2**12  # of the lattice, to one haplotype or one standard deviation of a phenotype


@dataclass(frozen=True, eq=False)
class NoisyStatistics:
    """Noisy X'X, shape (d, d), and X'Y, (d, l), of clipped rows; phenotypes in sds of `unit`.

    The sigmas are those of the noise, that of X'X for the svec layout. Clipping phenotype rows
    multiplies covariances by `attenuation`, and weights are divided by it. `prior` is that of
    effects for a heritability of 0.3.
    """

    gram: Float64
    cross: Float64
    gram_sigma: float
    cross_sigma: float
    attenuation: float
    prior: EffectPrior
    unit: float
    bounds: RowBounds


@dataclass(frozen=True)
class RowBounds:
    """Bounds on the norms of rows: genotypes in haplotypes, phenotypes in standard deviations."""

    row: float
    phenotype: float


def release(
    cohort: Cohort,
    draws: Draws,
    promise: Promise,
    *,
    phenotype_bound: float | None = None,
) -> NoisyStatistics:
    """Clip rows, sum and add noise by the product's joint calibration, under replace-one.

    `phenotype_bound` is By in standard deviations; None stands for the quantile, or, with feature
    privacy, for the largest norm.
    """
    bounds = _bounds(cohort, promise.unit, phenotype_bound)
    gram, cross = _clipped_sums(cohort, bounds, promise.unit)
    gram_sigma, cross_sigma = _scales(cohort, bounds, promise)
    kept, prior = _prior(cohort, bounds, promise.unit)
    return NoisyStatistics(
        gram=gram + gram_sigma * draws.svec,
        cross=cross + cross_sigma * draws.cross,
        gram_sigma=gram_sigma,
        cross_sigma=cross_sigma,
        attenuation=kept,
        prior=prior,
        unit=cohort.phenotype_sd,
        bounds=bounds,
    )


def planned_phenotype_bound(cohort: Cohort, promise: Promise) -> float:
    """Return the planner's bound By in standard deviations, which is often below the quantile."""
    n_phenotypes, row = cohort.cross.shape[1], _row_bound(cohort)

    def cross_sigma_at(phenotype_norm: int) -> float:
        bounds = RowBounds(row, math.sqrt(phenotype_norm) / STEPS)
        return _scales(cohort, bounds, promise)[1] * STEPS**2

    clip = choose_phenotype_clip(_public_sizes(cohort, row), cross_sigma_at)
    return min(clip * math.sqrt(n_phenotypes), math.sqrt(chi2.ppf(_QUANTILE, n_phenotypes)))


def _row_bound(cohort: Cohort) -> float:
    return float(np.quantile(np.linalg.norm(cohort.haplotypes, axis=1), _QUANTILE))


def _bounds(cohort: Cohort, privacy: PrivacyUnit, phenotype_bound: float | None) -> RowBounds:
    if phenotype_bound is None:
        phenotype_bound = math.sqrt(chi2.ppf(_QUANTILE, cohort.cross.shape[1]))
        if privacy is PrivacyUnit.FEATURE:
            norms = [np.linalg.norm(Y, axis=1).max() for _, Y in cohort.parts()]
            phenotype_bound = float(max(norms)) / cohort.phenotype_sd
    return RowBounds(_row_bound(cohort), phenotype_bound)


def _clipped_sums(
    cohort: Cohort, bounds: RowBounds, privacy: PrivacyUnit
) -> tuple[Float64, Float64]:
    """Return X'X and X'Y of clipped rows, phenotypes in standard deviations."""
    gram, cross = np.zeros_like(cohort.gram), np.zeros_like(cohort.cross)
    for haplotypes, phenotypes in cohort.parts():
        X, Y = _clipped(haplotypes, phenotypes / cohort.phenotype_sd, bounds, privacy)
        gram += X.T @ X
        cross += X.T @ Y
    return gram, cross


def _clipped(
    X: Float64, Y: Float64, bounds: RowBounds, privacy: PrivacyUnit
) -> tuple[Float64, Float64]:
    """Apply the product's clipping rules (`primo_scale.accumulation.clipping_rules`) to floats."""
    to_bound = _to_norm(X, bounds.row)
    if privacy is PrivacyUnit.LABEL:
        return X, Y * _to_norm(Y, bounds.phenotype * to_bound)
    if privacy is PrivacyUnit.FEATURE:
        return X * to_bound, Y
    Y = Y * to_bound
    return X * to_bound, Y * _to_norm(Y, bounds.phenotype)


def _to_norm(rows: Float64, norm: Float64 | float) -> Float64:
    """Return the factors, shape (n, 1), that shorten rows to a norm."""
    return np.asarray(
        np.minimum(1, norm / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None])
    )


def _prior(cohort: Cohort, bounds: RowBounds, privacy: PrivacyUnit) -> tuple[float, EffectPrior]:
    """Return the attenuation of covariances by clipping, and the prior of effects under it."""
    n_phenotypes = cohort.cross.shape[1]
    kept, left = 1.0, 1.0
    if privacy is not PrivacyUnit.FEATURE:
        kept, left = map(float, clipped_moments(bounds.phenotype, n_phenotypes))
    effect = PRIOR_HERITABILITY * kept**2 * cohort.n / float(np.trace(cohort.gram))
    ones = np.ones(n_phenotypes)
    return kept, EffectPrior(effect * ones, left * ones)


def _scales(cohort: Cohort, bounds: RowBounds, promise: Promise) -> tuple[float, float]:
    """Return the sigmas of X'X and X'Y from the product's calibration."""
    sizes, public = _public_sizes(cohort, bounds.row), public_bounds(cohort, bounds)
    split = split_for(
        sizes, phenotype_norm=public.phenotype_norm, adjacency=promise.adjacency, block_norm=None
    )
    scales = calibrate(public, promise, Recipe(), split=split).scales
    gram = 0.0 if promise.unit is PrivacyUnit.LABEL else scales.gram[0]
    return gram / STEPS**2, scales.phenotype_cross / STEPS**2


def public_bounds(cohort: Cohort, bounds: RowBounds) -> PublicBounds:
    """Return the bounds of one dense block in lattice units."""
    n_variants, n_phenotypes = cohort.cross.shape
    return PublicBounds(
        row_norm=math.ceil((bounds.row * STEPS) ** 2),
        block_norms=None,
        phenotype_norm=math.ceil((bounds.phenotype * STEPS) ** 2),
        block_sizes=(n_variants,),
        n_samples=cohort.n,
        n_phenotypes=n_phenotypes,
    )


def _public_sizes(cohort: Cohort, row_bound: float) -> PublicSizes:
    n_variants, n_phenotypes = cohort.cross.shape
    return PublicSizes(
        n_samples=cohort.n,
        n_variants=n_variants,
        n_phenotypes=n_phenotypes,
        largest_block=n_variants,
        row_norm=math.ceil((row_bound * STEPS) ** 2),
        variant_variance=float(np.trace(cohort.gram)) / (cohort.n * n_variants) * STEPS**2,
        phenotype_scale=STEPS,
    )
