"""The experiment on the floor of the split, at sizes of seconds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import split_floor
from experiments.mosaic_statistics import HERITABILITY, draw_population


def test_plan_follows_the_product():
    """The first-order t against a grid of a/A + b/D; the planned one stays in its range."""
    cell = split_floor.Cell(2_000, 200, 1, 1)
    population = draw_population(200, 1, 1, np.random.default_rng(1))
    plan = split_floor.make_plan(cell, population)
    weights = HERITABILITY * split_floor._STEPS**2 / (population.coding.variance / 200)
    a = population.row_norm * weights / 2
    b = plan.bounds.outcome_norm
    grid = np.linspace(0.001, 2, 20_000)
    losses = (grid + 2) ** 2 / 2 * (a + b / grid)
    assert plan.first_order == pytest.approx(grid[int(np.argmin(losses))], abs=2e-3)
    assert plan.first_order < 0.2
    assert max(plan.first_order, 0.05) <= plan.planned <= 2


def test_blocks_are_clipped_where_that_helps():
    population = draw_population(400, 4, 1, np.random.default_rng(2))
    plan = split_floor.make_plan(split_floor.Cell(20_000, 400, 4, 1), population)
    assert plan.bounds.block_norms == population.block_norms
    assert 0.25 <= plan.clip <= 6


def test_the_smallest_split_loses_where_noise_dominates():
    """At n = 2,000, d = 100, l = 10 a t of 0.05 is far below 1, paired, six times out of six."""
    cell = split_floor.Cell(2_000, 100, 1, 10)
    found = np.array(
        [split_floor.r_squared_by_split(cell, np.random.default_rng([3, r]))[1] for r in range(6)]
    )
    assert found.shape == (6, len(split_floor.SPLITS) + 1)
    assert (found < HERITABILITY).all()
    one = split_floor.SPLITS.index(1.0)
    assert (found[:, 0] < 0.95 * found[:, one]).all()
