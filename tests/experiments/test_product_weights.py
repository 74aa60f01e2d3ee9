"""The product's solver on simulated statistics, against Gaussian conditioning and closed forms."""

import numpy as np

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
