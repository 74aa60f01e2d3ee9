"""Public scores as a prior mean, against Gaussian conditioning, regressions and likelihoods."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from support.methods_examples import inputs_for, solved, statistics_of, with_noise

from primo_scale.methods.effects import EffectPrior, PublicScores, shrunk_slopes
from primo_scale.methods.linear_algebra import adjust
from primo_scale.methods.solve import fitted_scores
from primo_scale.privacy.mechanism import no_noise

N, D, BOUNDARIES = 4_000, 24, (0, 10, 24)
RESIDUAL, EFFECT = 300.0**2, 30.0**2


def cohort(seed, n_phenotypes=2):
    rng = np.random.default_rng(seed)
    mixing = np.eye(D) + np.triu(np.full((D, D), 0.2), 1) * (
        np.searchsorted(BOUNDARIES, np.arange(D), "right")[:, None]
        == np.searchsorted(BOUNDARIES, np.arange(D), "right")
    )
    X = np.rint(rng.normal(0, 3, (N, D)) @ mixing).astype(np.int64)
    effects = rng.normal(0, np.sqrt(EFFECT), (D, n_phenotypes))
    Y = np.rint(X @ effects + rng.normal(0, 300, (N, n_phenotypes))).astype(np.int64)
    return X, effects, Y


X, EFFECTS, Y = cohort(1)
EXACT = statistics_of(X, np.full((N, 1), 50), Y, BOUNDARIES)
PRIOR = EffectPrior(np.full(2, EFFECT), np.full(2, RESIDUAL))
OTHER = np.random.default_rng(2).normal(0, 1, (D, 1))  # effects of no phenotype


def inputs(scores=None, used=None, **sigmas):
    """Return inputs with scores that every phenotype uses, unless `used` says otherwise."""
    public = None
    if scores is not None:
        public = PublicScores(scores, np.ones((scores.shape[1], 2), bool) if used is None else used)
    scales = replace(no_noise(2), **sigmas)
    return inputs_for(EXACT, N, prior=PRIOR, scales=scales, scores=public)


def weights(given, statistics=EXACT):
    return solved(statistics, given, estimator="known-noise").genotypes


def test_weights_are_the_posterior_mean_around_the_scores():
    noise = 9e4
    given = inputs(EFFECTS[:, :1], phenotype_cross=noise)
    solution = solved(EXACT, given, estimator="known-noise")
    slopes, left = solution.scores.slopes, solution.scores.left
    rows, outcomes = X - X.mean(axis=0), Y - Y.mean(axis=0)
    for j in range(2):
        for block in (slice(0, 10), slice(10, 24)):
            S, G = rows[:, block].T @ rows[:, block], rows[:, block].T @ outcomes[:, j]
            mean, variance = EFFECTS[block, 0] * slopes[0, j], EFFECT * left[j]
            covariance = variance * S @ S + RESIDUAL * S + noise**2 * np.eye(len(S))
            expected = mean + variance * S @ np.linalg.solve(covariance, G - S @ mean)
            np.testing.assert_allclose(solution.genotypes[block, j], expected, rtol=1e-6, atol=1e-6)


def test_slopes_are_those_of_a_regression_on_the_scores():
    scores = np.hstack([EFFECTS, OTHER])
    used = np.array([[True, True], [False, True], [True, False]])
    one_block = statistics_of(X, np.full((N, 1), 50), Y)
    found = fitted(one_block, replace(inputs(scores, used), scales=no_noise(1)))
    rows, outcomes = (X - X.mean(axis=0)) @ scores, Y - Y.mean(axis=0)
    for j, columns in enumerate(([0, 2], [0, 1])):
        expected = np.linalg.lstsq(rows[:, columns], outcomes[:, j], rcond=None)[0]
        # Shrinkage moves a slope by less than a fifth of its standard error.
        assert (
            np.abs(found.slopes[columns, j] - expected) < 0.2 * found.standard_errors[columns, j]
        ).all()
    np.testing.assert_array_equal(found.slopes[[1, 2], [0, 1]], 0)
    assert found.slopes[0, 0] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("factor", [10, 1e-9, -1, -3e7])
def test_the_unit_and_the_sign_of_a_score_do_not_matter(factor):
    scores = np.hstack([EFFECTS[:, :1], OTHER])
    sigmas = {"phenotype_cross": 1e5, "gram": (2e3, 2e3)}
    noisy = with_noise(EXACT, inputs(**sigmas).scales, np.random.default_rng(4))
    before = weights(inputs(scores, **sigmas), noisy)
    after = weights(inputs(scores * [factor, 1], **sigmas), noisy)
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6 * np.abs(before).max())


@pytest.mark.slow
def test_a_score_without_covariance_with_the_phenotypes_rarely_changes_weights():
    """Slopes within 1.2 standard errors of 0 are 0; the weights are then those without scores."""
    noise, rng = {"phenotype_cross": 1e6}, np.random.default_rng(5)
    response = np.vstack([cross[:, 1:] for cross in EXACT.crosses])
    unchanged, costs = 0, []
    for _ in range(60):
        noisy = with_noise(EXACT, inputs(**noise).scales, rng)
        useless = rng.normal(size=(D, 1))
        useless -= response @ np.linalg.lstsq(response, useless, rcond=None)[0]
        plain, ours = weights(inputs(**noise), noisy), weights(inputs(useless, **noise), noisy)
        unchanged += (plain == ours).all(axis=0).sum()
        costs.append(squared_error(ours) - squared_error(plain))
    assert 75 <= unchanged <= 110  # of 120; 93 are expected, because P(z^2 < 1.5) = 0.78
    assert np.mean(costs) < 0.01 * squared_error(np.zeros((D, 2)))


def squared_error(weights):
    """Return the variance of the error of the genetic values, summed over phenotypes."""
    rows = X - X.mean(axis=0)
    return float(((rows @ (weights - EFFECTS)) ** 2).sum() / N)


@pytest.mark.slow
def test_noise_in_both_statistics_neither_biases_slopes_nor_exceeds_their_errors():
    score = EFFECTS.sum(axis=1, keepdims=True) + OTHER * 20
    sigmas = {"phenotype_cross": 3e5, "gram": (5e3, 5e3)}
    given, rng = inputs(score, **sigmas), np.random.default_rng(6)
    exact = fitted(EXACT, inputs(score)).slopes[0]
    z = []
    for _ in range(200):
        noisy = with_noise(EXACT, given.scales, rng)
        found = fitted(noisy, given)
        z.append((found.slopes[0] - exact) / found.standard_errors[0])
    z = np.array(z)
    assert np.abs(z.mean(axis=0)).max() < 0.25
    # The standard error also counts sampling, which does not vary here.
    assert (z.std(axis=0) < 1.1).all()
    assert (z.std(axis=0) > 0.8).all()


def test_a_score_whose_variance_the_noise_hides_counts_without_ld():
    score = EFFECTS[:, :1]
    sigma = 3e7  # a hundred times the largest eigenvalue
    given = inputs(score, phenotype_cross=1.0)
    hiding = inputs(score, phenotype_cross=1.0, gram=(sigma, sigma))
    rows = X - X.mean(axis=0)
    blocks = (slice(0, 10), slice(10, 24))
    even = sum((rows[:, b] ** 2).sum() / (b.stop - b.start) * (score[b] ** 2).sum() for b in blocks)
    variance = sum(((rows[:, b] @ score[b]) ** 2).sum() for b in blocks)
    covariance = score[:, 0] @ (rows.T @ Y[:, 0])
    # The statistics are exact: only the stated noise hides the variance.
    assert fitted(EXACT, hiding).slopes[0, 0] == pytest.approx(covariance / even, rel=1e-3)
    assert fitted(EXACT, given).slopes[0, 0] == pytest.approx(covariance / variance, rel=1e-3)
    assert abs(even / variance - 1) > 0.1
    hiding = inputs(score, phenotype_cross=1e6, gram=(sigma, sigma))
    for seed in range(4):  # noise that makes traces negative
        noisy = with_noise(EXACT, hiding.scales, np.random.default_rng(seed))
        assert np.isfinite(fitted(noisy, hiding).standard_errors).all()


def fitted(statistics, given):
    adjustment = adjust(statistics, given.scales, given.rescale, gram_factor=1.0)
    return fitted_scores(adjustment, given.prior, None, given.scores)[0]


@pytest.mark.slow
def test_slopes_have_the_prior_variance_of_largest_likelihood():
    rng = np.random.default_rng(7)
    for _ in range(8):
        root = rng.normal(size=(3, 3))
        noise, observed = root @ root.T + 0.1 * np.eye(3), rng.normal(0, 2, 3)
        grid = np.linspace(0, (observed**2).max(), 1001)
        likelihood = [multivariate_normal.logpdf(observed, cov=t * np.eye(3) + noise) for t in grid]
        best = grid[np.argmax(likelihood)]
        expected = best * np.linalg.solve(best * np.eye(3) + noise, observed)
        np.testing.assert_allclose(shrunk_slopes(observed, noise), expected, atol=5e-3)
