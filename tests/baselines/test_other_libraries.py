"""Opacus and diffprivlib, from ``make baselines``, against the closed forms of experiments."""

import numpy as np
import pytest

from experiments.dp_sgd import Training, dp_sgd, noise_multiplier
from experiments.haplotypes import simulate
from experiments.other_libraries import INSTALLED, fit_by
from experiments.published_methods import least_squares
from primo_scale.gaussian.sensitivity import Adjacency

RNG = np.random.default_rng(0)
EPSILON, DELTA = 5.0, 1e-6

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _environment():
    if not INSTALLED:
        pytest.skip("Opacus is not on this machine (make baselines)")


@pytest.fixture
def cohort():
    return simulate(600, 6, 2, np.random.default_rng(1))


def by_opacus(cohort, training, **others):
    X, Y = cohort.haplotypes, cohort.phenotypes
    clip, rate = training.absolute(X, Y)
    inputs = {"X": X, "Y": Y, "steps": training.steps, "clip": clip, "rate": rate, "seed": 1}
    return fit_by("opacus_dp_sgd", **inputs, epsilon=EPSILON, delta=DELTA, **others)


def test_steps_are_those_of_opacus(cohort):
    training = Training(steps=25, clip=0.5, rate=0.5)
    ours = dp_sgd(cohort.haplotypes, cohort.phenotypes, training, 0.0, RNG)
    theirs = by_opacus(cohort, training, multiplier=0.0)
    np.testing.assert_allclose(ours, theirs.weights, rtol=1e-5)


def test_noise_of_a_step_is_that_of_opacus():
    """One step for 300 outcomes of zero: the weights are the noise alone."""
    cohort = simulate(600, 6, 300, np.random.default_rng(1))
    training = Training(steps=1, clip=0.5, rate=1.0)
    clip, rate = training.absolute(cohort.haplotypes, cohort.phenotypes)
    start = dp_sgd(cohort.haplotypes, cohort.phenotypes, training, 0.0, RNG)
    noise = by_opacus(cohort, training, multiplier=7.0).weights - start
    assert noise.std() / (7.0 * clip * rate / cohort.n) == pytest.approx(1, abs=0.06)


def test_its_accountant_asks_for_a_little_more_noise_than_the_exact_one(cohort):
    fitted = by_opacus(cohort, Training(steps=30, clip=0.5, rate=0.5))
    exact = noise_multiplier(EPSILON, DELTA, n_steps=60, adjacency=Adjacency.ADD_REMOVE)
    assert 1.0 < fitted.multiplier / exact < 1.1


def test_diffprivlib_without_much_noise_is_least_squares(cohort):
    bounds = {"x_bounds": np.abs(cohort.haplotypes).max(axis=0), "y_bound": 50.0}
    data = {"X": cohort.haplotypes, "Y": cohort.phenotypes, "seed": 1}
    found = fit_by("diffprivlib_regression", **data, **bounds, epsilon=1e9)
    np.testing.assert_allclose(found.weights, least_squares(cohort), atol=1e-3)
    noisy = fit_by("diffprivlib_regression", **data, **bounds, epsilon=5.0)
    assert not np.allclose(noisy.weights, found.weights, atol=0.1)
