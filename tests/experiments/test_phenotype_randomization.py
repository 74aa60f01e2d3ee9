"""GOPHER's randomizer of phenotypes: guarantee, optimality, and the tests that follow it."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from experiments import gopher
from experiments import phenotype_randomization as gophers
from experiments.reproduction import Task


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 8.0])
def test_no_output_tells_values_apart_by_more_than_epsilon(epsilon):
    randomizer = gophers.best_randomizer(0.1, 0.8, epsilon, gophers.grid_of(0, 1))
    probabilities = randomizer.probabilities()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    ratio = (probabilities.max(axis=0) / probabilities.min(axis=0)).max()
    assert ratio == pytest.approx(math.exp(epsilon))


def loss(prior, grid, probabilities, outputs):
    return (prior[:, None] * probabilities * (grid[:, None] - outputs) ** 2).sum()


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_it_is_the_best_of_all_divisions_into_intervals(epsilon):
    grid = np.linspace(-2, 2, 6)
    prior = norm.pdf(grid, 0.3, 1.0)
    prior /= prior.sum()
    found = gophers.best_randomizer(0.3, 1.0, epsilon, grid)
    best = loss(prior, grid, found.probabilities(), found.output)
    others = []
    for cuts in itertools.product([0, 1], repeat=len(grid) - 1):
        interval = np.concatenate([[0], np.cumsum(cuts)])
        odds = np.ones((len(grid), interval[-1] + 1))
        odds[np.arange(len(grid)), interval] = math.exp(epsilon)
        probabilities = odds / odds.sum(axis=1, keepdims=True)
        weights = prior[:, None] * probabilities
        outputs = (weights * grid[:, None]).sum(axis=0) / weights.sum(axis=0)
        others.append(loss(prior, grid, probabilities, outputs))
    assert best == pytest.approx(min(others))


def test_draws_have_the_stated_probabilities():
    rng = np.random.default_rng(4)
    randomizer = gophers.best_randomizer(0, 1, 2.0, gophers.grid_of(0, 1))
    values = np.full(20_000, randomizer.grid[70])
    shares = [(randomizer.randomize(values, rng) == out).mean() for out in randomizer.output]
    np.testing.assert_allclose(shares, randomizer.probabilities()[70], atol=0.015)


def test_ten_phenotypes_share_the_budget():
    assert gophers.composed_delta(2.0, 0.2, 10) == 0
    assert gophers.composed_delta(1.0, 2.0, 1) == pytest.approx(
        (math.exp(2) - math.e) / (1 + math.exp(2))
    )
    each = gophers.epsilon_of_each(3.0, 0.01, 10)
    assert 0.3 < each < 3.0
    assert gophers.composed_delta(3.0, each, 10) == pytest.approx(0.01)


def test_tests_of_randomized_phenotypes_agree_more_with_more_epsilon():
    rows = pd.DataFrame(gopher.run(Task({"n": 1000, "variants": 100, "l": 1}, range(1))))
    by_lp = rows[rows.method == "GOPHER LP"].set_index("epsilon")
    assert by_lp.correlation[8.0] > 0.95 > by_lp.correlation[1.0]
    released = rows[rows.method == gopher.METHODS[2]].set_index("epsilon")
    assert released.correlation[8.0] > released.correlation[1.0]


def test_priors_of_groups_make_findings_among_variants_without_effect():
    """Phenotypes move towards the score of their group, so that all its variants gain."""
    rng = np.random.default_rng(9)
    genotypes = rng.standard_normal((6000, 60))
    y = genotypes[:, :10] @ np.full(10, 0.2) + math.sqrt(0.6) * rng.standard_normal(6000)
    plain = gophers.by_lp(y, 0, 1, 1.0, rng)[:, None]
    grouped = gophers.by_multi_lp(y, genotypes, (0.0, 1.0), 1.0, rng)[:, None]
    of_others = genotypes[:, 10:]
    assert gopher.tests_of(of_others, plain).mean() == pytest.approx(1, abs=0.5)
    assert gopher.tests_of(of_others, grouped).mean() > 2
