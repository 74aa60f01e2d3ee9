"""Chunks written row by row, compared with those that Zarr writes."""

from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primo_scale.storage.chunks import chunk_path, open_chunk_appender, read_block, write_block
from primo_scale.storage.groups import Array, ArrayLayout, create_array, create_group


def empty_array(path: Path, shape: tuple[int, int], chunks: tuple[int, int]) -> Array:
    group = create_group(path, "genotypes", {})
    return create_array(group, "a", ArrayLayout(shape, chunks, np.uint8), fill_value=0x55)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    chunks=st.tuples(st.integers(1, 16), st.integers(1, 16)),
    rows=st.integers(1, 20),
    side_by_side=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_files_equal_those_that_zarr_writes(
    tmp_path_factory, shape, chunks, rows, side_by_side, seed
):
    folder = tmp_path_factory.mktemp("chunks")
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    theirs = empty_array(folder / "theirs", shape, chunks)
    write_block(theirs, (slice(None), slice(None)), values)
    ours = empty_array(folder / "ours", shape, chunks)
    height, width = -(-shape[0] // chunks[0]), -(-shape[1] // chunks[1])
    for row in range(height):
        part = values[row * chunks[0] : (row + 1) * chunks[0]]
        for first in range(0, width, side_by_side):
            grid = range(first, min(first + side_by_side, width))
            columns = slice(first * chunks[1], grid.stop * chunks[1])
            with open_chunk_appender(ours, row, grid, most_rows=rows) as growing:
                for top in range(0, len(part), rows):
                    growing.append(part[top : top + rows, columns])
                checksums = growing.finish()
            for column, checksum in zip(grid, checksums.tolist(), strict=True):
                expected = chunk_path(theirs, (row, column)).read_bytes()
                assert chunk_path(ours, (row, column)).read_bytes() == expected
                assert checksum == google_crc32c.value(expected[:-4])
    np.testing.assert_array_equal(read_block(ours), values)
