"""Exact products against Python's own integers (numpy object arrays never round or overflow)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.kernels.gram import add_cross, add_gram, outcome_gram


def exact(left, right):
    return (left.astype(object) @ right.astype(object)).astype(np.int64)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 700), st.integers(1, 127), st.integers()
)
def test_products_equal_integer_arithmetic(height, width, rows, max_code, seed):
    rng = np.random.default_rng(abs(seed))
    left = rng.integers(-max_code, max_code + 1, (height, rows)).astype(np.int8)
    right = rng.integers(-max_code, max_code + 1, (width, rows)).astype(np.int8)
    outcomes = rng.integers(-32767, 32768, (rows, width)).astype(np.int16)
    start = rng.integers(-5, 6, (height, width))
    total = start.copy()
    add_gram(total, left, right, max_code)
    np.testing.assert_array_equal(total, start + exact(left, right.T))
    cross = start.copy()
    add_cross(cross, left, outcomes, max_code)
    np.testing.assert_array_equal(cross, start + exact(left, outcomes))
    np.testing.assert_array_equal(outcome_gram(outcomes), exact(outcomes.T, outcomes))


@pytest.mark.parametrize("max_code", [1, 2, 63, 127])
def test_extreme_codes_stay_exact_beyond_the_float32_mantissa(max_code):
    rows = 40_001  # 40,001 x 127^2 is 38 times 2^24
    codes = np.full((3, rows), max_code, dtype=np.int8)
    codes[1] = -max_code
    codes[2, ::2] = max_code - 1
    total = np.zeros((3, 3), dtype=np.int64)
    add_gram(total, codes, codes, max_code)
    np.testing.assert_array_equal(total, exact(codes, codes.T))
    outcomes = np.full((rows, 2), 32767, dtype=np.int16)
    outcomes[::3, 1] = -32767
    cross = np.zeros((3, 2), dtype=np.int64)
    add_cross(cross, codes, outcomes, max_code)
    np.testing.assert_array_equal(cross, exact(codes, outcomes))
