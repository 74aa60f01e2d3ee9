"""The product's methods on simulated statistics: noise scales, and weights against closed forms."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from experiments.gaussian_noise import draw
from experiments.product_methods import release
from experiments.product_weights import product_weights
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.privacy.mechanism import Promise


def noisy_release(cohort, unit, epsilon=2.0):
    n_phenotypes = cohort.cross.shape[1]
    draws = draw(6, n_phenotypes, np.random.default_rng(3))
    return release(cohort, draws, Promise(epsilon, 1e-6, unit))


def test_known_noise_is_the_posterior_mean_in_the_units_of_the_data(cohort):
    noisy = noisy_release(cohort, PrivacyUnit.LABEL)
    effect, residual = noisy.prior.effect_variance[0], noisy.prior.residual_variance[0]
    S = cohort.gram
    covariance = effect * S @ S + residual * S + noisy.cross_sigma**2 * np.eye(6)
    expected = effect * S @ np.linalg.solve(covariance, noisy.cross)
    ours = product_weights(noisy, cohort, ESTIMATORS["known-noise"])
    expected *= cohort.phenotype_sd / noisy.attenuation
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_weights_of_parts_are_those_of_the_whole(cohort, monkeypatch):
    noisy = noisy_release(cohort, PrivacyUnit.FULL)
    whole = product_weights(noisy, cohort, ESTIMATORS["known-noise"])
    monkeypatch.setattr("experiments.product_weights._PHENOTYPES_AT_A_TIME", 2)
    parts = product_weights(noisy, cohort, ESTIMATORS["known-noise"])
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def silent_draws():
    draws = draw(6, 5, np.random.default_rng(0))
    return type(draws)(0 * draws.upper, 0 * draws.svec, 0 * draws.cross)


@pytest.mark.parametrize("unit", list(PrivacyUnit))
def test_noise_scales_spend_the_promise(cohort, unit):
    """The worst pair of rows at the bounds, by search, against the exact profile in scipy."""
    noisy = release(cohort, silent_draws(), Promise(2.0, 1e-6, unit))
    row = np.quantile(np.linalg.norm(cohort.haplotypes, axis=1), 0.99)
    standardised = cohort.phenotypes / cohort.phenotype_sd
    outcome = math.sqrt(chi2.ppf(0.99, 5))
    if unit is PrivacyUnit.FEATURE:
        outcome = np.linalg.norm(standardised, axis=1).max()
    cosine = 1.0 if unit is PrivacyUnit.LABEL else np.linspace(0, 1, 100_001)
    shift = (2 + 2 * cosine) * (row * outcome / noisy.cross_sigma) ** 2
    if unit is not PrivacyUnit.LABEL:
        shift = shift + (2 - 2 * cosine**2) * (row**2 / noisy.gram_sigma) ** 2
    # What the counts of observed phenotypes leave of mu^2.
    rest = 1.0 if unit is PrivacyUnit.FEATURE else 0.99
    mu = math.sqrt(np.max(shift) / rest)
    delta = norm.cdf(mu / 2 - 2 / mu) - math.exp(2) * norm.cdf(-mu / 2 - 2 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-3)
