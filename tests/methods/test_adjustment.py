"""The adjustment for covariates and missing values, against least squares and drawn noise."""

from dataclasses import replace

import numpy as np
import pytest
from methods_examples import (
    inputs_for,
    integer_cohort,
    ridge_weights,
    solved,
    statistics_of,
    with_noise,
)

from primo_scale.methods.adjustment import adjust, missing_rescale
from primo_scale.privacy.mechanism import no_noise


def test_the_adjusted_target_carries_the_noise_of_the_fixed_columns():
    """A covariate that explains much of a phenotype adds the noise of its own X'c."""
    rng = np.random.default_rng(1)
    n, d = 500, 40
    covariate = rng.integers(-300, 300, (n, 1))
    X = rng.integers(-1, 2, (n, d)) + np.sign(covariate)
    Y = 3 * covariate * [1, 0] + rng.integers(-300, 300, (n, 2))
    fixed = np.hstack([np.full((n, 1), 100), covariate])
    exact = statistics_of(X, fixed, Y)
    scales = replace(no_noise(1), fixed_cross=2000.0, phenotype_cross=2000.0)
    rescale = np.array([1.0, 2.0])
    clean = adjust(exact, scales, rescale, gram_factor=1.0).block(0).target
    errors, stated = [], []
    for _ in range(200):
        noisy = adjust(with_noise(exact, scales, rng), scales, rescale, gram_factor=1.0).block(0)
        errors.append(noisy.target - clean)
        stated.append(noisy.target_sigma)
    seen = np.std(errors, axis=(0, 1))
    # The first phenotype has three times the covariate's noise in addition to its own; the second
    # has twice its own, because of its missing values. 8,000 entries: five standard errors are 4%.
    np.testing.assert_allclose(seen, [np.sqrt(10) * 2000, 2 * 2000], rtol=0.06)
    np.testing.assert_allclose(np.mean(stated, axis=0), seen, rtol=0.06)


@pytest.mark.parametrize("sigma", [500.0, 20_000.0])
def test_phenotypes_share_the_errors_of_the_fixed_columns(sigma):
    """The covariance of the noise is stated, also where X'C is mostly noise and shrunk."""
    rng = np.random.default_rng(4)
    n, d = 500, 300
    covariate = rng.integers(-300, 300, (n, 1))
    X = rng.integers(-3, 4, (n, d)) + np.rint(np.outer(covariate, rng.standard_normal(d)) / 600)
    Y = covariate * [3, -2, 0] + rng.integers(-300, 300, (n, 3))
    exact = statistics_of(X.astype(int), np.hstack([np.zeros((n, 1), int), covariate]), Y)
    scales = replace(no_noise(1), fixed_cross=sigma, phenotype_cross=2000.0)
    drawn = [
        adjust(with_noise(exact, scales, rng), scales, np.ones(3), gram_factor=1.0).block(0)
        for _ in range(100)
    ]
    errors = np.stack([each.target for each in drawn])
    errors -= errors.mean(axis=0)
    seen = np.einsum("ijk,ijl->kl", errors, errors) / (99 * d)
    stated = np.mean([each.noise.matrix() for each in drawn], axis=0)
    assert seen[0, 1] < -0.1 * seen[0, 0]
    np.testing.assert_allclose(stated, seen, rtol=0.06, atol=0.02 * seen[0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, 1500])
def test_a_gram_is_adjusted_in_chunks_of_rows(rows):
    """Across the boundary of a chunk, against the residuals themselves."""
    rng = np.random.default_rng(2)
    X, fixed = rng.integers(-1, 2, (60, rows)), rng.integers(-9, 9, (60, 3))
    adjustment = adjust(
        statistics_of(X, fixed, fixed[:, :1]), no_noise(1), np.ones(1), gram_factor=1.0
    )
    gram, rounding = adjustment.gram(adjustment.block(0), 0, 0)
    residual = X - fixed @ np.linalg.lstsq(fixed, X, rcond=None)[0]
    np.testing.assert_allclose(gram, residual.T @ residual, atol=1e-9)
    error = np.linalg.norm(gram - residual.T @ residual, 2) if rows < 100 else 0.0
    assert error <= rounding < 1e-9 * np.trace(X.T @ X)


def test_fixed_columns_that_are_noise_are_dropped_and_the_others_kept():
    rng = np.random.default_rng(3)
    covariate = rng.integers(-300, 300, (60, 1))
    X = rng.integers(-1, 2, (60, 2000)) + np.sign(covariate)
    fixed = np.hstack([np.zeros((60, 1), dtype=np.int64), covariate])
    exact = statistics_of(X, fixed, fixed[:, :1])
    scales = replace(no_noise(1), fixed_cross=200.0)
    noisy = with_noise(exact, scales, rng)
    seen = noisy.cross(0)[:, :2]
    kept = adjust(noisy, scales, np.ones(1), gram_factor=1.0).block(0).fixed_cross
    assert (kept[:, 0] ** 2).sum() < 0.02 * (seen[:, 0] ** 2).sum()
    np.testing.assert_allclose(kept[:, 1], seen[:, 1], rtol=0.01)
    clean = adjust(exact, no_noise(1), np.ones(1), gram_factor=1.0).block(0).fixed_cross
    np.testing.assert_array_equal(clean, exact.cross(0)[:, :2])


