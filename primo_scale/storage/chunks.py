"""What is in the arrays of a group: read, written and committed, one chunk or many at a time.

A stored chunk is its values, little-endian and filled up where it lies across the array's edge,
and their CRC-32C; in a sealed or bound store it is the values alone, for the store checks them.
What is in one chunk goes straight between memory and the store: Zarr would copy it twice and take a
few turns of its event loop, which wait for a core while all of them compute.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from primo_scale.storage.checked_stores import CHECKSUM_BYTES
from primo_scale.storage.encryption import NONCE_BYTES, TAG_BYTES
from primo_scale.storage.files import disk_errors_explained
from primo_scale.storage.groups import Array, ArrayLayout, place_of, store_of
from primo_scale.storage.location_store import LocationStore, damaged_chunk, is_chunk
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import store_at

# What an array's own file takes at most, its chunks aside (measured: 0.6 KB).
_HEADER_BYTES = 1 << 10


def write_block(array: Array, selection: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
    """Write `values` at `selection`, a whole number of chunks."""
    index = _whole_chunk(array, selection)
    with disk_errors_explained(place_of(array)):
        if index is None:
            array[selection] = values
        else:
            _write_chunk(store_of(array), array, index, values)


def read_block(array: Array, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Read `selection`; a chunk that is missing or fails its checksum is a DamagedChunk.

    What is returned may be read-only, and a part of one chunk keeps all of it in memory.

    Raises
    ------
    InterruptedRun
        The object store that it lies in gave no usable answer.
    """
    found = _in_one_chunk(array, selection)
    if found is not None:
        index, part = found
        return _read_chunk(array, index)[part]
    try:
        return np.asarray(array[selection])
    except ValueError as error:  # what a mismatch of its checksum raises
        raise damaged_chunk(place_of(array)) from error


def commit_chunk(array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> None:
    """Write one whole chunk that is complete once it has its name, or fails its checksum.

    On a disk that is a rename; in an object store a conditional put, so that of several workers
    that come with one chunk the first wins, and the others find it committed.
    """
    with disk_errors_explained(place_of(array)):
        _write_chunk(store_of(array).for_commits(), array, index, values)


def flush_chunk(array: Array, index: tuple[int, ...]) -> None:
    """Make the chunk at grid position `index` survive a loss of power."""
    store_of(array).flush(_chunk_key(array, index))


def chunk_name(array: str, index: tuple[int, ...]) -> str:
    """Name of a chunk in its group, such as ``gram/0/c/1/0/2``."""
    return "/".join((array, "c", *(str(i) for i in index)))


def stored_chunks(place: Location) -> set[str]:
    """Names, as of `chunk_name`, of all chunks below a place.

    A listing and no more: they are there, and whether they are whole is seen when they are read.
    """
    return {key for key in store_at(place).all_keys() if is_chunk(key)}


def drop_chunk(array: Array, index: tuple[int, ...]) -> None:
    """Take the chunk at grid position `index` away, if it is there."""
    store_of(array).remove(_chunk_key(array, index))


def chunk_path(array: Array, index: tuple[int, ...]) -> Path:
    """File of the chunk at grid position `index`, of a store in a directory."""
    place = store_of(array).location
    if not isinstance(place, Path):
        raise ValueError(f"{place} is no directory")
    return place / _chunk_key(array, index)


def chunk_bytes(layout: ArrayLayout) -> int:
    """Largest size of a stored chunk of an array: whole also where it lies across the edge."""
    entries = math.prod(max(1, size) for size in layout.chunks)
    # Sealed, it has a nonce and a tag in place of its checksum.
    around = max(CHECKSUM_BYTES, NONCE_BYTES + TAG_BYTES)
    return entries * np.dtype(layout.dtype).itemsize + around


def array_bytes(layout: ArrayLayout, *, chunks: int | None = None) -> int:
    """Largest size of a stored array, of all its chunks or of so many."""
    if chunks is None:
        sides = zip(layout.shape, layout.chunks, strict=True)
        chunks = math.prod(-(-extent // max(1, size)) for extent, size in sides)
    return _HEADER_BYTES + chunks * chunk_bytes(layout)


def crc32c_of_chunk(content: bytes | memoryview) -> int | None:
    """CRC-32C of the values of a chunk, or None if that is not what it ends with."""
    computed = int(google_crc32c.value(values_of_chunk(content)))
    stored = content[-CHECKSUM_BYTES:]
    return computed if stored == computed.to_bytes(CHECKSUM_BYTES, "little") else None


def values_of_chunk(content: bytes | memoryview) -> npt.NDArray[np.uint8]:
    """All but the checksum, not copied."""
    return np.frombuffer(content, np.uint8)[:-CHECKSUM_BYTES]


def _whole_chunk(array: Array, selection: tuple[slice, ...]) -> tuple[int, ...] | None:
    """Grid position of the one chunk that a selection covers, if it is all of one."""
    found = _in_one_chunk(array, selection)
    if found is None:
        return None
    index, part = found
    return index if part == _inside(array, index) else None


def _in_one_chunk(
    array: Array, selection: tuple[slice, ...]
) -> tuple[tuple[int, ...], tuple[slice, ...]] | None:
    """Grid position of the one chunk that a selection lies in, and where; None if in no one."""
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


def _write_chunk(
    store: LocationStore, array: Array, index: tuple[int, ...], values: npt.NDArray[Any]
) -> None:
    content = np.ascontiguousarray(values, dtype=array.dtype.newbyteorder("<"))
    if content.shape != array.chunks:
        inside = _inside(array, index)
        whole = np.full(array.chunks, array.fill_value, dtype=content.dtype)
        whole[inside] = content
        content = whole
    stored = content.reshape(-1).view(np.uint8)
    parts = [stored.data]
    if array.compressors:
        checksum = int(google_crc32c.value(stored))
        parts.append(memoryview(checksum.to_bytes(CHECKSUM_BYTES, "little")))
    store.write(_chunk_key(array, index), parts)


def _read_chunk(array: Array, index: tuple[int, ...]) -> npt.NDArray[Any]:
    stored = store_of(array).read(_chunk_key(array, index))
    if not array.compressors:  # the store has checked it
        values = np.frombuffer(stored, np.uint8)
    elif crc32c_of_chunk(stored) is not None:
        values = values_of_chunk(stored)
    else:
        raise damaged_chunk(store_of(array).location / _chunk_key(array, index))
    dtype = array.dtype.newbyteorder("<")
    if values.size != dtype.itemsize * math.prod(array.chunks):
        raise damaged_chunk(store_of(array).location / _chunk_key(array, index))
    return values.view(dtype).reshape(array.chunks)[_inside(array, index)]


def _inside(array: Array, index: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of a chunk that lies in the array."""
    return tuple(
        slice(0, min(size, extent - i * size))
        for i, size, extent in zip(index, array.chunks, array.shape, strict=True)
    )


def _chunk_key(array: Array, index: tuple[int, ...]) -> str:
    return chunk_name(array.store_path.path, index)
