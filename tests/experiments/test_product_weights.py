"""The product's solver on simulated statistics, against Gaussian conditioning and closed forms."""

import math

import numpy as np
import pytest

from experiments.gaussian_noise import draw
from experiments.haplotypes import simulate
from experiments.product_methods import STEPS, release
from experiments.product_weights import product_weights, ridge_weights, solution_of
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.methods.linear_algebra import noise_norm
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


def test_known_noise_receives_the_noise_that_remains_after_the_projection():
    """More phenotypes than the genotype rows could make: the noise left follows the projection."""
    crowded = simulate(600, 6, 60, np.random.default_rng(9))
    noisy = noisy_release(crowded, PrivacyUnit.FEATURE, epsilon=1.0)
    known_noise, method = ESTIMATORS["known-noise"], "reuse-cov-proj-y"
    solution = solution_of(noisy, crowded, known_noise, method=method)
    radius = solution.parameters["projection_radius"] ** 2 / STEPS**2
    stated, spread = crowded.n * noisy.bounds.row**2, 3 * noisy.gram_sigma * math.sqrt(6)
    assert radius == pytest.approx(min(stated, noisy.gram.trace() + spread), rel=1e-6)
    # G P for a symmetric P of full rank, which G alone does not settle: P from Y'Y and its norm.
    Y = crowded.phenotypes / noisy.unit
    T = Y.T @ Y
    low, high = 0.0, 1e9
    for _ in range(200):
        nu = (low + high) / 2
        Z = np.linalg.solve(T + nu * np.eye(60), noisy.cross.T)
        low, high = (nu, high) if np.sum(Z * (T @ Z)) > radius else (low, nu)
    P = np.linalg.solve(T + nu * np.eye(60), T)
    assert nu > 0.1 * T.trace() / 60
    left = noisy.cross_sigma * np.sqrt((P**2).sum(axis=0))
    effect, residual = noisy.prior.effect_variance[0], noisy.prior.residual_variance[0]
    values, vectors = np.linalg.eigh(noisy.gram)
    raised = np.maximum(values, 0.3 * noise_norm(noisy.gram_sigma, 6))[:, None]
    share = effect * raised / (effect * raised**2 + residual * raised + left**2)
    expected = vectors @ (share * (vectors.T @ noisy.cross @ P)) * noisy.unit
    ours = product_weights(noisy, crowded, known_noise, method=method)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_a_rule_in_full_solves_its_own_equation(cohort):
    noisy = noisy_release(cohort, PrivacyUnit.FULL)
    floor = noise_norm(noisy.gram_sigma, 6)  # so that every eigenvalue is positive
    values, vectors = np.linalg.eigh(noisy.gram)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    expected = np.linalg.solve(positive + floor * np.eye(6), noisy.cross)
    expected *= cohort.phenotype_sd / noisy.attenuation
    np.testing.assert_allclose(ridge_weights(noisy, floor), expected, rtol=1e-8)
