"""Private in-sample R^2 against the exact one, which only a simulation can know."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from methods_examples import (
    inputs_for,
    integer_cohort,
    solved,
    statistics_of,
    with_noise,
)

from primo_scale.methods.estimators import EffectPrior, Estimator
from primo_scale.methods.linear_model import missing_rescale
from primo_scale.privacy.mechanism import NoiseScales, Recipe, no_noise

N, D, L, UNIT = 400, 25, 4, 16
# Five standard errors of a mean: a false alarm once in 1.7 million, were the seeds not fixed.
ALARM = 5


def residual(rows, fixed):
    return rows - fixed @ np.linalg.lstsq(fixed, rows, rcond=None)[0]


def exact_r_squared(X, fixed, Y, W):
    """In-sample R^2 of scores, residuals and all taken about the fixed columns."""
    scores, outcomes = residual(X @ W, fixed), residual(Y, fixed)
    return 1 - ((outcomes - scores) ** 2).sum(axis=0) / (outcomes**2).sum(axis=0)


def dense_cohort(n_phenotypes, n_variants):
    """Correlated lattice genotypes that explain 36% of every phenotype."""
    rng = np.random.default_rng(0)
    mixing = 0.3 * np.tril(rng.normal(size=(n_variants, n_variants))) + np.eye(n_variants)
    X = np.rint(UNIT / 2 * rng.standard_normal((N, n_variants)) @ mixing.T).astype(int)
    genetic = X @ rng.standard_normal((n_variants, n_phenotypes))
    genetic /= genetic.std(axis=0)
    noise = rng.standard_normal((N, n_phenotypes))
    return X, np.full((N, 1), 200), np.rint(300 * (0.6 * genetic + 0.8 * noise)).astype(int)


@dataclass(frozen=True)
class Errors:
    """Of every repetition: estimate minus truth, stated sigmas, and plug-in minus truth."""

    estimated: np.ndarray
    sigma: np.ndarray
    plug_in: np.ndarray

    @staticmethod
    def z(errors):
        """Bias in standard errors; phenotypes of one repetition share noise and count as one."""
        means = errors.mean(axis=1)
        return means.mean() / (means.std(ddof=1) / np.sqrt(len(means)))


def simulate(
    gram,
    cross,
    *,
    method="reuse-cov-gauss",
    estimator=None,
    shape=(D, L),
    repetitions=250,
):
    """Noise of `gram` times the mean eigenvalue in norm, and of `cross` times X'Y."""
    rng = np.random.default_rng(1)
    n_variants, n_phenotypes = shape
    X, fixed, Y = dense_cohort(n_phenotypes, n_variants)
    exact = statistics_of(X, fixed, Y)
    mean_eigenvalue = np.trace(X.T @ X) / n_variants
    size = np.sqrt(((X.T @ Y) ** 2).mean())
    scales = NoiseScales(
        gram=(gram * mean_eigenvalue / np.sqrt(2 * n_variants),),
        fixed_cross=min(cross, 0.3) * size,
        phenotype_cross=cross * size,
        fixed_gram=1e4,
        fixed_phenotype=1e4,
        phenotype_gram=0.003 * (Y[:, 0] ** 2).sum(),
        observed=0.0,
    )
    copies = n_phenotypes if method == "naive" else 1
    errors = []
    for _ in range(repetitions):
        noisy = with_noise(exact, scales, rng, copies=copies)
        inputs = inputs_for(
            noisy,
            N,
            scales=scales,
            unit=UNIT,
            recipe=Recipe(gram_copies=copies),
            penalty=0.3 * mean_eigenvalue,
            prior=EffectPrior(
                np.full(n_phenotypes, 0.36 * 9e4 * N / np.trace(X.T @ X)),
                np.full(n_phenotypes, 0.64 * 9e4),
            ),
        )
        solution = solved(noisy, inputs, method, estimator)
        W = solution.weights.genotypes
        truth = exact_r_squared(X, fixed, Y, W)
        S, G = noisy.gram(0), noisy.cross(0)[:, 1:]
        plug_in = 2 * (W * G).sum(axis=0) - (W * (S @ W)).sum(axis=0)
        plug_in /= noisy.outcome_gram().diagonal()[1:]
        fit = solution.fit
        errors.append((np.array(fit.r_squared) - truth, fit.sigma, plug_in - truth))
    return Errors(*(np.array(part) for part in zip(*errors, strict=True)))


@pytest.mark.parametrize(
    "estimator",
    [Estimator.RIDGE, Estimator.KNOWN_NOISE, Estimator.NOISE_NORM, Estimator.SURE],
)
@pytest.mark.parametrize(("gram", "cross"), [(0.25, 0.15), (1.0, 0.3)])
def test_the_estimate_is_unbiased_and_its_sigma_is_right(estimator, gram, cross):
    errors = simulate(gram, cross, estimator=estimator)
    assert abs(Errors.z(errors.estimated)) < ALARM
    stated, seen = errors.sigma.mean(), errors.estimated.std(axis=0).mean()
    assert stated == pytest.approx(seen, rel=0.3)


