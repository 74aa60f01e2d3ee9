"""The SSP family: the numbers of the thesis, and the constants of this project."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from primo_scale.methods.estimators import EffectPrior, EstimatorInputs
from primo_scale.methods.rules import eigenvalue_bound, eigenvalue_ridge, unit_ridge
from primo_scale.methods.shrinkage import Ridge, noise_norm

RHO = 0.05
VECTOR = np.load(Path(__file__).parents[1] / "reference" / "vectors" / "10_thesis.npz")


def classical(epsilon, delta):
    """The thesis' sigma for sensitivity 1."""
    return math.sqrt(2 * math.log(2 / delta)) / epsilon


def thesis_statistics(scale):
    """Noisy X'X and X'y of the vector; its rows have norms of at most 1 on both sides."""
    X, y = VECTOR["X"], VECTOR["y"]
    upper = np.triu(VECTOR["Zsym"])
    noise = upper + np.triu(upper, 1).T
    return X.T @ X + scale * noise, X.T @ y + scale * VECTOR["zr"]


def solve_ridge(gram, target, penalty):
    values, vectors = np.linalg.eigh(gram)
    H = vectors.T @ target[:, None]
    return (vectors @ (Ridge(penalty).factors(values, H) * H))[:, 0]


def thesis_penalty(gamma):
    """lambda and the private lower bound on the smallest eigenvalue of adaSSPbudget."""
    epsilon, delta, d = float(VECTOR["eps"]), float(VECTOR["delta"]), VECTOR["X"].shape[1]
    necessary = ((1 - gamma) * epsilon / 2, (1 - gamma) * delta / 2)
    bound = 0.0
    if gamma > 0:
        smallest = np.linalg.eigvalsh(VECTOR["X"].T @ VECTOR["X"] + np.eye(d))[0]
        sigma = classical(gamma * epsilon, gamma * delta)
        excess = sigma * math.sqrt(2 * math.log(2 / (gamma * delta)))
        bound = max(smallest + sigma * float(VECTOR["ze"]) - excess, 0.0)
    norm = classical(*necessary) * math.sqrt(d * math.log(2 * d**2 / RHO))
    return max(0.0, norm - bound), bound, classical(*necessary)


def test_ssp_matches_the_thesis():
    scale = classical(float(VECTOR["eps"]) / 2, float(VECTOR["delta"]) / 2)
    ours = solve_ridge(*thesis_statistics(scale), 1.0)
    np.testing.assert_allclose(ours, VECTOR["out_ssp"], rtol=1e-9)


@pytest.mark.parametrize(
    ("gamma", "name"),
    [
        (1 / 3, "out_adassp"),
        (0.05, "out_budget_0.05"),
        (0.2, "out_budget_0.2"),
        (0.6, "out_budget_0.6"),
        (0.0, "out_const"),
    ],
)
def test_adaptive_ridge_matches_the_thesis(gamma, name):
    penalty, bound, scale = thesis_penalty(gamma)
    ours = solve_ridge(*thesis_statistics(scale), penalty + 1)
    np.testing.assert_allclose(ours, VECTOR[name], rtol=1e-9)
    chosen = f"out_lam_{gamma:g}"
    if chosen in VECTOR:
        np.testing.assert_allclose([penalty, bound], VECTOR[chosen], rtol=1e-9)
    # The formula is that of the product; only the constants differ.
    norm = penalty + bound
    assert product_penalty(eigenvalue_ridge, norm, bound) == pytest.approx(penalty + 1)


def product_penalty(rule, norm, smallest, unit=1):
    """Penalty of a rule for a noise norm and a bound on the smallest eigenvalue."""
    spectrum = SimpleNamespace(values=np.ones(2), gram_sigma=norm / noise_norm(1.0, 2))
    prior = EffectPrior(np.ones(1), np.ones(1))
    return rule(spectrum, EstimatorInputs(prior, 0.0, unit, smallest)).penalty


def test_penalties_are_in_lattice_units():
    assert product_penalty(unit_ridge, 1000.0, 300.0, unit=16) == 256
    assert product_penalty(eigenvalue_ridge, 1000.0, 300.0, unit=16) == pytest.approx(956)
    assert product_penalty(eigenvalue_ridge, 1000.0, 3000.0, unit=16) == 256


def test_the_eigenvalue_bound_fails_within_its_stated_probability():
    """A bound with a slack of sigma sqrt(2 log(2/delta)) fails with probability delta/2 at most."""
    rng = np.random.default_rng(1)
    delta, sigma, true = 0.2, 30.0, 1000.0
    bounds = [eigenvalue_bound(true + sigma * z, sigma, delta) for z in rng.standard_normal(20000)]
    failures = np.mean(np.array(bounds) > true)
    # The exact probability is Phi(-sqrt(2 log 10)) = 0.0159, below delta/2 = 0.1; five sigmas.
    assert failures == pytest.approx(0.01594, abs=5 * math.sqrt(0.016 / 20000))
    assert eigenvalue_bound(-50.0, 30.0, delta) == 0
    assert eigenvalue_bound(None, 30.0, delta) == 0


def test_ridge_beyond_the_smallest_eigenvalue_makes_a_noisy_gram_positive_definite():
    """Noisy X'X + penalty is nearly always positive definite; noisy X'X alone hardly ever is."""
    rng = np.random.default_rng(2)
    d, sigma = 30, 40.0
    smallest = 0.2 * noise_norm(sigma, d)
    penalty = product_penalty(eigenvalue_ridge, noise_norm(sigma, d), smallest)
    E = rng.normal(0, sigma, (500, d, d))
    lowest = np.linalg.eigvalsh((E + E.transpose(0, 2, 1)) / 2)[:, 0] + smallest
    assert (lowest + penalty > 0).mean() > 0.97
    assert (lowest > 0).mean() < 0.5