def test_expected_codes_take_the_place_of_a_noisy_product_with_the_constant():
    rng = np.random.default_rng(5)
    means = rng.normal(0, 0.3, 2000)
    X = np.rint(rng.normal(0, 3, (900, 2000)) + means).astype(int)
    fixed = np.full((900, 1), 100)
    exact = statistics_of(X, fixed, rng.integers(-9, 90, (900, 2)), boundaries=(0, 800, 2000))
    expected = 900 * 100 * means
    errors = []
    for given, scale in ((expected, 1e5), (None, 1e5), (None, 0.0)):
        scales = replace(no_noise(2), fixed_cross=scale)
        noisy = with_noise(exact, scales, np.random.default_rng(6))
        adjustment = adjust(noisy, scales, np.ones(2), gram_factor=1.0, expected_constant=given)
        found = np.concatenate([adjustment.block(b).fixed_cross for b in range(2)])
        errors.append(((found[:, 0] - exact_cross(exact)) ** 2).mean())
    assert errors[0] < 0.4 * errors[1]
    assert errors[2] == 0


def test_products_with_components_of_large_variance_are_kept():
    """The error is that of the posterior mean, less than with one factor for all components."""
    rng = np.random.default_rng(8)
    variances = np.geomspace(400.0, 1.0, 600)
    X = np.zeros((5, 600), dtype=int)
    exact = statistics_of(X, np.full((5, 2), 9), np.full((5, 2), 9), boundaries=(0, 600))
    scales = replace(no_noise(1), fixed_cross=1e4)
    errors = np.zeros((2, 2))
    for _ in range(40):
        true = rng.normal(0, 700 * np.sqrt(variances)[:, None], (600, 2))
        drawn = replace(exact, crosses=(np.hstack([true, true]).astype(int),))
        noisy = with_noise(drawn, scales, rng)
        for number, given in enumerate((variances, None)):
            adjustment = adjust(noisy, scales, np.ones(2), gram_factor=1.0, variances=given)
            errors[number] += ((adjustment.block(0).fixed_cross - true) ** 2).mean(axis=0) / 40
    signal = 700**2 * variances
    best = (signal * 1e8 / (signal + 1e8)).mean()
    np.testing.assert_allclose(errors[0], best, rtol=0.05)
    assert (errors[1] > 1.15 * best).all()
    nothing = with_noise(exact, scales, rng)
    kept = adjust(nothing, scales, np.ones(2), gram_factor=1.0, variances=variances).block(0)
    assert (kept.fixed_cross**2).mean() < 0.05 * 1e8
    clean = adjust(exact, no_noise(1), np.ones(2), gram_factor=1.0, variances=variances).block(0)
    np.testing.assert_array_equal(clean.fixed_cross, 0)


def exact_cross(statistics):
    """Return X'1 of all blocks."""
    return np.concatenate([statistics.cross(block)[:, 0] for block in range(2)])


def test_covariates_are_not_penalised():
    X, C, Y = integer_cohort(300, 25, 3, 4, seed=2)
    fixed = np.hstack([np.full((300, 1), 50), C])
    ours = ridge_weights(statistics_of(X, fixed, Y), 300, 77.0)
    # The same minimiser as one least-squares problem with the penalty as extra rows.
    design = np.vstack(
        [np.hstack([X, fixed]), np.hstack([77.0**0.5 * np.eye(25), np.zeros((25, 4))])]
    )
    expected = np.linalg.lstsq(design, np.vstack([Y, np.zeros((25, 4))]), rcond=None)[0]
    np.testing.assert_allclose(np.vstack([ours.genotypes, ours.fixed]), expected, rtol=1e-7)


def test_missing_values_are_corrected_for():
    """Half of each phenotype missing at random: the same weights, up to sampling."""
    X, _, Y = integer_cohort(40000, 6, 0, 2, seed=7)
    constant = np.full((40000, 1), 50)
    Y = Y - np.rint(Y.mean(axis=0)).astype(np.int64)
    observed = np.random.default_rng(8).random(Y.shape) < 0.5
    statistics = statistics_of(X, constant, Y * observed)
    rescale = missing_rescale(observed.sum(axis=0).astype(float), 40000)
    inputs = inputs_for(statistics, 40000, penalty=0.0, rescale=rescale)
    ours = solved(statistics, inputs, estimator="ridge").weights.genotypes
    full = ridge_weights(statistics_of(X, constant, Y), 40000, 0.0).genotypes
    # Standard errors are sd(y) / sqrt(n var(x)) = 300 sqrt(1.5) / 163 = 2.2 here; five of them.
    np.testing.assert_allclose(ours, full, atol=12)
    assert np.abs(full).max() > 30


def test_missing_rescale_is_bounded():
    np.testing.assert_allclose(
        missing_rescale(np.array([100.0, 50.0, 3.0, -20.0, 130.0]), 100), [1, 2, 10, 10, 1]
    )
