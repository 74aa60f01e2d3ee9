"""The packed kernels against the definition of the layout, written out one genotype at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from primo_scale.kernels.packed import (
    always_missing,
    count_genotypes,
    decode,
    packed_width,
    repack,
    transpose,
)


def pack(raw: np.ndarray) -> np.ndarray:
    """Raw values (v, n) to bytes, as the .bed format says: first sample in the lowest bits."""
    packed = np.zeros((raw.shape[0], packed_width(raw.shape[1])), dtype=np.uint8)
    for (v, i), value in np.ndenumerate(raw):
        packed[v, i // 4] |= int(value) << 2 * (i % 4)
    return packed


raw_genotypes = hnp.arrays(
    np.uint8,
    st.tuples(st.integers(1, 4), st.integers(1, 90)),
    elements=st.integers(0, 3),
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
    assert decoded.flags.c_contiguous
    np.testing.assert_array_equal(decoded, np.take_along_axis(table, raw.astype(np.intp), axis=1))


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


def test_repack_of_nobody_has_no_bytes() -> None:
    assert repack(pack(np.ones((3, 9), dtype=np.uint8)), np.array([], dtype=np.intp)).shape == (
        3,
        0,
    )


@settings(deadline=None)
@given(raw=raw_genotypes, data=st.data())
def test_transpose(raw: np.ndarray, data: st.DataObject) -> None:
    columns = sorted(data.draw(st.sets(st.integers(0, raw.shape[1] - 1), min_size=1)))
    result = transpose(pack(raw), np.array(columns, dtype=np.intp))
    np.testing.assert_array_equal(result, pack(raw[:, columns].T))


@settings(deadline=None)
@given(raw=raw_genotypes)
def test_always_missing_marks_samples_without_a_call(raw: np.ndarray) -> None:
    raw[:, 0] = 1
    expected = np.where((raw == 1).all(axis=0), 1, 0)[None, :]
    np.testing.assert_array_equal(always_missing(pack(raw)), pack(expected)[0])
