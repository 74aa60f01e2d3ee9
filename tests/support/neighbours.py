"""Neighbouring cohorts by brute force: every integer row within bounds, and its largest effect."""

import itertools
import math

import numpy as np
import pytest

from primo_scale.gaussian.sensitivity import Adjacency

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD])


def rows_within(n_columns, norm, low=-50, high=50):
    """Every integer row with ``||x||^2 <= norm`` and entries in [low, high], zero row included."""
    side = math.isqrt(norm)
    values = range(max(low, -side), min(high, side) + 1)
    rows = np.array(list(itertools.product(values, repeat=n_columns)), dtype=float)
    return rows[(rows**2).sum(1) <= norm]


def paired_rows(left, right):
    """Every (x, z) of the two sets of rows, as two arrays."""
    return np.repeat(left, len(right), 0), np.tile(right, (len(left), 1))


def within_blocks(rows, sizes, norms):
    """The rows that keep ``||x_b||^2 <= beta_b`` in every block."""
    kept = [(part**2).sum(1) <= norm for part, norm in zip(parts(rows, sizes), norms, strict=True)]
    return rows[np.all(kept, axis=0)]


def parts(rows, sizes):
    return np.split(rows, np.cumsum(sizes)[:-1], axis=1)


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


def largest_shift(terms, adjacency, off_diagonal=2):
    """Largest mu^2 of ``left' right`` of `terms` with sigma; `off_diagonal` is 2 for svec."""
    total = 0.0
    for left, right, sigma in terms:
        weights = upper_weights(right.shape[1], off_diagonal) if left is right else 1.0
        total = total + squared_changes(outer(left, right), adjacency, weights) / sigma**2
    return float(np.max(total))
