"""Kernels for packed genotypes, compared with the definition of the layout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from primo_scale.kernels.packed import (
    add_squared_norms,
    count_genotypes,
    decode,
    decode_into,
    packed_width,
    repack,
)
from primo_scale.kernels.products import row_stride, spread_rows


def pack(raw: np.ndarray) -> np.ndarray:
    """Pack raw values (v, n) as the .bed format defines: first sample in the lowest bits."""
    packed = np.zeros((raw.shape[0], packed_width(raw.shape[1])), dtype=np.uint8)
    for place in range(4):
        here = raw[:, place::4]
        packed[:, : here.shape[1]] |= (here << 2 * place).astype(np.uint8)
    return packed


raw_genotypes = hnp.arrays(
    np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 90)), elements=st.integers(0, 3)
)


def with_junk_padding(packed: np.ndarray, n_samples: int) -> np.ndarray:
    junk = packed.copy()
    if n_samples % 4:
        junk[:, -1] |= 0xFF << 2 * (n_samples % 4) & 0xFF
    return junk


@settings(deadline=None)
@given(raw=raw_genotypes, data=st.data())
def test_decode_applies_each_variants_own_table(raw: np.ndarray, data: st.DataObject) -> None:
    table = data.draw(hnp.arrays(np.int8, (len(raw), 4)))
    decoded = decode(pack(raw), table, raw.shape[1])
    assert decoded.dtype == np.int8
    assert decoded.strides == (row_stride(4 * packed_width(raw.shape[1])), 1)
    np.testing.assert_array_equal(decoded, np.take_along_axis(table, raw.astype(np.intp), axis=1))


@settings(deadline=None)
@given(raw=raw_genotypes, data=st.data())
def test_decode_reuses_the_memory_of_earlier_reads(raw: np.ndarray, data: st.DataObject) -> None:
    """Shorter and lower reads than the memory, one after the other, whole bytes."""
    memory = spread_rows(6, 100)
    memory[...] = 77
    tables = data.draw(hnp.arrays(np.int8, (2, len(raw), 4)))
    whole = np.pad(raw, ((0, 0), (0, -raw.shape[1] % 4)))
    for table, part in ((tables[0], whole), (tables[1], whole[:, 4:])):
        codes = decode_into(memory, pack(part), table)
        assert codes.base is not None
        assert np.shares_memory(codes, memory) or not codes.size
        expected = np.take_along_axis(table, part.astype(np.intp), axis=1)
        np.testing.assert_array_equal(codes, expected)
    assert (memory[len(raw) :] == 77).all()


@settings(deadline=None)
@given(raw=raw_genotypes, data=st.data())
def test_squared_norms_are_added_to_the_existing_sums(raw: np.ndarray, data: st.DataObject) -> None:
    table = data.draw(hnp.arrays(np.int8, (len(raw), 4)))
    norms = np.arange(raw.shape[1], dtype=np.int64)
    add_squared_norms(norms, with_junk_padding(pack(raw), raw.shape[1]), table)
    codes = np.take_along_axis(table, raw.astype(np.intp), axis=1).astype(object)
    np.testing.assert_array_equal(norms - np.arange(raw.shape[1]), (codes**2).sum(axis=0))


@pytest.mark.parametrize("n_variants", [1, 3, 4, 5, 2048, 70_000])
@pytest.mark.parametrize("code", [-128, 127, 1, 0])
def test_squared_norms_of_the_largest_codes(n_variants: int, code: int) -> None:
    """Sixteen bits hold four squares of 127 and three of 128; 70,000 of one overflow them."""
    table = np.full((n_variants, 4), code, dtype=np.int8)
    norms = np.zeros(9, dtype=np.int64)
    add_squared_norms(norms, np.full((n_variants, 3), 0b11100100, dtype=np.uint8), table)
    assert (norms == n_variants * code**2).all()


@pytest.mark.parametrize("n_samples", [1, 8_191, 8_192, 8_193, 20_001])
def test_squared_norms_of_long_rows(n_samples: int) -> None:
    """Longer than one pass of the kernel, as a view of longer rows."""
    rng = np.random.default_rng(n_samples)
    raw = rng.integers(0, 4, (11, n_samples))
    room = np.pad(pack(raw), ((0, 0), (5, 9)), constant_values=255)
    table = rng.integers(-128, 128, (11, 4)).astype(np.int8)
    norms = np.zeros(n_samples, dtype=np.int64)
    add_squared_norms(norms, room[:, 5:-9], table)
    codes = np.take_along_axis(table, raw, axis=1).astype(np.int64)
    np.testing.assert_array_equal(norms, (codes**2).sum(axis=0))


@settings(deadline=None)
@given(raw=raw_genotypes)
def test_counts_ignore_padding(raw: np.ndarray) -> None:
    counts = count_genotypes(with_junk_padding(pack(raw), raw.shape[1]), raw.shape[1])
    expected = [[int(np.sum(row == value)) for value in range(4)] for row in raw]
    np.testing.assert_array_equal(counts, expected)


@settings(deadline=None)
@given(raw=raw_genotypes, data=st.data())
def test_repack_keeps_the_samples_and_zeroes_padding(raw: np.ndarray, data: st.DataObject) -> None:
    n = raw.shape[1]
    keep = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))), dtype=np.intp)
    packed = with_junk_padding(pack(raw), n)
    np.testing.assert_array_equal(repack(packed, keep), pack(raw[:, keep]))


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("stop", [9, 12, 90])
def test_repack_of_a_run(start: int, stop: int) -> None:
    raw = np.random.default_rng(start).integers(0, 4, (3, 90), dtype=np.uint8)
    keep = np.arange(start, stop)
    np.testing.assert_array_equal(repack(pack(raw), keep), pack(raw[:, keep]))
