"""The joint shift of dense statistics, compared with brute force over integer rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.neighbours import (
    ADD,
    BOTH,
    REPLACE,
    assert_bound,
    largest_change,
    largest_shift,
    outer,
    paired_rows,
    rows_within,
)

from experiments.accounting import pair
from primo_scale.gaussian import sensitivity

# Columns and norm of x, columns and norm of z.
SHAPES = [(1, 9, 1, 4), (2, 4, 1, 9), (2, 4, 2, 4), (3, 4, 1, 4), (2, 0, 2, 4), (2, 5, 2, 0)]


def pairs_of(shape):
    n_columns, row_norm, n_outcomes, outcome_norm = shape
    return paired_rows(rows_within(n_columns, row_norm), rows_within(n_outcomes, outcome_norm))


# Integer rows of two columns within a norm of 1000^2, in all directions.
ANGLES = np.linspace(0, 2 * np.pi, 241)
CIRCLE = np.trunc(1000 * np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]))


def dense(x, z, sigmas):
    """X'X, X'Z, Z'Z and their noise; None leaves one out."""
    statistics = zip((x, x, z), (x, z, z), sigmas, strict=True)
    return [(left, right, sigma) for left, right, sigma in statistics if sigma is not None]


@BOTH
@pytest.mark.parametrize("off_diagonal", [1, 2])
@settings(max_examples=25, deadline=None)
@given(shape=st.sampled_from(SHAPES), ratio=st.floats(0.2, 5))
def test_pair_is_not_exceeded(adjacency, off_diagonal, shape, ratio):
    x, z = pairs_of(shape)
    row_norm, outcome_norm = shape[1], shape[3]
    found = largest_shift(dense(x, z, (1.0, ratio, None)), adjacency, off_diagonal)
    bound = pair(row_norm**2, row_norm * outcome_norm / ratio**2, adjacency)
    assert found <= bound * (1 + 1e-12)


@pytest.mark.parametrize("off_diagonal", [1, 2])
@pytest.mark.parametrize("split", [0.05, 0.3, 1.0, 1.7, 2.0, 3.0])
def test_pair_is_attained(off_diagonal, split):
    x, z = paired_rows(CIRCLE, np.array([[500.0], [-500.0]]))
    row_norm, outcome_norm = 1000**2, 500**2
    sigmas = (float(row_norm), math.sqrt(row_norm * outcome_norm / split), None)
    bound = pair(1.0, split, REPLACE)
    assert_bound(
        largest_shift(dense(x, z, sigmas), REPLACE, off_diagonal),
        bound * (1 + 1e-12),
        attained=True,
    )
    assert pair(1.0, split, ADD) == pytest.approx(
        largest_shift(dense(x[:2], z[:2], sigmas), ADD, off_diagonal), rel=1e-2
    )


@pytest.mark.parametrize("split", [0.02, 0.3, 1.0, 2.0])
def test_stacked_sensitivity_equals_the_joint_one(split):
    sigma = sensitivity.stacked(10**6, split)  # mu = 1
    gram_share = (10**6 / sigma) ** 2
    assert pair(gram_share, split * gram_share, REPLACE) == pytest.approx(1, rel=1e-12)


def test_stacked_is_that_of_the_stacked_rows():
    x, z = pairs_of((2, 4, 1, 4))
    for split in (0.5, 2.0):
        stacked = np.column_stack([x, math.sqrt(split * 4 / (2 * 4)) * z])
        found = largest_change(outer(stacked, stacked), REPLACE)
        assert_bound(found, sensitivity.stacked(4, split) * (1 + 1e-12), attained=split == 2.0)


def stacked_sigmas(row_norm, outcome_norm, split):
    """The three scales of the stacked rows (x, k z) at mu = 1."""
    sigma = sensitivity.stacked(row_norm, split)
    stacking = math.sqrt(split * row_norm / (2 * outcome_norm))
    return sigma, sigma / (math.sqrt(2) * stacking), sigma / stacking**2


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape])
@pytest.mark.parametrize("split", [0.3, 1.0, 2.0])
def test_all_three_statistics_stay_within_the_stacked_sensitivity(shape, split):
    x, z = pairs_of(shape)
    sigmas = stacked_sigmas(shape[1], shape[3], split)
    found = largest_shift(dense(x, z, sigmas), REPLACE)
    assert found <= 1 + 1e-12
    if split == 2.0 and shape[1] != 5:
        assert found >= 0.99


def test_outcome_gram_beside_the_stacked_rows_cannot_have_less_noise():
    x, z = paired_rows(np.array([[9.0], [-9.0]]), CIRCLE)
    gram, cross, outcome = stacked_sigmas(9**2, 1000**2, 2.0)
    assert 0.99 <= largest_shift(dense(x, z, (gram, cross, outcome)), REPLACE) <= 1 + 1e-12
    assert largest_shift(dense(x, z, (gram, cross, 0.9 * outcome)), REPLACE) > 1.01


@pytest.mark.parametrize("shape", SHAPES)
def test_bundle_under_add_remove_is_the_sum_of_the_shares(shape):
    sigmas = (3.0, 2.0, 5.0)
    bounds = (
        sensitivity.gram(shape[1], ADD),
        sensitivity.cross(shape[1], shape[3], ADD),
        sensitivity.gram(shape[3], ADD),
    )
    total = sum((bound / sigma) ** 2 for bound, sigma in zip(bounds, sigmas, strict=True))
    found = largest_shift(dense(*pairs_of(shape), sigmas), ADD)
    assert found == pytest.approx(total, rel=1e-9)


def label_rows(public, row_norm, phenotype_norm):
    """Every y that clipping leaves to a person whose public row has this length."""
    rows = rows_within(2, phenotype_norm)
    return rows[(rows**2).sum(1) * np.square(public).sum() <= row_norm * phenotype_norm]


def label_shift(public, phenotypes, sigmas, adjacency):
    x = np.tile(public, (len(phenotypes), 1))
    cross, outcome = sigmas
    return largest_shift(dense(x, phenotypes, (None, cross, outcome)), adjacency)


PUBLIC_ROWS = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [2.0, 2.0], [3.0, 0.0], [0.0, 6.0]]


def test_label_privacy_phenotype_gram_is_free():
    """Rows shorter than N, as long, and longer, whose phenotypes are then clipped further."""
    sigmas = sensitivity.cross(4, 9, REPLACE), sensitivity.label_phenotype_gram_factor(9)
    found = [label_shift(row, label_rows(row, 4, 9), sigmas, REPLACE) for row in PUBLIC_ROWS]
    assert 0.99 <= max(found) <= 1 + 1e-12
    assert found[3] == max(found)


def test_label_privacy_phenotype_gram_cannot_have_less_noise():
    cross = sensitivity.cross(4, 10**6, REPLACE)
    outcome = sensitivity.label_phenotype_gram_factor(10**6)
    assert 0.99 <= label_shift([2.0], CIRCLE, (cross, outcome), REPLACE) <= 1
    assert label_shift([2.0], CIRCLE, (cross, 0.9 * outcome), REPLACE) > 1.01