@pytest.mark.parametrize("estimator", [Estimator.RIDGE, Estimator.KNOWN_NOISE])
def test_noise_in_either_statistic_would_bias_a_plug_in_estimate(estimator):
    """Each of the two corrections is needed: without it the same alarm goes off."""
    in_cross = simulate(0.0, 0.3, estimator=estimator)
    assert Errors.z(in_cross.plug_in) > 2 * ALARM
    assert abs(Errors.z(in_cross.estimated)) < ALARM
    in_gram = simulate(0.5, 0.0, estimator=estimator)
    assert Errors.z(in_gram.plug_in) > 2 * ALARM
    assert abs(Errors.z(in_gram.estimated)) < ALARM


def test_with_one_variant_the_response_to_noise_is_a_derivative():
    errors = simulate(0.2, 0.0, estimator=Estimator.RIDGE, shape=(1, 40), repetitions=1000)
    assert Errors.z(errors.plug_in) > 1.3 * ALARM
    assert abs(Errors.z(errors.estimated)) < ALARM


def test_sigma_where_weights_are_mostly_noise():
    """Their noise then meets the same noise in X'Y: sqrt(2) more than if it did not."""
    errors = simulate(0.0, 4.0, estimator=Estimator.RIDGE, repetitions=500)
    seen = errors.estimated.std(axis=0).mean()
    assert errors.sigma.mean() == pytest.approx(seen, rel=0.1)


def test_james_stein_is_estimated_to_its_own_error():
    """Its factors follow the noise in X'X too, which first order leaves out: below 0.01 here."""
    errors = simulate(0.25, 0.15, estimator=Estimator.JAMES_STEIN)
    assert abs(errors.estimated.mean()) < 0.01
    assert errors.plug_in.mean() > 0.02
    assert errors.sigma.mean() == pytest.approx(errors.estimated.std(axis=0).mean(), rel=0.2)


def test_a_copy_of_the_gram_for_every_phenotype():
    errors = simulate(0.5, 0.15, method="naive", repetitions=100)
    assert abs(Errors.z(errors.estimated)) < ALARM
    assert Errors.z(errors.plug_in) > ALARM


def test_after_the_projection_by_phenotypes():
    """The projected column keeps part of its own noise; the rest comes from other columns."""
    errors = simulate(0.1, 1.5, method="reuse-cov-proj-y", shape=(D, 30), repetitions=100)
    assert abs(Errors.z(errors.estimated)) < ALARM
    assert Errors.z(errors.plug_in) > 2 * ALARM


def test_without_noise_it_is_the_exact_figure():
    X, C, Y = integer_cohort(200, 15, 2, 3, seed=2)
    fixed = np.hstack([np.full((200, 1), 50), C])
    statistics = statistics_of(X, fixed, Y)
    solution = solved(
        statistics, inputs_for(statistics, 200, penalty=40.0), estimator=Estimator.RIDGE
    )
    W = solution.weights.genotypes
    np.testing.assert_allclose(solution.fit.r_squared, exact_r_squared(X, fixed, Y, W), rtol=1e-9)
    assert solution.fit.sigma == (0, 0, 0)


def test_what_blocks_predict_together_counts_once_for_each():
    """Stated in the module: the covariance between scores of two blocks is left out."""
    X, _, Y = integer_cohort(400, 8, 0, 2, seed=3)
    twice = np.hstack([X, X])
    fixed = np.full((400, 1), 50)
    statistics = statistics_of(twice, fixed, Y, (0, 8, 16))
    solution = solved(
        statistics, inputs_for(statistics, 400, penalty=0.0), estimator=Estimator.RIDGE
    )
    once = exact_r_squared(X, fixed, Y, solution.weights.genotypes[:8])
    np.testing.assert_allclose(solution.fit.r_squared, 2 * once, rtol=1e-9)


def test_missing_values_are_made_up_for():
    X, _, Y = integer_cohort(30000, 6, 0, 2, seed=4)
    Y = Y - np.rint(Y.mean(axis=0)).astype(int)
    fixed = np.full((30000, 1), 50)
    observed = np.random.default_rng(5).random(Y.shape) < [0.5, 0.9]
    statistics = statistics_of(X, fixed, Y * observed)
    rescale = missing_rescale(observed.sum(axis=0).astype(float), 30000)
    inputs = inputs_for(statistics, 30000, penalty=0.0, rescale=rescale)
    solution = solved(statistics, inputs, estimator=Estimator.RIDGE)
    full = exact_r_squared(X, fixed, Y, solution.weights.genotypes)
    # Sampling error of R^2 of some hundredths at 15,000 people is about 2/sqrt(15,000) sqrt(R^2).
    np.testing.assert_allclose(solution.fit.r_squared, full, atol=0.02)


def test_phenotypes_that_are_lost_in_noise_or_constant_have_no_figure():
    X, _, Y = integer_cohort(100, 5, 0, 3, seed=6)
    Y[:, 1] = 17
    Y[:, 2] = 0
    fixed = np.full((100, 1), 50)
    statistics = statistics_of(X, fixed, Y)
    inputs = inputs_for(statistics, 100, penalty=1.0)
    exact = solved(statistics, inputs, estimator=Estimator.RIDGE).fit
    assert exact.r_squared[0] is not None
    assert exact.r_squared[1:] == (None, None)
    assert exact.sigma[1:] == (None, None)
    noise = float((Y[:, 0] ** 2).sum())
    drowned = replace(inputs, scales=replace(no_noise(1), phenotype_gram=noise))
    assert solved(statistics, drowned, estimator=Estimator.RIDGE).fit.r_squared == (
        None,
        None,
        None,
    )
