"""The sensitivity of each statistic, never exceeded by any integer rows and attained within 1%."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from support.neighbours import (
    ADD,
    BOTH,
    REPLACE,
    assert_bound,
    largest_change,
    outer,
    paired_rows,
    parts,
    rows_within,
    upper_weights,
    within_blocks,
)

from primo_scale.gaussian import sensitivity


@BOTH
@pytest.mark.parametrize(("n_columns", "norm"), [(1, 0), (1, 9), (2, 9), (2, 7), (3, 9), (3, 0)])
def test_gram(adjacency, n_columns, norm):
    rows = rows_within(n_columns, norm)
    # Under replace-one a single column moves by N_x, as under add-remove.
    bound = sensitivity.gram(norm, ADD if n_columns == 1 else adjacency)
    assert bound <= sensitivity.gram(norm, adjacency)
    grams = outer(rows, rows)
    assert_bound(largest_change(grams, adjacency), bound, attained=norm in (0, 9))
    for off_diagonal in (1, 2):  # equal noise on the upper triangle, and svec
        weights = upper_weights(n_columns, off_diagonal)
        assert_bound(largest_change(grams, adjacency, weights), bound, attained=norm in (0, 9))


def smallest_eigenvalue(rows, sizes):
    return math.floor(min(np.linalg.eigvalsh(part.T @ part)[0] for part in parts(rows, sizes)))


@pytest.mark.parametrize(
    ("sizes", "norms"),
    [*(((size,), (12,)) for size in (1, 2, 3)), ((1, 1), (4, 9)), ((2, 1), (9, 5)),
     ((2, 2), (4, 4))],
)  # fmt: skip
def test_smallest_eigenvalue_is_not_exceeded(sizes, norms):
    generator = np.random.default_rng(8)
    candidates = within_blocks(rows_within(sum(sizes), 12), sizes, norms)
    for _ in range(400):
        n_samples = int(generator.integers(2, 7))
        bound = sensitivity.smallest_eigenvalue(
            max(norms), n_samples=n_samples, n_columns=max(sizes)
        )
        cohort = candidates[generator.integers(0, len(candidates), n_samples)]
        before = smallest_eigenvalue(cohort, sizes)
        replaced = cohort.copy()
        replaced[0] = candidates[generator.integers(len(candidates))]
        assert abs(before - smallest_eigenvalue(replaced, sizes)) <= bound
        assert abs(before - smallest_eigenvalue(cohort[1:], sizes)) <= bound


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [((100.0, 100.0), (2,)),
     ((100.0, 200.0), (1, 1))],  # the second block is large in everybody, the first in one person
)  # fmt: skip
def test_smallest_eigenvalue_is_attained(lengths, sizes):
    cohort = np.diag(lengths)
    change = smallest_eigenvalue(cohort, sizes) - smallest_eigenvalue(cohort[1:], sizes)
    bound = sensitivity.smallest_eigenvalue(100**2, n_samples=2, n_columns=sizes[0])
    assert_bound(change, bound, attained=True)


def centred_scatter(rows):
    centred = rows - rows.mean(0)
    return centred.T @ centred


def scatter_bound(row_norm, n_samples):
    """Theorem 1 (c) of docs/maths/sensitivity.md; the product centres on public frequencies."""
    return 4 * row_norm * n_samples / (n_samples + 1)


def test_centred_scatter():
    generator = np.random.default_rng(6)
    candidates = rows_within(2, 9)
    for _ in range(500):
        n_samples = int(generator.integers(1, 6))
        cohort = candidates[generator.integers(0, len(candidates), n_samples + 1)]
        added = np.linalg.norm(centred_scatter(cohort) - centred_scatter(cohort[1:]))
        assert added <= scatter_bound(9, n_samples) + 1e-9


@pytest.mark.parametrize("n_samples", [1, 2, 10])
def test_centred_scatter_is_attained(n_samples):
    extended = np.vstack([np.full((n_samples, 1), -3.0), [[3.0]]])
    found = centred_scatter(extended)[0, 0]
    assert found == pytest.approx(scatter_bound(9, n_samples), rel=1e-12)


@BOTH
@pytest.mark.parametrize(
    ("n_columns", "row_norm", "n_outcomes", "outcome_norm"),
    [(1, 9, 1, 4), (2, 4, 1, 9), (2, 4, 2, 4), (3, 4, 1, 4), (2, 0, 2, 4), (2, 5, 2, 0)],
)
def test_cross(adjacency, n_columns, row_norm, n_outcomes, outcome_norm):
    x, z = paired_rows(rows_within(n_columns, row_norm), rows_within(n_outcomes, outcome_norm))
    bound = sensitivity.cross(row_norm, outcome_norm, adjacency)
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
@pytest.mark.parametrize("n_phenotypes", [1, 2, 5])
def test_observed_counts(adjacency, n_phenotypes):
    observed = np.array(list(itertools.product([0.0, 1.0], repeat=n_phenotypes)))
    bound = sensitivity.observed_counts(n_phenotypes)
    assert_bound(largest_change(observed, adjacency), bound, attained=True)


def test_a_bound_is_never_rounded_down():
    for norm in (1, 3, 7, 10**9 + 7, 2**61 - 1):
        bound = sensitivity.gram(norm, REPLACE)
        numerator, denominator = bound.as_integer_ratio()
        assert numerator**2 >= 2 * norm**2 * denominator**2
        assert bound <= math.sqrt(2) * norm * (1 + 1e-15)


def test_reference_vector_of_the_lattice(reference):
    vector = np.load(reference / "vectors" / "13_fixed_point.npz")
    row_norm = math.floor((vector["scale_x"] * vector["Bx"]) ** 2)
    outcome_norm = math.floor((vector["scale_y"] * vector["By"]) ** 2)
    found = [
        sensitivity.gram(row_norm, REPLACE),
        sensitivity.cross(row_norm, outcome_norm, REPLACE),
    ]
    np.testing.assert_allclose(found, vector["out_sens"], rtol=1e-9)


@pytest.mark.parametrize("norm", [1, 97, 10**9 + 7, 10**12 + 39, 2**53 + 1, 2**61 - 1])
@pytest.mark.parametrize(("n_samples", "n_columns"), [(343, 3), (500_000, 1_701), (2**33, 20_000)])
def test_smallest_eigenvalue_covers_floor_and_both_solver_errors(norm, n_samples, n_columns):
    """Theorem 1 (b) of docs/maths/sensitivity.md in rational numbers, never rounded down."""
    solver_error = Fraction(16 * n_columns * n_samples * norm, 2**53)
    exact = norm + 1 + 2 * solver_error
    found = sensitivity.smallest_eigenvalue(norm, n_samples=n_samples, n_columns=n_columns)
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**52))
