"""DP-SGD over several outcomes: its accounting, and its steps without noise and with it."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from sklearn.linear_model import LinearRegression, Ridge

from experiments.dp_sgd import Training, dp_sgd, noise_multiplier
from experiments.published_methods import least_squares, ridge
from primo_scale.gaussian.sensitivity import Adjacency

RNG = np.random.default_rng(0)
EPSILON, DELTA = 5.0, 1 / 1797**2


def audited_epsilon(multiplier: float, n_steps: int) -> float:
    """Epsilon of all steps together by dp-accounting."""
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(multiplier), n_steps))
    return accountant.get_epsilon(DELTA)


@pytest.mark.parametrize(("adjacency", "moved"), [(Adjacency.REPLACE_ONE, 2),
                                                  (Adjacency.ADD_REMOVE, 1)])  # fmt: skip
def test_steps_of_all_outcomes_together_keep_the_promise(adjacency, moved):
    n_steps = 30 * 11
    z = noise_multiplier(EPSILON, DELTA, n_steps=n_steps, adjacency=adjacency)
    assert audited_epsilon(z / moved, n_steps) == pytest.approx(EPSILON, rel=2e-3)
    assert audited_epsilon(0.95 * z / moved, n_steps) > 1.03 * EPSILON


def test_steps_without_noise_or_clipping_reach_least_squares(cohort):
    found = dp_sgd(cohort.haplotypes, cohort.phenotypes, Training(2000, 1e9, 0.3), 0.0, RNG)
    np.testing.assert_allclose(found, least_squares(cohort), rtol=1e-6)


def test_no_person_moves_a_step_by_more_than_the_clip(cohort):
    """One step from zero: the sum of clipped gradients, by a loop over people."""
    X, Y, training = cohort.haplotypes, 50 * cohort.phenotypes, Training(1, 0.3, 1.0)
    clip, rate = training.absolute(X, Y)
    expected, n_clipped = np.zeros((6, 5)), 0
    for x, y in zip(X, Y, strict=True):
        gradients = -np.outer(x, y)
        norms = np.linalg.norm(gradients, axis=0)
        n_clipped += (norms > clip).sum()
        expected -= rate / len(X) * gradients * np.minimum(1, clip / norms)
    assert 0 < n_clipped < Y.size
    np.testing.assert_allclose(dp_sgd(X, Y, training, 0.0, RNG), expected)


def test_noise_of_a_step_has_the_stated_scale(cohort):
    X, Y, training = cohort.haplotypes, cohort.phenotypes, Training(1, 0.5, 1.0)
    clip, rate = training.absolute(X, Y)
    rng = np.random.default_rng(2)
    found = np.array([dp_sgd(X, Y, training, 7.0, rng) for _ in range(300)])
    scale = found.std(axis=0).mean() / (7.0 * clip * rate / len(X))
    assert scale == pytest.approx(1, abs=0.05)


def test_non_private_weights_are_those_of_scikit_learn(cohort):
    X, Y = cohort.haplotypes, cohort.phenotypes
    ols = LinearRegression(fit_intercept=False).fit(X, Y).coef_.T
    np.testing.assert_allclose(least_squares(cohort), ols, rtol=1e-9)
    penalised = Ridge(alpha=20.0, fit_intercept=False).fit(X, Y).coef_.T
    np.testing.assert_allclose(ridge(cohort, 20.0), penalised, rtol=1e-9)
    assert not np.allclose(ols, penalised, rtol=0.01)
