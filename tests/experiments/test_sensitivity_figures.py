"""docs/maths/gram.md digit by digit, and its optimum by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments import sensitivity_figures as figures
from primo_scale.gaussian.calibration import mu_for


def test_every_printed_digit():
    assert [figure.what for figure in figures.all_figures() if not figure.agrees] == []
    assert len(figures.all_figures()) == 13


@pytest.mark.parametrize("split", [0.2, 1.0, 2.0])
def test_joint_scales_spend_mu_exactly(split):
    """The worst pair of full-length rows, found by a search over their angle, attains mu."""
    mu = mu_for(5.0, 1 / 5008**2)
    gram, cross = figures.joint_scales(split, mu)
    cosine = np.linspace(0, 1, 100_001)
    shift = (2 - 2 * cosine**2) / gram**2 + (2 + 2 * cosine) / cross**2
    assert math.sqrt(shift.max()) == pytest.approx(mu, rel=1e-9)


def test_the_split_is_the_best_of_a_grid():
    grid = np.linspace(0.01, 2, 2000)
    losses = [figures.first_order_loss(float(split)) for split in grid]
    best, excess = figures.split_claim()
    assert best.value == pytest.approx(grid[int(np.argmin(losses))], abs=1e-3)
    assert excess.value == pytest.approx(losses[-1] / min(losses), rel=1e-4)
