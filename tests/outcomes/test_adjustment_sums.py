"""Gram matrices of covariates and each phenotype: exact sums, and how far a person moves them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.outcomes.coding import CovariateBounds, PhenotypeBounds, code_outcomes
from primo_scale.outcomes.store import AdjustmentScale, sum_grams

LARGEST = 32767


class Rows:
    """Store of outcome rows, as far as the sums read it."""

    def __init__(self, rows):
        self.rows = np.asarray(rows, dtype=np.int16)
        self.n_samples, self.n_columns = self.rows.shape

    def read_rows(self, samples):
        return self.rows[samples]


def gram_of(row, scale):
    """Return what one person adds to every matrix, in the norm of the noise."""
    return sum_grams(Rows([row]), scale).astype(object)


def distance(one, other):
    return float(((one - other) ** 2).sum()) ** 0.5


entries = st.one_of(
    st.integers(-LARGEST, LARGEST), st.sampled_from([0, 1, -1, LARGEST, -LARGEST, 4096])
)
rows = st.lists(entries, min_size=5, max_size=5)
scales = st.builds(
    AdjustmentScale,
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.one_of(st.integers(1, 100), st.integers(1, 2**32)),
)


@settings(max_examples=300, deadline=None)
@given(rows, rows, scales)
def test_no_person_moves_the_matrices_further_than_the_sensitivity(row, other, scale):
    """Three columns c and two phenotypes, of any sign and size, missing ones among them."""
    one, two = gram_of(row, scale), gram_of(other, scale)
    assert distance(one, 0) <= sensitivity.adjustment(scale.norm, Adjacency.ADD_REMOVE)
    assert distance(one, two) <= sensitivity.adjustment(scale.norm, Adjacency.REPLACE_ONE)


def test_every_pair_of_small_rows_is_within_the_sensitivity_and_some_are_near():
    scale = AdjustmentScale((0, 0), 30_000)
    values = (0, 1, -90, 200)
    grams = [
        gram_of((*c, *y), scale)
        for c in product((0, 200), (-200, 90))
        for y in product(values, values)
    ]
    distances = [distance(a, b) for a in grams for b in grams]
    bound = sensitivity.adjustment(scale.norm, Adjacency.REPLACE_ONE)
    assert 0.9 * bound < max(distances) <= bound


def test_rows_of_many_columns_at_their_bounds_keep_the_bound():
    """The sum of the fourth powers is above 64 bits."""
    scale = AdjustmentScale((0,) * 24_000, 2**40)
    rows = np.full((1, 24_300), 8191, dtype=np.int16)
    c, y = scale.rows(rows)
    squares = int((c.astype(object) ** 2).sum()) + y[0].astype(object) ** 2
    assert 0.99 * 2.0**80 < int((squares**2).sum()) <= 2**80


def bounds_of(n_phenotypes, sd):
    return tuple(
        PhenotypeBounds(f"Y{j}", -8.0, 8.0, 0.0, sd, "quantitative") for j in range(n_phenotypes)
    )


@pytest.mark.parametrize("n_phenotypes", [1, 3, 40])
@pytest.mark.parametrize("sd", [0.5, 1.0, 8.0])
def test_rows_of_a_coding_keep_the_bound_and_most_of_their_length(n_phenotypes, sd):
    covariates = [CovariateBounds("age", 40, 70, 55), CovariateBounds("zero", 0, 1, 0)]
    coding = code_outcomes(bounds_of(n_phenotypes, sd), covariates)
    scale, random = AdjustmentScale.of(coding), np.random.default_rng(1)
    rows = random.normal(0, coding.unit, (500, coding.n_columns))
    rows[:, :3] = coding.constant * random.uniform(-1, 1, (500, 3))
    rows[:5] = LARGEST * np.sign(rows[:5])
    rows[:, 0], rows[5:9, 3:] = coding.constant, 0
    limits = np.minimum(coding.max_abs, LARGEST)
    rows = np.clip(rows, -limits, limits).astype(np.int16)
    c, y = scale.rows(rows)
    squares = (c.astype(object) ** 2).sum(axis=1)[:, None] + y.astype(object) ** 2
    fourths = (np.where(rows[:, 3:] != 0, squares, 0) ** 2).sum(axis=1)
    assert (fourths <= scale.norm**2).all()
    assert np.median(fourths[9:].astype(float)) > 0.3 * float(scale.norm) ** 2 * (
        0.2 if sd == 8 else 1
    )


def test_sums_are_those_of_the_rows_of_people_with_each_phenotype():
    random = np.random.default_rng(2)
    scale = AdjustmentScale((0, 1, 3), 10**7)
    rows = random.integers(-4000, 4000, (20_000, 5)).astype(np.int16)
    rows[:, 0] = 2000
    rows[random.random(20_000) < 0.3, 3] = 0
    rows[random.random(20_000) < 0.9, 4] = 0
    rows[random.random(20_000) < 0.1] = 0  # people who are held out
    found = sum_grams(Rows(rows), scale)
    c, y = scale.rows(rows)
    for j in range(3):
        has = rows[:, 2 + j] != 0
        v = np.column_stack([c[has], y[has, j]]).astype(object)
        np.testing.assert_array_equal(found[j], v.T @ v)
