"""LD blocks of X'X, with rows clipped in every block and in total, compared with brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from support.neighbours import (
    ADD,
    REPLACE,
    assert_bound,
    largest_shift,
    paired_rows,
    parts,
    rows_within,
    within_blocks,
)
from support.tiers import thinned

from primo_scale.gaussian import sensitivity

# Columns and norm of every block, total norm, columns and norm of z.
SHAPES = [
    ((1, 1), (4, 4), 5, 2, 2),
    ((1, 1), (16, 9), 18, 1, 4),
    ((2, 1), (4, 1), 4, 2, 1),
    ((2, 2), (2, 2), 3, 1, 1),
    ((1, 1, 1), (4, 4, 1), 6, 1, 1),
    ((1, 1, 1), (1, 1, 1), 2, 2, 4),
    ((3,), (3,), 4, 1, 1),
    ((2, 1), (0, 4), 4, 1, 4),
    ((1, 1), (9, 9), 9, 1, 0),
]


def rows_of(shape):
    sizes, norms, row_norm, n_outcomes, outcome_norm = shape
    x = within_blocks(rows_within(sum(sizes), row_norm), sizes, norms)
    return paired_rows(x, rows_within(n_outcomes, outcome_norm))


def bundle(x, z, sizes, sigmas):
    """Blocks of X'X, X'Z, Z'Z and their noise; one without noise belongs to a zero bound."""
    gram, cross, outcome = sigmas
    statistics = [(part, part, sigma) for part, sigma in zip(parts(x, sizes), gram, strict=True)]
    statistics += [(x, z, cross), (z, z, outcome)]
    for left, right, sigma in statistics:
        assert sigma > 0 or not left.any() or not right.any()
    return [statistic for statistic in statistics if statistic[2] > 0]


def pair_by_block(gram_share, cross_share):
    """mu^2 of all X_b'X_b and X'Z by the shares Q and D (docs/maths/sensitivity.md)."""
    if cross_share >= 4 * gram_share:
        return 4 * cross_share
    # The root tau of tau^3 + 3 tau = D / Q.
    tilt = 2 * math.sinh(math.asinh(cross_share / (2 * gram_share)) / 3)
    return 2 * gram_share * (1 + tilt) ** 3


