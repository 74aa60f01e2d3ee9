"""Integer linear maps of codes, against their definition in Python's integers."""

import numpy as np
import pytest

from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import (
    FRACTION_BITS,
    LARGEST_BYTE,
    PEOPLE_MAPPED,
    LinearMap,
    add_squared_outputs,
    spread_rows,
)


def random_map(m, k, rng, *, largest=2**20):
    matrix = rng.integers(-127, 128, (m, k)).astype(np.int8)
    return LinearMap(matrix, rng.integers(0, largest, m))


def defined(linear, codes):
    """Return the outputs by the definition: clip(floor(m A x / 2^24 + 1/2))."""
    exact = linear.matrix.astype(object) @ codes.astype(object)
    scaled = exact * linear.multipliers.astype(object)[:, None]
    rounded = (2 * scaled + 2**FRACTION_BITS) // 2 ** (FRACTION_BITS + 1)
    return np.clip(rounded, -127, 127).astype(np.int64)


@pytest.mark.parametrize("kernel", ["float32", "auto"])
@pytest.mark.parametrize(
    ("m", "k", "people"), [(1, 1, 1), (3, 65, 70), (37, 130, PEOPLE_MAPPED + 3)]
)
def test_outputs_are_those_of_the_definition(kernel, m, k, people):
    rng = np.random.default_rng(m)
    linear = random_map(m, k, rng)
    codes = spread_rows(k, people)
    codes[:] = rng.integers(-127, 128, (k, people))
    outputs = spread_rows(m, people + 5)
    found = linear.apply_into(outputs, codes, choose_kernel(kernel, LARGEST_BYTE))
    assert found.shape == (m, people)
    np.testing.assert_array_equal(found, defined(linear, codes))


def test_the_largest_multiplier_and_codes_do_not_overflow():
    linear = LinearMap(np.full((1, 2048), 127, np.int8), np.array([2**31 - 1]))
    codes = np.full((2048, 2), 127, np.int8)
    codes[:, 1] = -127
    outputs = linear.apply_into(spread_rows(1, 2), codes, choose_kernel("auto", LARGEST_BYTE))
    assert outputs.tolist() == [[127, -127]]


def test_one_person_does_not_change_the_outputs_of_another():
    rng = np.random.default_rng(1)
    linear = random_map(20, 50, rng)
    codes = rng.integers(-127, 128, (50, 40)).astype(np.int8)
    kernel = choose_kernel("auto", LARGEST_BYTE)
    before = linear.apply_into(spread_rows(20, 40), codes, kernel).copy()
    codes[:, 17] = 0
    after = linear.apply_into(spread_rows(20, 40), codes, kernel)
    changed = np.flatnonzero((before != after).any(axis=0))
    assert changed.tolist() == [17]
    assert not after[:, 17].any()


def test_the_real_map_is_the_outputs_before_rounding():
    rng = np.random.default_rng(2)
    linear = random_map(10, 30, rng, largest=2**14)
    codes = rng.integers(-20, 21, (30, 100)).astype(np.int8)
    outputs = linear.apply_into(spread_rows(10, 100), codes, choose_kernel("auto", LARGEST_BYTE))
    inside = np.abs(outputs) < 127
    assert np.abs(outputs - linear.real @ codes)[inside].max() <= 0.5


def test_squared_outputs_add_up():
    rng = np.random.default_rng(3)
    outputs = rng.integers(-127, 128, (300, 41)).astype(np.int8)
    norms = np.arange(41)
    add_squared_outputs(norms, outputs)
    np.testing.assert_array_equal(
        norms, np.arange(41) + (outputs.astype(np.int64) ** 2).sum(axis=0)
    )
