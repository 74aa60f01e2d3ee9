"""Ridge of the thesis: its numbers, the constants of this project, and PRIMO's reference vector."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.methods_examples import MemoryStatistics, inputs_for, solved

from primo_scale.methods.linear_algebra import noise_norm
from primo_scale.papers.estimators import eigenvalue_bound
from primo_scale.privacy.mechanism import NoiseScales
from primo_scale.storage.block_matrices import BlockLayout

VECTORS = Path(__file__).parents[1] / "reference" / "vectors"
VECTOR = np.load(VECTORS / "10_thesis.npz")


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
    return np.linalg.solve(gram + penalty * np.eye(len(gram)), target)


def test_ssp_matches_the_thesis():
    scale = classical(float(VECTOR["eps"]) / 2, float(VECTOR["delta"]) / 2)
    ours = solve_ridge(*thesis_statistics(scale), 1.0)
    np.testing.assert_allclose(ours, VECTOR["out_ssp"], rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.05, 0.2, 0.6])
def test_adaptive_ridge_matches_the_thesis(gamma):
    """The formula is that of the product; only the constants differ."""
    ridge, smallest = VECTOR[f"out_lam_{gamma:g}"]
    share = (1 - gamma) / 2
    scale = classical(share * float(VECTOR["eps"]), share * float(VECTOR["delta"]))
    penalty = product_penalty("ada-ssp", ridge + smallest, smallest)
    ours = solve_ridge(*thesis_statistics(scale), penalty)
    np.testing.assert_allclose(ours, VECTOR[f"out_budget_{gamma:g}"], rtol=1e-9)


def product_penalty(method, norm, smallest, unit=1):
    """Return the penalty of a method for a noise norm and a bound on the smallest eigenvalue."""
    layout = BlockLayout((0, 2), 0, 1)
    statistics = MemoryStatistics(
        layout, ((np.eye(2),),), (np.ones((2, 1)),), np.eye(1), eigenvalue=smallest
    )
    scales = NoiseScales((norm / noise_norm(1.0, 2),), 0.0, 0.0, 0.0)
    inputs = inputs_for(statistics, 2, scales=scales, unit=unit)
    return solved(statistics, inputs, method).penalties[0]


def test_penalties_are_in_lattice_units():
    assert product_penalty("ssp", 1000.0, 300.0, unit=16) == 256
    assert product_penalty("ada-ssp", 1000.0, 300.0, unit=16) == pytest.approx(956)
    assert product_penalty("ada-ssp", 1000.0, 3000.0, unit=16) == 256


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
