"""Products of every kernel, compared with int64 arithmetic, and sums that exceed int32."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.integer_products import PATTERNS, available, codes_of, modulo_int32, product

from primo_scale.kernels import NAMES
from primo_scale.kernels.products import (
    LARGEST_BYTE,
    LARGEST_INT32,
    Float32,
    ProductSum,
    byte_planes,
    from_byte_planes,
    mirrored,
    spread_rows,
    with_ones,
)

LARGEST = (1, 2, 127, 128)
kernels = pytest.mark.parametrize("name", NAMES)
# Tiles are 6 x 4, 6 x 16 and 16 x 16, blocks 32 x 32, panels 120, 128 and 256 rows, vectors 64
# people, runs 512, 2,048 and 8,192 people.
ROWS = st.integers(1, 17) | st.sampled_from([31, 32, 33, 119, 121, 125, 129, 239, 241, 245])
PEOPLE = st.integers(1, 9) | st.sampled_from(
    [63, 64, 65, 511, 512, 513, 640, 1024, 2047, 2049, 8193]
)


def added(kernel, left, right, times=1):
    total = kernel.zeros(len(left), len(right))
    for _ in range(times):
        kernel.add(total, left, right)
    return kernel.read(total)


def assert_exact(kernel, left, right, times=1):
    expected = modulo_int32(times * product(left, right))
    found = added(kernel, left, right, times)
    assert found.dtype == np.int32
    if left is right:
        found, expected = np.triu(found), np.triu(expected)
    np.testing.assert_array_equal(found, expected)


@kernels
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(ROWS, ROWS, PEOPLE),
    largest=st.sampled_from(LARGEST),
    patterns=st.tuples(st.sampled_from(PATTERNS), st.sampled_from(PATTERNS)),
    times=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_products_equal_those_of_integers(name, sizes, largest, patterns, times, seed):
    kernel, rng = available(name, largest), np.random.default_rng(seed)
    height, width, people = sizes
    left = codes_of(rng, height, people, largest=largest, pattern=patterns[0])
    right = codes_of(rng, width, people, largest=largest, pattern=patterns[1])
    assert_exact(kernel, left, right, times)
    assert_exact(kernel, left, left, times)


@pytest.mark.slow
@kernels
@pytest.mark.parametrize("people", [1, 512, 700, 1024])  # less than a vector, one run, odd, two
def test_products_do_not_depend_on_the_memory_layout(name, people):
    kernel, rng = available(name, 127), np.random.default_rng(people)
    codes = codes_of(rng, 7, people, largest=127, pattern="any")
    room = codes_of(rng, 20, 3 * people + 11, largest=127, pattern="any")
    layouts = [
        spread_rows(7, people),
        spread_rows(9, people + 64)[1:8, :people],  # part of longer rows
        room[2:9, 5 : 5 + people],  # unaligned
        room[:14:2, 3 : 3 + people],  # every other row
        room[:7, 1 : 1 + 3 * people : 3],  # people apart
        room.ravel()[: 7 * people].reshape(people, 7).T,  # people first
        room[8:1:-1, people:0:-1],  # backwards
    ]
    for left in layouts:
        left[...] = codes
        frozen = left.copy()
        frozen.flags.writeable = False
        for right in (left, frozen):
            assert_exact(kernel, left, right)
            assert_exact(kernel, right, left)


@kernels
@pytest.mark.parametrize("rows", [257, 513])
def test_more_rows_than_a_panel_holds(name, rows):
    """A panel has 120 right rows in `vnni`; in `amx` 256 right and 512 left rows."""
    codes = codes_of(np.random.default_rng(rows), rows, 700, largest=127, pattern="any")
    kernel = available(name, 127)
    assert_exact(kernel, codes, codes)
    assert_exact(kernel, codes[:70], codes)


@kernels
def test_rows_of_every_range(name):
    """`avx2` adds in int16, in tiles of 6 left and 16 right rows, what both ranges permit."""
    ends = np.array([(-width // 2, width // 2) for width in (1, 2, 5, 22, 63, 126, 127, 255)])
    rows = np.repeat(np.concatenate([ends, ends[:, ::-1]]), [8, 4092], axis=1).astype(np.int8)
    left, right = (np.repeat(rows, height, axis=0) for height in (6, 16))
    kernel = available(name, LARGEST_BYTE)
    for codes in (left, ~left[:, ::-1]):
        assert_exact(kernel, codes, codes)
        assert_exact(kernel, codes, right)


@kernels
@pytest.mark.parametrize("pattern", ["lowest", "highest"])
def test_sums_wrap_modulo_2_to_the_32(name, pattern):
    """9 x 16,385 products of 127^2 or 128^2 leave int32, and come back into it."""
    kernel = available(name, LARGEST_BYTE)
    codes = codes_of(np.random.default_rng(), 5, 16_385, largest=128, pattern=pattern)
    assert int(product(codes, codes)[0, 0]) * 9 > LARGEST_INT32
    assert_exact(kernel, codes, codes.copy(), times=9)


class TestProductSum:
    """Sums beyond int32 over any number of reads."""

    @kernels
    @settings(max_examples=10, deadline=None)
    @given(
        largest=st.sampled_from(LARGEST),
        reads=st.lists(st.sampled_from([0, 1, 3, 64, 100, 513]), min_size=1, max_size=6),
        bound=st.sampled_from([1, LARGEST_INT32 // 500, LARGEST_INT32 // 3, LARGEST_INT32]),
        seed=st.integers(0, 2**32),
    )
    def test_totals_do_not_depend_on_reads_or_flushes(self, name, largest, reads, bound, seed):
        """A bound that is too high only moves sums to int64 more often, at most per person."""
        kernel, rng = available(name, largest), np.random.default_rng(seed)
        bound = max(bound, largest**2)
        left, right = (
            codes_of(rng, rows, sum(reads), largest=largest, pattern="any") for rows in (5, 8)
        )
        between, within = (ProductSum(kernel, (5, rows), bound) for rows in (8, 5))
        start = 0
        for people in reads:
            part = left[:, start : start + people]
            between.add(part, right[:, start : start + people])
            within.add(part, part)
            start += people
        np.testing.assert_array_equal(between.total(), product(left, right))
        np.testing.assert_array_equal(mirrored(within.total()), product(left, left))

    @kernels
    @pytest.mark.parametrize("read", [131_071, 131_072, 262_142, 300_000])
    def test_the_largest_sums_are_exact_around_the_end_of_int32(self, name, read):
        """131,071 squares of 128 fit int32, and 131,072 are 2^31."""
        kernel = available(name, LARGEST_BYTE)
        codes = np.full((2, read), -128, dtype=np.int8)
        for reads in (1, 2):
            total = ProductSum(kernel, (2, 2), 128**2)
            for _ in range(reads):
                total.add(codes, codes)
            found = total.total()
            assert found.dtype == (np.int32 if reads * read <= 131_071 else np.int64)
            assert (mirrored(found) == reads * read * 128**2).all()


def test_float32_sums_no_more_people_than_its_mantissa_holds():
    """Runs of people for codes of 1 are too long for codes of 127: float32 lacks 2^24 + 1."""
    codes = np.full((2, 4_001), 127, dtype=np.int8)
    codes[1, 0] = 126
    with pytest.raises(AssertionError):
        assert_exact(Float32(1), codes, codes.copy())
    assert_exact(Float32(127), codes, codes.copy())


class TestBytePlanes:
    """Products of 16-bit outcomes, computed from bytes."""

    @kernels
    @settings(max_examples=10, deadline=None)
    @given(
        q=st.integers(1, 5),
        n_low=st.integers(0, 5),
        people=st.sampled_from([1, 63, 64, 700]),
        extreme=st.booleans(),
        seed=st.integers(0, 2**32),
    )
    def test_products_of_outcomes_with_codes_and_with_themselves(
        self, name, q, n_low, people, extreme, seed
    ):
        kernel, rng = available(name, LARGEST_BYTE), np.random.default_rng(seed)
        codes = codes_of(rng, 6, people, largest=128, pattern="ends" if extreme else "any")
        values = np.array([-(2**15), 2**15 - 1]) if extreme else np.arange(-(2**15), 2**15)
        outcomes, n_low = rng.choice(values.astype(np.int16), (people, q)), min(n_low, q)
        outcomes[:, n_low:] &= -256
        planes = with_ones(byte_planes(outcomes, n_low))
        total = ProductSum(kernel, (6, q + n_low + 1), LARGEST_BYTE**2)
        total.add(codes, planes)
        found = from_byte_planes(total.total(), q)
        assert found.dtype == np.int64
        wide = outcomes.astype(np.int64)
        np.testing.assert_array_equal(found, codes.astype(np.int64) @ wide)
        within = ProductSum(kernel, (q + n_low + 1,) * 2, LARGEST_BYTE**2)
        within.add(planes, planes)
        found = from_byte_planes(from_byte_planes(mirrored(within.total()), q).T, q)
        np.testing.assert_array_equal(found, wide.T @ wide)

    def test_sums_of_outcomes_beyond_2_to_the_53(self):
        """8,388,609 squares of 2^15 are 2^53 + 2^30; one of 2^15 - 1 makes the sum odd."""
        outcomes = np.full((2**20, 1), -(2**15), dtype=np.int16)
        planes = with_ones(byte_planes(outcomes, 1))
        total = ProductSum(available("auto", LARGEST_BYTE), (3, 3), LARGEST_BYTE**2)
        for _ in range(8):
            total.add(planes, planes)
        last = with_ones(byte_planes(np.array([[-(2**15)], [2**15 - 1]], dtype=np.int16), 1))
        total.add(last, last)
        found = from_byte_planes(from_byte_planes(mirrored(total.total()), 1).T, 1)
        assert found[0, 0] == (2**23 + 1) * 2**30 + (2**15 - 1) ** 2


@pytest.mark.parametrize("side", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_mirrored_overwrites_the_lower_triangle(side, dtype):
    rng = np.random.default_rng(side)
    junk = rng.integers(-99, 99, (side, side)).astype(dtype)
    whole = mirrored(junk.copy())
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_array_equal(np.triu(whole), np.triu(junk))
