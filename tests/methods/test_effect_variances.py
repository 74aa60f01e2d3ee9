"""Variances of the effects by moments, against simulations with known variances."""

from dataclasses import replace

import numpy as np
import pytest
from support.methods_examples import inputs_for, solved, statistics_of, symmetric_noise, with_noise

from primo_scale.methods.effect_variances import fitted_prior, moments_of
from primo_scale.methods.estimators import EffectPrior
from primo_scale.privacy.mechanism import no_noise

SIZES = (40, 60)
EFFECT, RESIDUAL, SIGMA, CROSS = 2.0, 300.0, 90.0, 4_000.0
N_PHENOTYPES = 400
RESIDUALS = np.full(N_PHENOTYPES, RESIDUAL)
PRIOR = EffectPrior(np.full(N_PHENOTYPES, EFFECT), RESIDUALS)
PEOPLE = 1e12  # so many that S explains nothing of a phenotype


def simulated(seed, effect, *, sigma=SIGMA, stated=None):
    """Return the summed moments of two LD blocks, whose noise on S is said to be `stated`."""
    rng = np.random.default_rng(seed)
    blocks = []
    for size in SIZES:
        root = rng.normal(size=(size, size)) @ np.diag(np.geomspace(5, 60, size)) / np.sqrt(size)
        S = root @ root.T
        effects = rng.normal(0, np.sqrt(effect), (size, N_PHENOTYPES))
        G = S @ effects + root @ rng.normal(0, np.sqrt(RESIDUAL), effects.shape)
        G += rng.normal(0, CROSS, G.shape)
        noisy = S + symmetric_noise(size, sigma, rng)
        known = sigma if stated is None else stated
        blocks.append(moments_of(noisy, known, G, np.full(N_PHENOTYPES, CROSS)))
    return blocks[0] + blocks[1]


def fitted_variances(moments):
    return fitted_prior([moments], PRIOR, RESIDUALS, PEOPLE).effect_variance


def means(effect, *, stated=None):
    """Return the mean estimate of each of 40 draws."""
    draws = (simulated(seed, effect, stated=stated) for seed in range(40))
    return np.array([each.estimates(RESIDUALS).mean() for each in draws])


def away(found, expected):
    """Return the distance of a mean from its expectation in standard errors."""
    return abs(found.mean() - expected) / (found.std(ddof=1) / np.sqrt(len(found)))


def test_estimates_are_unbiased_with_noise_in_both_statistics():
    assert away(means(EFFECT), EFFECT) < 4
    assert away(means(0.0), 0.0) < 4
    assert away(means(EFFECT, stated=0.0), EFFECT) > 8  # the noise in S left in
    assert away(means(EFFECT, stated=1.5 * SIGMA), EFFECT) > 8


def test_the_stated_variance_is_that_of_estimates_without_effects():
    moments = simulated(5, 0.0, sigma=0.0)
    found = moments.estimates(RESIDUALS).var() / moments.variances(RESIDUALS).mean()
    assert 0.75 < found < 1.33  # 400 phenotypes: a standard error of 0.07


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_estimates_and_the_prior_are_weighed_by_their_precisions(share):
    moments = simulated(6, share * EFFECT)
    precision = EFFECT**2 / float(moments.variances(RESIDUALS)[0])
    assert 1 < precision < 10  # neither is negligible
    mean = float(fitted_variances(moments).mean()) / EFFECT
    assert abs(mean - (precision * share + 2) / (precision + 2)) < 0.1


def test_without_information_the_prior_remains_and_estimates_are_limited():
    one = simulated(7, EFFECT)
    lost = replace(one, squared_noise=np.full(N_PHENOTYPES, 1e30))
    np.testing.assert_allclose(fitted_variances(lost), EFFECT, rtol=1e-6)
    empty = replace(one, squared_trace=-1.0)
    assert fitted_prior([empty], PRIOR, RESIDUALS, PEOPLE) is PRIOR
    for signal, limit in ((1e30, 3.0), (-1e30, 0.05)):
        far = replace(one, signal=np.full(N_PHENOTYPES, signal))
        found = fitted_prior([far], PRIOR, RESIDUALS, PEOPLE)
        np.testing.assert_allclose(found.effect_variance, limit * EFFECT)
        assert found.n_limited == (N_PHENOTYPES if signal > 0 else 0)


def test_weights_are_those_of_known_noise_with_the_fitted_variances():
    rng = np.random.default_rng(8)
    X = np.rint(rng.normal(0, 4, (3_000, 12))).astype(np.int64)
    Y = np.rint(X @ rng.normal(0, [3.0, 30.0], (12, 2)) + rng.normal(0, 200, (3_000, 2)))
    exact = statistics_of(X, np.full((3_000, 1), 50), Y.astype(np.int64), (0, 5, 12))
    scales = replace(no_noise(2), gram=(300.0, 300.0), phenotype_cross=20_000.0)
    prior = EffectPrior(np.full(2, 300.0), np.full(2, 200.0**2))
    noisy = with_noise(exact, scales, rng)
    given = inputs_for(exact, 3_000, prior=prior, scales=scales)
    solution = solved(noisy, given, estimator="effect-variances")
    fitted = solution.parameters["effect_variance"]
    few, many = solved(noisy, given, estimator="known-noise").weights.genotypes.T
    fitted_few, fitted_many = solution.weights.genotypes.T
    assert fitted_few @ fitted_few < few @ few and fitted_many @ fitted_many > many @ many
    assert fitted != prior.effect_variance.mean()


def test_the_phenotypes_variance_is_theirs_and_not_that_of_their_bounds():
    """With twice the variance in the public bounds, the sampling of people would hide effects."""
    moments = simulated(9, EFFECT)
    for stated, measured in ((2 * RESIDUAL, RESIDUAL), (RESIDUAL / 2, RESIDUAL)):
        prior = EffectPrior(np.full(N_PHENOTYPES, EFFECT), np.full(N_PHENOTYPES, stated))
        found = fitted_prior([moments], prior, np.full(N_PHENOTYPES, measured), PEOPLE)
        np.testing.assert_allclose(found.residual_variance, RESIDUALS)
    far = fitted_prior([moments], prior, np.full(N_PHENOTYPES, 1e9), PEOPLE)
    np.testing.assert_allclose(far.residual_variance, RESIDUAL)  # twice the stated one


def test_what_a_block_explains_of_the_phenotypes_is_no_sampling_noise():
    rng, n, d = np.random.default_rng(10), 600, 200
    X = rng.standard_normal((n, d))
    Y = X @ rng.normal(0, np.sqrt(EFFECT), (d, N_PHENOTYPES))
    Y += rng.normal(0, np.sqrt(RESIDUAL), Y.shape)
    moments = moments_of(X.T @ X, 0.0, X.T @ Y, np.zeros(N_PHENOTYPES))
    variances = (Y**2).mean(axis=0)
    assert moments.of_people(n).estimates(variances).mean() == pytest.approx(EFFECT, rel=0.05)
    assert moments.estimates(variances).mean() < 0.85 * EFFECT
