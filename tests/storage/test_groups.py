"""Zarr groups: kinds, format versions, completeness, checksums."""

from itertools import combinations, product
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.durable import flushes_seen
from support.tiers import thinned

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage import groups


def finished(path):
    group = groups.create_group(path, "statistics", {"note": "x"})
    array = groups.create_array(group, "a", groups.ArrayLayout((5, 6), (2, 6), np.int64))
    for row in range(3):
        groups.commit_chunk(array, (row, 0), np.full((2 if row < 2 else 1, 6), row))
    groups.mark_complete(group, {})
    return groups.array_of(groups.open_group(path, "statistics"), "a")


def test_an_unfinished_group_is_refused_and_a_finished_one_read(tmp_path):
    path = tmp_path / "s.zarr"
    groups.create_group(path, "statistics", {})
    assert not groups.is_complete(path, "statistics")
    with pytest.raises(InputError, match="unfinished"):
        groups.open_group(path, "statistics")
    array = finished(path)
    assert groups.is_complete(path, "statistics")
    np.testing.assert_array_equal(array[:, 0], [0, 0, 1, 1, 2])
    assert groups.chunk_path(array, (0, 0)).is_file(), "a chunk of fill values is written"


def test_another_kind_and_an_absent_store_are_refused(tmp_path):
    finished(tmp_path / "s.zarr")
    with pytest.raises(InputError, match="another kind"):
        groups.open_group(tmp_path / "s.zarr", "outcomes")
    with pytest.raises(InputError, match="holds no"):
        groups.open_group(tmp_path / "none.zarr", "statistics")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", thinned([np.uint8, np.int64], every=2))
def test_every_block_is_what_zarr_reads(dtype, tmp_path):
    """Blocks in one chunk or several, inside and at both edges, read directly or through Zarr."""
    group = groups.create_group(tmp_path / "g.zarr", "statistics", {})
    values = np.arange(7 * 5).reshape(7, 5).astype(dtype)
    array = groups.write_array(group, "a", values, (3, 2))
    rows, columns = ([slice(*ends) for ends in combinations(range(n + 1), 2)] for n in (7, 5))
    for block in product([*rows, slice(None)], [*columns, slice(None)]):
        found = groups.read_block(array, block)
        np.testing.assert_array_equal(found, values[block])
        np.testing.assert_array_equal(found, array[block])
        assert found.dtype == dtype
    assert groups.read_block(array, (slice(2, 2), slice(0, 1))).shape == (0, 1)
    np.testing.assert_array_equal(
        groups.read_block(array, (slice(0, 3, 2), slice(0, 2))), values[:3:2, :2]
    )


@pytest.mark.parametrize("harm", ["flipped", "torn", "grown", "empty", "gone"])
def test_a_damaged_chunk_is_detected_by_every_way_of_reading(harm, tmp_path):
    group = groups.create_group(tmp_path / "g.zarr", "statistics", {})
    array = groups.write_array(group, "a", np.arange(16, dtype=np.int32).reshape(4, 4), (2, 4))
    path = groups.chunk_path(array, (1, 0))
    whole = path.read_bytes()
    flipped = bytes([whole[0] ^ 1]) + whole[1:]
    content = {"flipped": flipped, "torn": whole[:-3], "grown": whole + b"0", "empty": b""}
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(content[harm])
    error = rf"^{path}: a stored chunk is missing" if harm == "gone" else "chunk is damaged"
    for rows in (slice(2, 4), slice(0, 4), slice(3, 4)):
        with pytest.raises(DamagedChunk, match=error):
            groups.read_block(array, (rows, slice(0, 4)))
    np.testing.assert_array_equal(
        groups.read_block(array, (slice(0, 2), slice(0, 1)))[:, 0], [0, 4]
    )


def test_a_flush_includes_the_directory_entry(tmp_path):
    """A rename changes the directory, which must be flushed too."""
    group = groups.create_group(tmp_path / "g.zarr", "statistics", {})
    groups.write_array(group, "a", np.ones((2, 2)), (2, 2))
    root = group.location
    for act, flushed in [
        (lambda: groups.mark_complete(group, {}), {root / "zarr.json", root}),
        (lambda: groups.flush(group), {tmp_path, root, *root.rglob("*")}),
    ]:
        seen: set[Path] = set()
        with flushes_seen(seen.add):
            act()
        assert seen == flushed


@pytest.mark.parametrize("harm", ["gone", "torn", "empty", "no array"])
def test_damaged_metadata_of_an_array_is_one_error_line(harm, tmp_path):
    where = tmp_path / "s.zarr"
    finished(where)
    group, header = groups.open_group(where, "statistics"), where / "a" / "zarr.json"
    content = header.read_text()
    group_header = (where / "zarr.json").read_text()
    harmed = {"torn": content[:40], "empty": "", "no array": group_header}
    header.unlink()
    if harm != "gone":
        header.write_text(harmed[harm])
    assert groups.has_array(group, "a") == (harm != "gone")
    with pytest.raises(InputError, match=rf"^{where}/a: the store is damaged. Remove the store"):
        groups.array_of(group, "a")


@pytest.mark.parametrize("length", [0, 1, 40])
def test_damaged_metadata_of_a_store_is_one_error_line(length, tmp_path):
    where = tmp_path / "s.zarr"
    finished(where)
    header = where / "zarr.json"
    header.write_text(header.read_text()[:length])
    for look in (groups.open_group, groups.is_complete):
        with pytest.raises(InputError, match=rf"^{where}: the store is damaged. Remove the store"):
            look(where, "statistics")
    finished(where)  # removed and written again
    assert groups.is_complete(where, "statistics")


def empty_array(path: Path, shape: tuple[int, int], chunks: tuple[int, int]) -> groups.Array:
    group = groups.create_group(path, "genotypes", {})
    return groups.create_array(
        group, "a", groups.ArrayLayout(shape, chunks, np.uint8), fill_value=0x55
    )


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
    groups.write_block(theirs, (slice(None), slice(None)), values)
    ours = empty_array(folder / "ours", shape, chunks)
    height, width = -(-shape[0] // chunks[0]), -(-shape[1] // chunks[1])
    for row in range(height):
        part = values[row * chunks[0] : (row + 1) * chunks[0]]
        for first in range(0, width, side_by_side):
            grid = range(first, min(first + side_by_side, width))
            columns = slice(first * chunks[1], grid.stop * chunks[1])
            pieces = (part[top : top + rows, columns] for top in range(0, len(part), rows))
            checksums = groups.write_chunks_by_rows(ours, row, grid, pieces)
            for column, checksum in zip(grid, checksums.tolist(), strict=True):
                expected = groups.chunk_path(theirs, (row, column)).read_bytes()
                assert groups.chunk_path(ours, (row, column)).read_bytes() == expected
                assert checksum == google_crc32c.value(expected[:-4])
    np.testing.assert_array_equal(groups.read_block(ours), values)
