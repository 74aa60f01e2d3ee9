"""Reading, writing and committing of array values, one chunk or several at a time.

A stored chunk consists of its little-endian values, padded beyond the array's edge, and their
CRC-32C. A store that encrypts chunks or adds checksums itself gets the values alone. Values of a
single chunk pass directly between memory and the store. Zarr would copy them twice and schedule
several steps in its event loop, which wait while all cores compute.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from primo_scale.storage.encryption import NONCE_BYTES, TAG_BYTES
from primo_scale.storage.files import disk_errors_explained, write_all
from primo_scale.storage.groups import Array, ArrayLayout, Group, create_array
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import (
    CHECKSUM_BYTES,
    BaseStore,
    DiskStore,
    crc32c_bytes,
    damaged,
    is_chunk,
    store_at,
)

# Largest size of an array's metadata document (measured: 0.6 KB).
_HEADER_BYTES = 1 << 10


def write_block(array: Array, selection: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
    """Write `values` at `selection`, which covers whole chunks."""
    found = _in_one_chunk(array, selection)
    with disk_errors_explained(_store_of(array).location):
        if found is not None and found[1] == _inside(array, found[0]):
            _store_of(array).write(_chunk_key(array, found[0]), _encoded(array, found[0], values))
        else:
            array[selection] = values


def write_array(
    group: Group, name: str, values: npt.NDArray[Any], chunks: tuple[int, ...]
) -> Array:
    """Create an array of a group with these values, in chunks of a shape, and return it."""
    array = create_array(group, name, ArrayLayout(values.shape, chunks, values.dtype))
    write_block(array, (slice(None),) * values.ndim, values)
    return array


def read_block(array: Array, selection: tuple[slice, ...] = ()) -> npt.NDArray[Any]:
    """Read the values at `selection`, by default all.

    The result may be read-only, and a part of one chunk keeps the whole chunk in memory. A chunk
    that is missing or fails its checksum raises `DamagedChunk`.
    """
    selection = selection or (slice(None),) * array.ndim
    found = _in_one_chunk(array, selection)
    if found is not None:
        index, part = found
        return read_chunk(array, index)[part]
    try:
        return np.asarray(array[selection])
    except ValueError as error:  # Zarr found a wrong checksum
        raise damaged(_store_of(array).location, f"{array.path}/c/") from error


def read_chunk(array: Array, index: tuple[int, ...]) -> npt.NDArray[Any]:
    """Read the chunk at grid position `index`; errors are those of `read_block`."""
    store, key = _store_of(array), _chunk_key(array, index)
    content, dtype = store.read(key), array.dtype.newbyteorder("<")
    stored, is_intact = np.frombuffer(content, np.uint8), True
    if array.compressors:  # else the store has checked the chunk
        stored, is_intact = stored[:-CHECKSUM_BYTES], crc32c_of_chunk(content) is not None
    if not is_intact or stored.size != dtype.itemsize * math.prod(array.chunks):
        raise damaged(store.location, key)
    return stored.view(dtype).reshape(array.chunks)[_inside(array, index)]


def commit_chunk(array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> None:
    """Write one whole chunk atomically.

    A disk store renames a file. An object store uses a conditional put: the first of several
    workers that write the same chunk wins, and the others find it committed.
    """
    with disk_errors_explained(_store_of(array).location):
        _store_of(array).commit(_chunk_key(array, index), _encoded(array, index, values))


def chunk_name(array: str, index: tuple[int, ...]) -> str:
    """Return the name of a chunk in its group, such as ``gram/0/c/1/0/2``."""
    return "/".join((array, "c", *(str(i) for i in index)))


def stored_chunks(location: Location) -> set[str]:
    """Return the names, as of `chunk_name`, of all chunks below a location.

    The chunks are listed and not read, so that some may be damaged.
    """
    return {key for key in store_at(location).all_keys() if is_chunk(key)}


def drop_chunk(array: Array, index: tuple[int, ...]) -> None:
    """Delete the chunk at grid position `index`, if it exists."""
    _store_of(array).remove(_chunk_key(array, index))


def chunk_path(array: Array, index: tuple[int, ...]) -> Path:
    """Return the file of the chunk at grid position `index` of a store in a directory."""
    return Path(_store_of(array).location, _chunk_key(array, index))


def chunk_bytes(layout: ArrayLayout) -> int:
    """Return the largest size of a stored chunk in bytes; chunks at the edge are padded."""
    entries = math.prod(max(1, size) for size in layout.chunks)
    # An encrypted chunk has a nonce and a tag instead of a checksum.
    overhead = max(CHECKSUM_BYTES, NONCE_BYTES + TAG_BYTES)
    return entries * np.dtype(layout.dtype).itemsize + overhead


def array_bytes(layout: ArrayLayout, *, chunks: int | None = None) -> int:
    """Return the largest size in bytes of a stored array, or of one with so many chunks."""
    if chunks is None:
        sides = zip(layout.shape, layout.chunks, strict=True)
        chunks = math.prod(-(-extent // max(1, size)) for extent, size in sides)
    return _HEADER_BYTES + chunks * chunk_bytes(layout)


def crc32c_of_chunk(content: bytes | memoryview) -> int | None:
    """Return the CRC-32C of a stored chunk's values, or None if the chunk ends with another."""
    computed = crc32c_bytes(memoryview(content)[:-CHECKSUM_BYTES])
    return int.from_bytes(computed, "little") if content[-CHECKSUM_BYTES:] == computed else None


