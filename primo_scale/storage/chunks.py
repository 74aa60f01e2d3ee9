"""Reading, writing and committing of array values, one chunk or several at a time.

A stored chunk consists of its little-endian values, padded beyond the array's edge, and their
CRC-32C. A store that encrypts chunks or adds checksums itself gets the values alone. Values of a
single chunk pass directly between memory and the store. Zarr would copy them twice and schedule
several steps in its event loop, which wait while all cores compute.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from primo_scale.storage.base_store import damaged_chunk, is_chunk
from primo_scale.storage.encoding_stores import CHECKSUM_BYTES
from primo_scale.storage.encryption import NONCE_BYTES, TAG_BYTES
from primo_scale.storage.files import disk_errors_explained
from primo_scale.storage.groups import (
    Array,
    ArrayLayout,
    Group,
    create_array,
    location_of,
    store_of,
)
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import store_at

# Largest size of an array's metadata document (measured: 0.6 KB).
_HEADER_BYTES = 1 << 10


def write_block(array: Array, selection: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
    """Write `values` at `selection`, which covers whole chunks."""
    found = _in_one_chunk(array, selection)
    with disk_errors_explained(location_of(array)):
        if found is not None and found[1] == _inside(array, found[0]):
            store_of(array).write(_chunk_key(array, found[0]), _encoded(array, found[0], values))
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
        raise damaged_chunk(location_of(array)) from error


def read_chunk(array: Array, index: tuple[int, ...]) -> npt.NDArray[Any]:
    """Read the chunk at grid position `index`; errors are those of `read_block`."""
    store, key = store_of(array), _chunk_key(array, index)
    content, dtype = store.read(key), array.dtype.newbyteorder("<")
    stored, damaged = np.frombuffer(content, np.uint8), False
    if array.compressors:  # else the store has checked the chunk
        stored, damaged = stored[:-CHECKSUM_BYTES], crc32c_of_chunk(content) is None
    if damaged or stored.size != dtype.itemsize * math.prod(array.chunks):
        raise damaged_chunk(store.location / key)
    return stored.view(dtype).reshape(array.chunks)[_inside(array, index)]


def commit_chunk(array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> None:
    """Write one whole chunk atomically.

    A disk store renames a file. An object store uses a conditional put: the first of several
    workers that write the same chunk wins, and the others find it committed.
    """
    with disk_errors_explained(location_of(array)):
        store_of(array).commit(_chunk_key(array, index), _encoded(array, index, values))


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
    store_of(array).remove(_chunk_key(array, index))


def chunk_path(array: Array, index: tuple[int, ...]) -> Path:
    """Return the file of the chunk at grid position `index` of a store in a directory."""
    location = store_of(array).location
    if not isinstance(location, Path):
        raise ValueError(f"{location} is not a directory")
    return location / _chunk_key(array, index)


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
    computed = int(google_crc32c.value(np.frombuffer(content, np.uint8)[:-CHECKSUM_BYTES]))
    stored = content[-CHECKSUM_BYTES:]
    return computed if stored == computed.to_bytes(CHECKSUM_BYTES, "little") else None


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
    checksum = int(google_crc32c.value(stored)).to_bytes(CHECKSUM_BYTES, "little")
    return [stored.data, memoryview(checksum)]


def _inside(array: Array, index: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of a chunk that lies inside the array."""
    return tuple(
        slice(0, min(size, extent - i * size))
        for i, size, extent in zip(index, array.chunks, array.shape, strict=True)
    )


def _chunk_key(array: Array, index: tuple[int, ...]) -> str:
    return chunk_name(array.store_path.path, index)
