"""Every sensitivity against brute force over neighbouring integer rows.

The statistics are formed here as matrices and subtracted; nothing uses the identities behind the
formulas. "Never exceeded" is exhaustive over all integer rows within the bounds; "attained" is a
pair of rows that comes within 1%.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.privacy import sensitivity
from primo_scale.privacy.sensitivity import Adjacency

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD])


def rows_within(n_columns, norm, low=-50, high=50):
    """Every integer row with ``||x||^2 <= norm`` and entries in [low, high], zero row included."""
    side = math.isqrt(norm)
    values = range(max(low, -side), min(high, side) + 1)
    rows = np.array(list(itertools.product(values, repeat=n_columns)), dtype=float)
    return rows[(rows**2).sum(1) <= norm]


def outer(left, right):
    return np.einsum("ij,ik->ijk", left, right)


def squared_changes(statistics, adjacency, weights=1.0):
    """Weighted squared distance between the contributions of every two (or one) rows."""
    if adjacency is ADD:
        changes = statistics
    else:
        changes = (statistics[:, None] - statistics[None]).reshape(-1, *statistics.shape[1:])
    return (weights * changes**2).reshape(len(changes), -1).sum(1)


def largest_change(statistics, adjacency, weights=1.0):
    return math.sqrt(squared_changes(statistics, adjacency, weights).max())


def upper_weights(size, off_diagonal):
    """Weights that count each unordered pair of entries once, `off_diagonal` times."""
    return np.triu(np.full((size, size), float(off_diagonal)), 1) + np.eye(size)


def assert_bound(found, bound, *, attained):
    assert found <= bound
    if attained:
        assert found >= 0.99 * bound


@BOTH
@pytest.mark.parametrize(("n_columns", "norm"), [(1, 0), (1, 9), (2, 9), (2, 7), (3, 9), (3, 0)])
def test_gram(adjacency, n_columns, norm):
    rows = rows_within(n_columns, norm)
    bound = sensitivity.gram(norm, adjacency, n_columns=n_columns)
    grams = outer(rows, rows)
    assert_bound(largest_change(grams, adjacency), bound, attained=norm in (0, 9))
    for off_diagonal in (1, 2):  # equal noise on the upper triangle, and svec
        weights = upper_weights(n_columns, off_diagonal)
        assert_bound(largest_change(grams, adjacency, weights), bound, attained=norm in (0, 9))


@BOTH
@settings(max_examples=30, deadline=None)
@given(norm=st.integers(0, 14), low=st.integers(-3, 0), high=st.integers(0, 3))
def test_gram_is_not_exceeded_by_rows_of_one_sided_range(adjacency, norm, low, high):
    rows = rows_within(2, norm, low, high)
    grams = outer(rows, rows)
    assert largest_change(grams, adjacency) <= sensitivity.gram(norm, adjacency)
    triangle = largest_change(grams, adjacency, upper_weights(2, 1))
    entry_bound = max(-low, high)
    assert triangle <= sensitivity.gram_upper_triangle(norm, adjacency, entry_bound=entry_bound)


@pytest.mark.parametrize(
    ("adjacency", "n_columns", "norm", "entry_bound"),
    [(ADD, 2, 8, 2), (ADD, 3, 3, 1), (REPLACE, 4, 2, 1), (REPLACE, 2, 9, 3), (ADD, 2, 9, 9)],
)
def test_gram_upper_triangle(adjacency, n_columns, norm, entry_bound):
    rows = rows_within(n_columns, norm, -entry_bound, entry_bound)
    found = largest_change(outer(rows, rows), adjacency, upper_weights(n_columns, 1))
    bound = sensitivity.gram_upper_triangle(norm, adjacency, entry_bound=entry_bound)
    assert_bound(found, bound, attained=True)
    assert bound <= sensitivity.gram(norm, adjacency)


@pytest.mark.parametrize(
    ("entry_bound", "n_columns", "norm", "attained"),
    [
        (1, 6, 3, True), (1, 6, 4, True), (1, 6, 5, True), (1, 6, 6, True), (1, 6, 9, True),
        (2, 3, 4, True), (2, 3, 8, True), (2, 3, 12, True), (2, 3, 5, False), (2, 3, 7, False),
        (2, 4, 11, False), (2, 2, 0, True),
    ],
)  # fmt: skip
def test_gram_of_dosages(entry_bound, n_columns, norm, attained):
    rows = rows_within(n_columns, norm, 0, entry_bound)
    bound = sensitivity.gram_of_dosages(norm, entry_bound=entry_bound, n_columns=n_columns)
    assert_bound(largest_change(outer(rows, rows), REPLACE), bound, attained=attained)
    assert bound <= sensitivity.gram(norm, REPLACE)


@BOTH
def test_constant_column_adds_to_the_norm(adjacency):
    rows = rows_within(2, 16)
    rows = np.column_stack([np.full(len(rows), 1.0), rows])
    found = largest_change(outer(rows, rows), adjacency)
    assert 0.9 * sensitivity.gram(16 + 1, adjacency) <= found
    assert found <= sensitivity.gram(16 + 1, adjacency)


def smallest_eigenvalue(rows):
    return math.floor(np.linalg.eigvalsh(rows.T @ rows)[0])


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_smallest_eigenvalue_is_not_exceeded(n_columns):
    generator = np.random.default_rng(5)
    candidates = rows_within(n_columns, 12)
    for _ in range(400):
        n_samples = int(generator.integers(1, 7))
        cohort = candidates[generator.integers(0, len(candidates), n_samples)]
        bound = sensitivity.smallest_eigenvalue(12, n_samples=n_samples, n_columns=n_columns)
        before = smallest_eigenvalue(cohort)
        replaced = cohort.copy()
        replaced[0] = candidates[generator.integers(len(candidates))]
        assert abs(before - smallest_eigenvalue(replaced)) <= bound
        assert abs(before - smallest_eigenvalue(cohort[1:])) <= bound


def test_smallest_eigenvalue_is_attained():
    cohort = np.diag([100.0, 100.0])
    bound = sensitivity.smallest_eigenvalue(100**2, n_samples=2, n_columns=2)
    assert_bound(
        smallest_eigenvalue(cohort) - smallest_eigenvalue(cohort[1:]), bound, attained=True
    )


def centred_scatter(rows):
    centred = rows - rows.mean(0)
    return centred.T @ centred


def test_centred_scatter():
    generator = np.random.default_rng(6)
    candidates = rows_within(2, 9)
    for _ in range(500):
        n_samples = int(generator.integers(1, 6))
        cohort = candidates[generator.integers(0, len(candidates), n_samples + 1)]
        replaced = cohort[1:].copy()
        replaced[0] = cohort[0]
        swap = np.linalg.norm(centred_scatter(cohort[1:]) - centred_scatter(replaced))
        added = np.linalg.norm(centred_scatter(cohort) - centred_scatter(cohort[1:]))
        assert swap <= sensitivity.centred_scatter(9, REPLACE, n_samples=n_samples) + 1e-9
        assert added <= sensitivity.centred_scatter(9, ADD, n_samples=n_samples) + 1e-9


@pytest.mark.parametrize("n_samples", [1, 2, 10])
def test_centred_scatter_is_attained(n_samples):
    cohort = np.full((n_samples, 1), -3.0)
    extended = np.vstack([cohort, [[3.0]]])
    bound = sensitivity.centred_scatter(9, ADD, n_samples=n_samples)
    assert centred_scatter(extended)[0, 0] == pytest.approx(bound, rel=1e-12)
    bound = sensitivity.centred_scatter(9, REPLACE, n_samples=n_samples + 1)
    assert centred_scatter(extended)[0, 0] == pytest.approx(bound, rel=1e-12)


def paired_rows(n_columns, row_norm, n_outcomes, outcome_norm, low=-50):
    """Every (x, z) with integer entries within the two bounds, as two arrays."""
    left = rows_within(n_columns, row_norm, low)
    right = rows_within(n_outcomes, outcome_norm, low)
    return np.repeat(left, len(right), 0), np.tile(right, (len(left), 1))


SHAPES = [(1, 9, 1, 4), (2, 4, 1, 9), (2, 4, 2, 4), (3, 4, 1, 4), (2, 0, 2, 4), (2, 5, 2, 0)]


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_cross(adjacency, shape):
    x, z = paired_rows(*shape)
    bound = sensitivity.cross(shape[1], shape[3], adjacency)
    assert_bound(largest_change(outer(x, z), adjacency), bound, attained=shape[1] != 5)


@BOTH
def test_cross_of_non_negative(adjacency):
    x, z = paired_rows(2, 9, 2, 4, low=0)
    bound = sensitivity.cross_of_non_negative(9, 4, adjacency)
    assert_bound(largest_change(outer(x, z), adjacency), bound, attained=True)


@BOTH
def test_cross_when_the_rows_or_the_outcomes_are_public(adjacency):
    moving = rows_within(2, 9)
    public = np.array([[2.0, 1.0, 0.0], [0.0, -1.0, 1.0], [0.0, 0.0, 0.0]])
    largest = int((public**2).sum(1).max())
    for fixed, attained in zip(public, (True, False, False), strict=True):
        x = np.tile(fixed, (len(moving), 1))
        label = largest_change(outer(x, moving), adjacency)
        assert_bound(label, sensitivity.cross(largest, 9, adjacency), attained=attained)
        feature = largest_change(outer(moving, x), adjacency)
        assert_bound(feature, sensitivity.cross(9, largest, adjacency), attained=attained)


@BOTH
def test_cross_of_clipped_products(adjacency):
    moving = rows_within(2, 36)
    found = []
    for fixed in ([1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [1.0, 1.0]):
        allowed = moving[(moving**2).sum(1) * np.square(fixed).sum() <= 36]
        x = np.tile(fixed, (len(allowed), 1))
        found.append(largest_change(outer(x, allowed), adjacency))
    bound = sensitivity.cross_of_clipped_products(36, adjacency)
    assert_bound(max(found), bound, attained=True)


@BOTH
@pytest.mark.parametrize(
    ("norm", "entry_bound", "attained"), [(8, 2, True), (9, 4, True), (7, 2, False)]
)
def test_outcome_diagonal(adjacency, norm, entry_bound, attained):
    rows = rows_within(4, norm, -entry_bound, entry_bound)
    bound = sensitivity.outcome_diagonal(norm, adjacency, entry_bound=entry_bound)
    assert_bound(largest_change(rows**2, adjacency), bound, attained=attained)


@BOTH
@pytest.mark.parametrize("n_phenotypes", [1, 2, 5])
def test_observed_counts(adjacency, n_phenotypes):
    observed = np.array(list(itertools.product([0.0, 1.0], repeat=n_phenotypes)))
    bound = sensitivity.observed_counts(n_phenotypes)
    assert_bound(largest_change(observed, adjacency), bound, attained=True)


def largest_joint_change(x, z, adjacency, sigmas, off_diagonal=2):
    """Largest mu^2 of (X'X, X'Z, Z'Z) under the given noise; None leaves a statistic out."""
    total = 0.0
    for left, right, sigma in zip((x, x, z), (x, z, z), sigmas, strict=True):
        if sigma is None:
            continue
        size = right.shape[1]
        weights = upper_weights(size, off_diagonal) if left is right else 1.0
        total = total + squared_changes(outer(left, right), adjacency, weights) / sigma**2
    return float(np.max(total))


@BOTH
@pytest.mark.parametrize("off_diagonal", [1, 2])
@settings(max_examples=25, deadline=None)
@given(shape=st.sampled_from(SHAPES), ratio=st.floats(0.2, 5), low=st.integers(-3, 0))
def test_pair_is_not_exceeded(adjacency, off_diagonal, shape, ratio, low):
    x, z = paired_rows(*shape, low=low)
    row_norm, outcome_norm = shape[1], shape[3]
    found = largest_joint_change(x, z, adjacency, (1.0, ratio, None), off_diagonal)
    bound = sensitivity.pair(row_norm**2, row_norm * outcome_norm / ratio**2, adjacency)
    assert found <= bound * (1 + 1e-12)


@pytest.mark.parametrize("off_diagonal", [1, 2])
@pytest.mark.parametrize("split", [0.05, 0.3, 1.0, 1.7, 2.0, 3.0])
def test_pair_is_attained(off_diagonal, split):
    angles = np.linspace(0, 2 * np.pi, 241)
    circle = np.trunc(1000 * np.column_stack([np.cos(angles), np.sin(angles)]))
    x, z = np.repeat(circle, 2, 0), np.tile([[500.0], [-500.0]], (len(circle), 1))
    row_norm, outcome_norm = 1000**2, 500**2
    sigmas = (float(row_norm), math.sqrt(row_norm * outcome_norm / split), None)
    bound = sensitivity.pair(1.0, split, REPLACE)
    assert_bound(
        largest_joint_change(x, z, REPLACE, sigmas, off_diagonal),
        bound * (1 + 1e-12),
        attained=True,
    )
    assert sensitivity.pair(1.0, split, ADD) == pytest.approx(
        largest_joint_change(x[:2], z[:2], ADD, sigmas, off_diagonal), rel=1e-2
    )


@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_pair_holds_for_feature_privacy_and_label_privacy_needs_no_gram(ratio):
    moving = rows_within(2, 25)
    public = np.tile([2.0, 0.0], (len(moving), 1))
    feature = largest_joint_change(moving, public, REPLACE, (1.0, ratio, None))
    bound = sensitivity.pair(25**2, 25 * 4 / ratio**2, REPLACE)
    assert bound * 0.97 <= feature <= bound * (1 + 1e-12)
    label = largest_joint_change(public, moving, REPLACE, (None, ratio, None))
    assert label == pytest.approx((sensitivity.cross(4, 25, REPLACE) / ratio) ** 2)


def test_pair_of_clipped_products():
    row_norm, product = 4, 16
    x = rows_within(1, row_norm)
    z = rows_within(1, product)
    x, z = np.repeat(x, len(z), 0), np.tile(z, (len(x), 1))
    allowed = ((x * z) ** 2).sum(1) <= product
    for ratio in (0.5, 1.0, 3.0):
        found = largest_joint_change(x[allowed], z[allowed], REPLACE, (1.0, ratio, None))
        assert found <= sensitivity.pair_of_clipped_products(row_norm**2, product / ratio**2)
    # A long row with a small outcome against a short row with a huge one.
    x, z = np.array([[20.0], [-1.0]]), np.array([[20.0], [400.0]])
    found = largest_joint_change(x, z, REPLACE, (400.0, 400 / math.sqrt(2), None))
    bound = sensitivity.pair_of_clipped_products(1.0, 2.0)
    assert_bound(found, bound, attained=True)
    assert bound == 9.0
    assert sensitivity.pair(1.0, 2.0, REPLACE) == 8.0


@pytest.mark.parametrize("split", [0.02, 0.3, 1.0, 2.0])
def test_stacked_sensitivity_equals_the_joint_one(split):
    sigma = sensitivity.stacked(10**6, split)  # mu = 1
    gram_share = (10**6 / sigma) ** 2
    assert sensitivity.pair(gram_share, split * gram_share, REPLACE) == pytest.approx(1, rel=1e-12)


def test_stacked_is_that_of_the_stacked_rows():
    x, z = paired_rows(2, 4, 1, 4)
    for split in (0.5, 2.0):
        stacked = np.column_stack([x, math.sqrt(split * 4 / (2 * 4)) * z])
        found = largest_change(outer(stacked, stacked), REPLACE)
        assert_bound(found, sensitivity.stacked(4, split) * (1 + 1e-12), attained=split == 2.0)


def test_a_bound_is_never_rounded_down():
    for norm in (1, 3, 7, 10**9 + 7, 2**61 - 1):
        bound = sensitivity.gram(norm, REPLACE)
        numerator, denominator = bound.as_integer_ratio()
        assert numerator**2 >= 2 * norm**2 * denominator**2
        assert bound <= math.sqrt(2) * norm * (1 + 1e-15)


def test_reference_vector_of_the_lattice(shared):
    vector = np.load(shared / "vectors" / "13_fixed_point.npz")
    row_norm = math.floor((vector["scale_x"] * vector["Bx"]) ** 2)
    outcome_norm = math.floor((vector["scale_y"] * vector["By"]) ** 2)
    found = [
        sensitivity.gram(row_norm, REPLACE),
        sensitivity.cross(row_norm, outcome_norm, REPLACE),
    ]
    np.testing.assert_allclose(found, vector["out_sens"], rtol=1e-9)