def _in_one_chunk(
    array: Array, selection: tuple[slice, ...]
) -> tuple[tuple[int, ...], tuple[slice, ...]] | None:
    """Return the grid position of the chunk that contains a selection and the part, or None."""
    index, inside = [], []
    for part, extent, size in zip(selection, array.shape, array.chunks, strict=True):
        start, stop, step = part.indices(extent)
        if step != 1 or start >= stop:
            return None
        before = start - start % size
        if stop > before + size:
            return None
        index.append(before // size)
        inside.append(slice(start - before, stop - before))
    return tuple(index), tuple(inside)


def _encoded(array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> list[memoryview]:
    """Return the content of a chunk, padded and with its checksum unless the store adds one."""
    content = np.ascontiguousarray(values, dtype=array.dtype.newbyteorder("<"))
    if content.shape != array.chunks:
        whole = np.full(array.chunks, array.fill_value, dtype=content.dtype)
        whole[_inside(array, index)] = content
        content = whole
    stored = content.reshape(-1).view(np.uint8)
    if not array.compressors:
        return [stored.data]
    return [stored.data, memoryview(crc32c_bytes(stored))]


def _inside(array: Array, index: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of a chunk that lies inside the array."""
    return tuple(
        slice(0, min(size, extent - i * size))
        for i, size, extent in zip(index, array.chunks, array.shape, strict=True)
    )


def _chunk_key(array: Array, index: tuple[int, ...]) -> str:
    return chunk_name(array.path, index)


def _store_of(array: Array) -> BaseStore:
    store: Any = array.store_path.store
    # An array that was opened with Zarr's own functions is on a disk.
    return store if isinstance(store, BaseStore) else DiskStore(store.root)


# Zarr writes a chunk only when it has all its rows. Each row of a .bed file holds a small part of
# many chunks. Appending rows to the chunk files lets every byte be read, examined and written while
# it is in the processor's cache. The finished files are identical to those that Zarr writes.


class ChunkAppender:
    """Writer of neighbouring chunks in one row of the chunk grid, see `open_chunk_appender`.

    Until `finish` returns, incomplete files exist under the final names, so that the caller needs
    another record of which chunks are complete.
    """

    def __init__(self, array: Array, descriptors: Sequence[int], most_rows: int) -> None:
        self._height, self._width = array.chunks
        self._fill = np.uint8(array.fill_value)
        self._descriptors = descriptors
        self._checksums = [0] * len(descriptors)
        self._rows = 0
        self._piece = np.empty((min(most_rows, self._height), self._width), dtype=np.uint8)

    def append(self, values: npt.NDArray[np.uint8]) -> None:
        """Write the next rows of all chunks: uint8, shape (at most `most_rows`, bytes).

        The rows of all chunks lie side by side. The array's edge may make the last chunk narrower.
        """
        piece = self._piece[: len(values)]
        for column in range(len(self._descriptors)):
            part = values[:, column * self._width : (column + 1) * self._width]
            piece[:, : part.shape[1]] = part
            piece[:, part.shape[1] :] = self._fill
            self._write(column, piece)
        self._rows += len(values)

    def finish(self) -> npt.NDArray[np.uint32]:
        """Pad the chunks, append their CRC-32C, flush the files, and return the checksums."""
        for column, descriptor in enumerate(self._descriptors):
            missing = self._height - self._rows
            if missing:
                self._write(column, np.full((missing, self._width), self._fill))
            write_all(descriptor, self._checksums[column].to_bytes(CHECKSUM_BYTES, "little"))
        for descriptor in self._descriptors:
            os.fsync(descriptor)
        return np.array(self._checksums, dtype=np.uint32)

    def _write(self, column: int, rows: npt.NDArray[np.uint8]) -> None:
        content = rows.reshape(-1)
        self._checksums[column] = google_crc32c.extend(self._checksums[column], content)
        write_all(self._descriptors[column], content.data)


@contextmanager
def open_chunk_appender(
    array: Array, row: int, columns: range, *, most_rows: int
) -> Iterator[ChunkAppender]:
    """Open empty files for the chunks at `row` and `columns` of the chunk grid.

    The array holds uint8 in two dimensions, neither compressed nor encrypted, in a directory. The
    memory is that of `most_rows` rows of one chunk, the largest number for one `append`.
    """
    paths = [chunk_path(array, (row, column)) for column in columns]
    with ExitStack() as opened:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        files = [opened.enter_context(path.open("wb", buffering=0)) for path in paths]
        yield ChunkAppender(array, [file.fileno() for file in files], most_rows)
