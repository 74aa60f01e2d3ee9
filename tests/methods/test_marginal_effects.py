"""Calibration of published effects and standard errors, on cohorts of known effects."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.methods_examples import MemoryStatistics, inputs_for, with_noise
from support.tiers import thinned

from primo_scale.genotypes.coding import (
    GenotypeCoding,
    MatchCounts,
    MatchedFrequencies,
    reference_coding,
)
from primo_scale.kernels.products import clip_rows
from primo_scale.methods.linear_algebra import missing_rescale
from primo_scale.methods.solve import effects_per_allele, marginal_effects
from primo_scale.outcomes.coding import CovariateCoding, OutcomeCoding, PhenotypeBounds
from primo_scale.privacy.mechanism import no_noise
from primo_scale.privacy.planning import clip_response
from primo_scale.storage.block_matrices import BlockLayout

N, D, BLOCKS = 2000, 1500, (0, 600, 1500)
UNIT, CLIP = 1024, 0.9  # lattice steps to a standard deviation; bound in standard deviations
SD = np.array([2.0, 0.5])  # of the phenotypes
OBSERVED = np.array([1.0, 0.7])
# Lattice value of the constant, and steps to a standard deviation of age: sqrt(l/(1 + 1))/4 sd.
CONSTANT = 256
# Noise on X'Y in units of the standard deviation of sampling, about 16 UNIT sqrt(n).
NOISE_LEVELS = (0.0, 1.0, 4.0)


@dataclass(frozen=True)
class Cohort:
    statistics: object
    genotypes: GenotypeCoding
    outcomes: OutcomeCoding


@cache
def simulated(seed, *, n=N, effect=0.0):
    """Return a cohort in which every 50th variant has an `effect` in sds per allele, or none."""
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.05, 0.95, D)
    public = np.clip(frequency + rng.normal(0, 0.01, D), 0.02, 0.98)
    genotypes = reference_coding(MatchedFrequencies(public, MatchCounts(D, D), Path("panel"), ""))
    dosage = rng.binomial(2, frequency, (n, D))
    X = dosage * genotypes.multiplier.astype(np.int64) - genotypes.centre
    age = rng.normal(size=(n, 1))
    genetic = effect * (dosage - 2 * frequency)[:, ::50].sum(axis=1, keepdims=True)
    left = 1 - 0.3**2 - effect**2 * (2 * frequency * (1 - frequency))[::50].sum()
    y = 0.1 + 0.3 * age + genetic + np.sqrt(left) * rng.normal(size=(n, 2))
    coded = np.trunc(UNIT * np.clip(y, -4, 4)) * (rng.uniform(size=(n, 2)) < OBSERVED)
    Y = clip_rows(coded.astype(np.int16), slice(None), int(2 * (CLIP * UNIT) ** 2))
    fixed = np.hstack([np.full((n, 1), CONSTANT), np.trunc(CONSTANT * age)]).astype(np.int64)
    outcomes = OutcomeCoding(
        CONSTANT,
        (CovariateCoding("AGE", -5.0, 5.0, 0.0, CONSTANT),),
        tuple(PhenotypeBounds(f"Y{k}", -9, 9, 0.0, sd, "quantitative") for k, sd in enumerate(SD)),
        unit=UNIT,
    )
    return Cohort(without_grams(X, np.hstack([fixed, Y])), genotypes, outcomes)


def without_grams(X, Z):
    """Return the statistics but X'X, which no marginal effect needs; sums are exact in float64."""
    layout = BlockLayout(BLOCKS, Z.shape[1] - 2, 2)
    cross = (X.T.astype(np.float64) @ Z).astype(np.int64)
    crosses = tuple(cross[layout.variants(block)] for block in range(layout.n_blocks))
    outcomes = (Z.T.astype(np.float64) @ Z).astype(np.int64)
    return MemoryStatistics(layout, ((np.eye(1, dtype=np.int64),),) * 2, crosses, outcomes)


def published(cohort, rng, *, noise, n=N):
    """Return effects and errors in raw units after noise of a level, in the shares of a release."""
    sigma = noise * 16 * UNIT * np.sqrt(n)
    scales = replace(no_noise(2), phenotype_cross=sigma, phenotype_gram=sigma / 12)
    statistics = with_noise(cohort.statistics, scales, rng)
    rescale = missing_rescale(OBSERVED * n, n)
    inputs = inputs_for(statistics, n, scales=scales, rescale=rescale)
    found = marginal_effects(statistics, inputs, cohort.genotypes.variances)
    response = clip_response(CLIP, (None, None), OBSERVED)
    return effects_per_allele(found, cohort.genotypes, cohort.outcomes, response)


def p_of_uniformity(z):
    return stats.kstest(2 * stats.norm.sf(np.abs(z)), "uniform").pvalue


@pytest.mark.parametrize("noise", thinned(NOISE_LEVELS, every=3))
def test_p_values_are_uniform_without_effects(noise):
    """An error of a tenth in the standard error, in either direction, is rejected."""
    rng = np.random.default_rng(1)
    draws = [published(simulated(seed), rng, noise=noise) for seed in range(3)]
    z = np.array([effect / error for effect, error in draws])
    for phenotype in range(2):
        right = z[..., phenotype].ravel()
        assert p_of_uniformity(right) > 0.01
        assert right.var() == pytest.approx(1, abs=0.07)  # three standard errors of 4,500 values
        assert max(p_of_uniformity(right / 0.9), p_of_uniformity(right / 1.1)) < 1e-3


@pytest.mark.slow
def test_effects_are_unbiased_and_intervals_cover_them():
    """Clipping by the assumed slope, missing values and a covariate included."""
    rng = np.random.default_rng(2)
    effect, n = 0.08, 4000
    draws = [
        published(simulated(seed, n=n, effect=effect), rng, noise=4.0, n=n) for seed in range(5)
    ]
    estimate = np.array([found[::50] / SD for found, _ in draws])
    error = np.array([found[::50] / SD for _, found in draws])
    weight = error**-2
    mean = (weight * estimate).sum() / weight.sum()
    assert mean == pytest.approx(effect, abs=3 * weight.sum() ** -0.5)

    def p_of_coverage(factor):
        inside = int((np.abs(estimate - effect) < 1.96 * factor * error).sum())
        return stats.binomtest(inside, estimate.size, 0.95).pvalue

    assert p_of_coverage(1.0) > 0.01
    assert p_of_coverage(0.8) < 1e-3


def test_exact_statistics_give_the_regression_on_each_variant():
    """Against least squares on the raw rows, with the public variance in place of the sample's."""
    rng = np.random.default_rng(3)
    n, d = 300, D
    X, fixed = rng.integers(-30, 30, (n, d)), rng.integers(-99, 99, (n, 3))
    Y = X[:, :2] * 5 + fixed[:, :2] * 3 + rng.integers(-200, 200, (n, 2))
    statistics = without_grams(X, np.hstack([fixed, Y]))
    variances = rng.uniform(100, 300, d)
    found, errors = marginal_effects(statistics, inputs_for(statistics, n), variances)
    residual = Y - fixed @ np.linalg.lstsq(fixed, Y, rcond=None)[0]
    np.testing.assert_allclose(found, X.T @ residual / (n * variances)[:, None], atol=1e-9)
    error = np.sqrt((residual**2).sum(axis=0) / variances[:, None]) / n
    np.testing.assert_allclose(errors, error, rtol=1e-9)
