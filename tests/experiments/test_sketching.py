"""Iterative Hessian Mixing and BoostedAdaSSP: their accounting, their laws and their figure."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, multivariate_normal

from experiments import sketching, sketching_figures
from experiments.gaussian_noise import draw
from experiments.reproduction import Task
from primo_scale.gaussian.calibration import log_delta, mu_for


def brute_force(with_person, without, k, mu, epsilon, rng, n=400_000):
    """Return delta of k sketch rows and one Gaussian value of shift mu, from their densities.

    The two directions of add-remove are separate.
    """
    laws = [multivariate_normal(cov=with_person), multivariate_normal(cov=without)]
    deltas = []
    for own, other in (laws, laws[::-1]):
        rows = own.rvs((n, k), random_state=rng).reshape(n, k, len(with_person))
        loss = (own.logpdf(rows) - other.logpdf(rows)).reshape(n, k).sum(axis=1)
        loss += mu * rng.standard_normal(n) + mu**2 / 2
        deltas.append(float(np.maximum(0, -np.expm1(epsilon - loss)).mean()))
    return deltas


@pytest.mark.parametrize(("epsilon", "mu"), [(0.3, 0.4), (1.0, 0.8), (0.1, 0.0)])
def test_the_profile_is_that_of_the_sketch_itself(epsilon, mu):
    """All densities in three dimensions, against one chi^2 in the direction of the person."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((5, 3))
    x = rng.standard_normal(3)
    x /= np.linalg.norm(x)
    without = A.T @ A + 2 * np.eye(3)
    whole = without + np.outer(x, x)
    gamma = 1 / (x @ np.linalg.solve(whole, x))
    assert gamma >= np.linalg.eigvalsh(whole)[0]
    k = 4
    found = max(brute_force(whole, without, k, mu, epsilon, rng))
    assert sketching.sketch_delta(epsilon, gamma, k, mu) == pytest.approx(found, rel=0.03)


def test_the_profile_falls_to_that_of_the_gaussian_as_the_eigenvalue_grows():
    deltas = [sketching.sketch_delta(1.0, gamma, 60, 0.3) for gamma in (8, 16, 32, 64)]
    assert deltas == sorted(deltas, reverse=True)
    found = sketching.sketch_delta(1.0, 1e9, 10, 0.7)
    assert math.log(found) == pytest.approx(log_delta(1.0, 0.7), abs=1e-5)


def test_the_published_renyi_bound_is_above_the_exact_profile():
    epsilon, k, gamma = 1.0, 90, 40.0
    orders = np.linspace(1.01, gamma - 0.01, 2000)
    renyi = k / (2 * (orders - 1)) * (orders * np.log(1 - 1 / gamma) - np.log(1 - orders / gamma))
    logs = (orders - 1) * (renyi - epsilon + np.log(1 - 1 / orders)) - np.log(orders)
    exact = sketching.sketch_delta(epsilon, gamma, k, 0.0)
    assert exact < math.exp(logs.min()) < 30 * exact


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_the_noise_spends_the_whole_promise(epsilon):
    delta, rounds, k = 1e-8, 3, 150
    noise = sketching.mixing_noise(epsilon, delta, rounds=rounds, sketch_rows=k)
    mu = math.hypot(math.sqrt(rounds) / noise.gradient, 1 / noise.eigenvalue)
    spent = sketching.sketch_delta(epsilon, noise.gamma, rounds * k, mu)
    overstated = 0.5 * math.erfc(noise.margin / noise.eigenvalue / math.sqrt(2))
    assert 0.99 * delta < spent + overstated <= delta
    # Half of mu^2 alone already needs this much for the residuals.
    assert noise.gradient == pytest.approx(math.sqrt(2 * rounds) / mu_for(epsilon, delta))


def test_sums_of_residuals_move_by_the_clip():
    """Brute force over one added person, at any weights."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        X, Y = rng.standard_normal((6, 3)), 5 * rng.standard_normal((6, 2))
        X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
        weights = rng.standard_normal((3, 2))
        sums = sketching._clipped_slope(X, Y, weights, 0.7)
        moved = np.linalg.norm(sums - sketching._clipped_slope(X[1:], Y[1:], weights, 0.7))
        assert moved <= 0.7 + 1e-12


def test_a_sketch_drawn_by_its_factor_has_the_law_of_the_sketch():
    rng = np.random.default_rng(5)
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    root = np.linalg.cholesky(covariance)
    drawn = np.array([sketching.sketched(root, 7, rng) for _ in range(20_000)])
    assert drawn.mean(axis=0) == pytest.approx(covariance, abs=0.03)
    # A diagonal entry is chi^2 of k degrees of freedom; the other has a known variance.
    assert drawn[:, 0, 0].var() == pytest.approx(4 * chi2.var(7) / 49, rel=0.05)
    assert drawn[:, 0, 1].var() == pytest.approx((2 * 1 + 0.25) / 7, rel=0.05)


def test_with_little_noise_both_reach_least_squares():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((5000, 4)) / 8
    Y = X @ np.ones((4, 1)) + 0.1 * rng.standard_normal((5000, 1))
    exact = np.linalg.lstsq(X, Y)[0]
    noise = sketching.MixingNoise(1e-3, 1e-6, 0.0, 1e-6)
    mixed = sketching.iterative_mixing(X, Y, 3.0, noise, sketching.Mixing(10, 6), 400, rng)
    assert mixed == pytest.approx(exact, abs=1e-3)
    boosted = sketching.boosted_ada_ssp(X, Y, 3.0, (90.0, 1e-3), 10, draw(4, 1, rng), rng)
    assert boosted == pytest.approx(exact, abs=0.1)


def test_mixing_and_boosting_beat_the_printed_ada_ssp_on_few_features():
    rows = pd.DataFrame(
        sketching_figures.run(Task({"data": "features", "K": 25, "l": 1}, range(2)))
    )
    means = sketching_figures.best(rows).groupby(["epsilon", "method"])["R^2"].mean()
    for epsilon in (1.0, 5.0):
        own = means[epsilon]
        assert own["AdaSSP printed"] < own["BoostedAdaSSP"]
        assert own["AdaSSP printed"] < own["IHM"]
        assert own["OLS"] - own["IHM"] < 0.01