def factors(norms, row_norm, outcome_norm, split):
    """The three scales at mu = 1."""
    return (
        [sensitivity.block_gram_factor(norm, row_norm, split=split) for norm in norms],
        sensitivity.cross_factor_by_block(row_norm, outcome_norm, split=split),
        sensitivity.outcome_gram_factor_by_block(outcome_norm, split=split),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("split", [0.1, 1.0, 2.0])
def test_joint_shift_is_not_exceeded(shape, split):
    x, z = rows_of(shape)
    sigmas = factors(*shape[1:3], shape[4], split)
    assert largest_shift(bundle(x, z, shape[0], sigmas), REPLACE) <= 1 + 1e-12


@settings(max_examples=40, deadline=None)
@given(
    norms=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    row_norm=st.integers(1, 20),
    outcome_norm=st.integers(1, 5),
    split=st.floats(0.02, 2),
)
def test_joint_shift_is_not_exceeded_at_any_bounds(norms, row_norm, outcome_norm, split):
    x, z = rows_of(((1, 1), norms, row_norm, 1, outcome_norm))
    sigmas = factors(norms, row_norm, outcome_norm, split)
    assert largest_shift(bundle(x, z, (1, 1), sigmas), REPLACE) <= 1 + 1e-12


# Neighbours (p, q) and (q, p) in two blocks are the worst at tau = q / p.
TRIPLES = [(4, 3), (12, 5), (15, 8), (24, 7)]


@pytest.mark.parametrize(("long", "short"), TRIPLES)
def test_joint_shift_is_attained_at_every_split(long, short):
    row_norm, norms, split = long**2 + short**2, (long**2, long**2), 2 * short / long
    x = within_blocks(rows_within(2, row_norm), (1, 1), norms)
    x = x[(x**2).sum(1) >= 0.9 * row_norm]
    x, z = paired_rows(x, np.array([[1.0], [-1.0]]))
    gram, cross, outcome = factors(norms, row_norm, 1, split)
    found = largest_shift(bundle(x, z, (1, 1), (gram, cross, outcome)), REPLACE)
    assert found == pytest.approx(1, rel=1e-12)
    # None of the factors could be lower.
    less_gram = [0.99 * sigma for sigma in gram]
    assert largest_shift(bundle(x, z, (1, 1), (less_gram, cross, outcome)), REPLACE) > 1.0001
    assert largest_shift(bundle(x, z, (1, 1), (gram, 0.99 * cross, outcome)), REPLACE) > 1.01


@pytest.mark.parametrize(("long", "short"), [(4, 3), (1, 1)])
def test_outcome_gram_cannot_have_less_noise(long, short):
    angles = np.linspace(0, np.pi / 2, 31)
    z = np.trunc(1000 * np.column_stack([np.cos(angles), np.sin(angles)]))
    x = np.array([[long, short], [short, long], [-long, -short], [-short, -long]], dtype=float)
    row_norm, norms = long**2 + short**2, (long**2, long**2)
    gram, cross, outcome = factors(norms, row_norm, 1000**2, 2 * short / long)
    x, z = paired_rows(x, z)
    assert 0.99 <= largest_shift(bundle(x, z, (1, 1), (gram, cross, outcome)), REPLACE) <= 1 + 1e-12
    assert largest_shift(bundle(x, z, (1, 1), (gram, cross, 0.9 * outcome)), REPLACE) > 1.005


@pytest.mark.parametrize("split", [0.05, 0.5, 1.0, 1.9, 2.0])
def test_factors_spend_exactly_one_mu(split):
    gram, cross, _ = factors((10**12,), 10**13, 10**9, split)
    shares = 10**25 / gram[0] ** 2, 10**22 / cross**2
    assert pair_by_block(*shares) == pytest.approx(1, rel=1e-12)


def test_the_split_is_checked():
    for split in (0.0, 2.1, math.nan):
        with pytest.raises(ValueError, match="split"):
            sensitivity.block_gram_factor(1, 1, split=split)


def shortened(row, norm):
    return row * min(1.0, math.sqrt(norm / max(float(row @ row), 1e-300)))


def real_neighbours(parameters, sizes, norms, row_norm):
    """Two real rows (x, z) within all bounds, ``||z||^2 <= 1``, from unconstrained parameters."""
    x, z = np.split(parameters.reshape(2, -1), [sum(sizes)], axis=1)
    clipped = []
    for row in x:
        kept = zip(np.split(row, np.cumsum(sizes)[:-1]), norms, strict=True)
        clipped.append(shortened(np.concatenate([shortened(*part) for part in kept]), row_norm))
    return np.array(clipped), np.array([shortened(row, 1.0) for row in z])


@pytest.mark.parametrize(
    ("sizes", "norms", "row_norm", "split", "found"),
    thinned(
        [
            ((1, 1, 1), (1.0, 1.0, 1.0), 1.5, 2.0, 0.9999),
            ((2, 2), (0.64, 0.64), 1.0, 1.5, 0.99),
            ((2, 2, 2), (0.9, 0.9, 0.2), 1.4, 1.6, 0.99),
            # No room for the worst neighbours: the bound is not attained.
            ((2, 1, 2), (1.0, 0.8, 0.5), 1.6, 1.2, 0.98),
            ((1, 2), (0.7, 0.3), 0.9, 0.6, 0.87),
        ],
        every=3,
    ),
)
def test_an_optimiser_finds_no_worse_neighbours(sizes, norms, row_norm, split, found):
    n_outcomes, n_starts = 2, 4
    scale = 10**12  # bounds are integers: these are the real ones on a fine lattice
    gram, cross, outcome = factors(
        [round(norm * scale) for norm in norms], round(row_norm * scale), scale, split
    )
    sigmas = [sigma / scale for sigma in gram], cross / scale, outcome / scale

    def shift(parameters):
        x, z = real_neighbours(parameters, sizes, norms, row_norm)
        return -largest_shift(bundle(x, z, sizes, sigmas), REPLACE)

    generator = np.random.default_rng(12)
    starts = generator.normal(size=(n_starts, 2 * (sum(sizes) + n_outcomes)))
    best = max(-minimize(shift, 2 * start, method="L-BFGS-B").fun for start in starts)
    assert best <= 1 + 1e-9
    assert best >= found


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_under_add_remove(shape):
    """One row has every share at its bound: mu^2 of the bundle is A + D + F."""
    sizes, norms, row_norm, _, outcome_norm = shape
    x, z = rows_of(shape)
    gram = [2 * sensitivity.block_gram_factor_add_remove(norm, row_norm) for norm in norms]
    cross = 3 * sensitivity.cross(row_norm, outcome_norm, ADD)
    outcome = 5 * sensitivity.gram(outcome_norm, ADD)
    found = largest_shift(bundle(x, z, sizes, (gram, cross, outcome)), ADD)
    bound = 1 / 4 + (1 / 9 + 1 / 25 if outcome_norm else 0)
    # The bound is attained if one row reaches the norm N_x by filling whole blocks.
    tight = shape in (SHAPES[2], SHAPES[7], SHAPES[8])
    assert_bound(found, bound * (1 + 1e-12), attained=tight)
