"""Clipping on the lattice: the two inequalities that the privacy guarantee depends on."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from primo_scale.kernels import products

ROWS = arrays(
    np.int16,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.integers(-32768, 32767) | st.sampled_from([-32768, -1, 0, 1, 32767]),
)
LIMITS = st.integers(0, 2**40) | st.integers(0, 50)


def exact_norms(rows):
    return [sum(int(entry) ** 2 for entry in row) for row in rows]


@given(ROWS, LIMITS)
def test_no_row_exceeds_the_limit(rows, limit):
    clipped = products.clip_rows(rows, slice(None), limit)
    for before, after, norm in zip(rows, clipped, exact_norms(rows), strict=True):
        if norm <= limit:
            np.testing.assert_array_equal(after, before)
        else:
            assert exact_norms(after[None])[0] <= limit
            assert all(abs(int(a)) <= abs(int(b)) for a, b in zip(after, before, strict=True))
            assert all(int(a) * int(b) >= 0 for a, b in zip(after, before, strict=True))


@given(ROWS, st.integers(1, 2**40))
def test_clipping_loses_less_than_one_unit_an_entry(rows, limit):
    """The clipped row is the ideal one, ``q sqrt(limit / norm)``, within one unit an entry."""
    clipped = products.clip_rows(rows, slice(None), limit)
    for before, after, norm in zip(rows, clipped, exact_norms(rows), strict=True):
        ratio = min(1.0, (limit / norm) ** 0.5) if norm else 1.0
        np.testing.assert_allclose(after, before * ratio, rtol=0, atol=1.0001)


@given(ROWS, LIMITS, st.integers(0, 12), st.integers(0, 12))
def test_only_the_chosen_columns_are_clipped(rows, limit, start, stop):
    before = rows.copy()
    clipped = products.clip_rows(rows, slice(start, stop), limit)
    assert max(exact_norms(clipped[:, start:stop])) <= limit
    outside = np.delete(np.arange(rows.shape[1]), slice(start, stop))
    np.testing.assert_array_equal(clipped[:, outside], rows[:, outside])
    np.testing.assert_array_equal(rows, before)


@given(ROWS, LIMITS, st.sampled_from([2, 64, 256]), st.integers(0, 3))
def test_rounded_rows_are_as_near_to_clipped_ones_as_the_limit_permits(rows, limit, step, start):
    clipped = products.clip_rows(rows, slice(start, None), limit).astype(np.int64)
    found = products.clip_rows(rows, slice(start, None), limit, step).astype(np.int64)
    np.testing.assert_array_equal(found[:, :start], rows[:, :start])
    found, clipped = found[:, start:], clipped[:, start:]
    most = (2**15 - 1) // step * step
    nearest = np.sign(clipped) * np.minimum((abs(clipped) + step // 2) // step * step, most)
    for each, exact, near in zip(found, clipped, nearest, strict=True):
        assert (each**2).sum() <= limit
        assert (each % step == 0).all() and (each * exact >= 0).all()
        assert (abs(each) <= abs(near)).all() and (abs(exact - each) <= step).all()
        if (near**2).sum() <= limit:
            np.testing.assert_array_equal(each, near)


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=30), st.integers(0, 2**63))
@example([1, 2], 1)
@example([20_000, 20_001], 20_000)
@example([2**31 - 1, 2**31], 2**31 - 1)
@example([2**62 - 2, 2**62 - 1], 2**62 - 2)
def test_multipliers_are_the_largest_that_prove_the_bound(norms, limit):
    multipliers = products.row_multipliers(np.array(norms, dtype=np.int64), limit)
    for norm, r in zip(norms, multipliers.tolist(), strict=True):
        if norm <= limit:
            assert r == products.UNCLIPPED
        else:
            assert Fraction(norm) * Fraction(r, products.UNCLIPPED) ** 2 <= limit
            assert Fraction(norm) * Fraction(r + 1, products.UNCLIPPED) ** 2 > limit


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_scaling_is_exact_at_the_ends_of_every_type(dtype):
    info = np.iinfo(dtype)
    entries = np.array([info.min, info.min + 1, -3, -1, 0, 1, 3, info.max], dtype=dtype)
    multipliers = np.array(
        [0, 1, products.UNCLIPPED // 3, products.UNCLIPPED - 1, products.UNCLIPPED], dtype=np.int64
    )
    scaled = products.scale_entries(entries[:, None], multipliers)
    assert scaled.dtype == dtype
    for i, entry in enumerate(entries.tolist()):
        for j, r in enumerate(multipliers.tolist()):
            assert scaled[i, j] == int(Fraction(entry * r, products.UNCLIPPED))  # int() truncates


@given(
    st.lists(st.integers(-128, 127), min_size=1, max_size=40),
    st.lists(st.integers(0, products.UNCLIPPED), min_size=1, max_size=9),
)
def test_scaled_columns_are_exact_and_unclipped_ones_untouched(column, multipliers):
    every = np.insert(multipliers, range(len(multipliers)), products.UNCLIPPED)
    memory = np.tile(np.array(column, dtype=np.int8)[:, None], len(every) + 1)
    products.scale_columns(memory[:, :-1], every)
    for k, multiplier in enumerate(every.tolist()):
        expected = [int(Fraction(entry * multiplier, products.UNCLIPPED)) for entry in column]
        assert memory[:, k].tolist() == expected
    assert (memory[:, [*range(0, len(every), 2), -1]] == np.array(column)[:, None]).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_norms_are_exact_in_either_memory_order(dtype):
    rows = np.full((3, 5000), np.iinfo(dtype).min, dtype=dtype)
    rows[1] = np.iinfo(dtype).max
    rows[2] = 0
    expected = [5000 * int(row[0]) ** 2 for row in rows]
    assert products.squared_norms(rows).tolist() == expected
    assert products.squared_norms(np.ascontiguousarray(rows.T).T).tolist() == expected


def test_reference_vector(reference):
    """Rows within the bound stay as published; a tighter bound holds and scales them evenly."""
    vector = np.load(reference / "vectors/13_fixed_point.npz")
    rows = vector["out_qx"].astype(np.int16)
    limit = int((vector["scale_x"] * vector["Bx"]) ** 2)
    np.testing.assert_array_equal(products.clip_rows(rows, slice(None), limit), rows)
    np.testing.assert_array_equal(rows.astype(np.int64).T @ rows, vector["out_S_int"])
    assert vector["out_sens"][0] == pytest.approx(2**0.5 * limit)
    tight = products.clip_rows(rows, slice(None), limit // 4)
    assert products.squared_norms(tight).max() <= limit // 4 < products.squared_norms(rows).max()
