"""DP-SGD over several outcomes: its accounting, and its steps without noise and with it."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from experiments.dp_sgd import Training, dp_sgd, noise_multiplier
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
