"""Zarr format 3 groups with a kind, a format version and checksummed chunks.

Every group this project writes says what it is (``primo_scale_kind``) and in which version of
that layout; readers refuse what they do not know. Every chunk carries a CRC-32C, so a torn or
flipped chunk is an error when it is read, never a wrong number.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.array_spec import ArrayConfigParams

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.files import disk_errors_explained

KIND_ATTRIBUTE = "primo_scale_kind"
VERSION_ATTRIBUTE = "primo_scale_format_version"
COMPLETE_ATTRIBUTE = "complete"

# One entry a kind of group; raised when its layout changes, with a migration beside the reader.
FORMAT_VERSIONS = {
    "genotypes": 1,
    "outcomes": 1,
    "partial statistics": 4,
    "statistics": 3,
    "private statistics": 3,
}

# Zarr leaves out chunks that hold only the fill value unless told otherwise, which would make
# "all homozygous" and "never written" the same thing on disk.
_EVERY_CHUNK: ArrayConfigParams = {"write_empty_chunks": True}

Array = zarr.Array[Any]
Group: TypeAlias = zarr.Group


def create_group(path: Path, kind: str, attributes: Mapping[str, Any]) -> zarr.Group:
    """Create an empty group of `kind` at `path`, replacing what an unfinished run left there."""
    with disk_errors_explained(path):
        group = zarr.open_group(path, mode="w", zarr_format=3)
        group.attrs.put(
            {
                KIND_ATTRIBUTE: kind,
                VERSION_ATTRIBUTE: FORMAT_VERSIONS[kind],
                COMPLETE_ATTRIBUTE: False,
                **attributes,
            }
        )
        path.chmod(0o700)
    return group


def open_group(path: Path, kind: str, *, complete: bool = True) -> zarr.Group:
    """Open a group and check that it is of `kind`, of a known version and, if asked, complete.

    Raises
    ------
    InputError
        Nothing there, another kind of data, a version this release does not read, or a group
        whose writing was never finished.
    """
    if not (path / "zarr.json").is_file():
        raise InputError(f"holds no {kind} store", where=path, remedy="Check the path")
    group = zarr.open_group(path, mode="r+" if not complete else "r")
    found = group.attrs.get(KIND_ATTRIBUTE)
    if found != kind:
        raise InputError("is a store of another kind", where=path, value=found, limit=kind)
    version = group.attrs.get(VERSION_ATTRIBUTE)
    if version != FORMAT_VERSIONS[kind]:
        raise InputError(
            f"the {kind} store has an unknown format version",
            where=path,
            value=version,
            limit=FORMAT_VERSIONS[kind],
            remedy="Write it again with this version of primo_scale",
        )
    if complete and not group.attrs.get(COMPLETE_ATTRIBUTE):
        raise InputError(
            f"the {kind} store is unfinished",
            where=path,
            remedy="Run the command that writes it again; it continues where it stopped",
        )
    return group


def is_complete(path: Path, kind: str) -> bool:
    """Whether `path` holds a finished group of `kind`."""
    if not (path / "zarr.json").is_file():
        return False
    return bool(open_group(path, kind, complete=False).attrs.get(COMPLETE_ATTRIBUTE))


def mark_complete(group: zarr.Group, attributes: Mapping[str, Any]) -> None:
    """Set the last attributes of a group and declare it finished, in one atomic write."""
    root = _local_path(group)
    with disk_errors_explained(root):
        group.attrs.update({**attributes, COMPLETE_ATTRIBUTE: True})
        _sync_file(root / "zarr.json")


def create_array(
    group: zarr.Group,
    name: str,
    *,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: npt.DTypeLike,
    fill_value: int = 0,
) -> Array:
    """Create an uncompressed, checksummed array whose every chunk is written."""
    return group.create_array(
        name,
        shape=shape,
        chunks=tuple(max(1, size) for size in chunks),
        dtype=np.dtype(dtype),
        fill_value=fill_value,
        filters=None,
        compressors=[Crc32cCodec()],
        config=_EVERY_CHUNK,
        overwrite=True,
    )


def write_block(array: Array, selection: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
    """Write `values` at `selection`, a whole number of chunks."""
    with disk_errors_explained(_local_path(array)):
        array[selection] = values


def read_block(array: Array, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Read `selection`; a chunk that is missing or fails its checksum is a DamagedChunk.

    Zarr reads a missing chunk as the fill value, which in a sum is a silently wrong number.
    """
    for index in _chunks_of(array, selection):
        if not chunk_path(array, index).is_file():
            raise DamagedChunk(
                "a stored chunk is missing",
                where=chunk_path(array, index),
                remedy="Remove the store and run the same command again",
            )
    try:
        return np.asarray(array[selection])
    except ValueError as error:  # what the crc32c codec raises on a mismatch
        raise DamagedChunk(
            "a stored chunk is damaged",
            where=_local_path(array),
            remedy="Remove the store and run the same command again",
        ) from error


def _chunks_of(array: Array, selection: tuple[slice, ...]) -> Iterator[tuple[int, ...]]:
    """Grid positions of the chunks that `selection` touches."""
    ranges = []
    for part, size, extent in zip(selection, array.chunks, array.shape, strict=True):
        start, stop, _ = part.indices(extent)
        ranges.append(range(start // size, -(-stop // size) if stop > start else start // size))
    return itertools.product(*ranges)


def commit_chunk(array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> None:
    """Write one whole chunk: it has its name when it is whole (Zarr renames), or fails its CRC."""
    chunks = array.chunks
    selection = tuple(
        slice(i * size, min((i + 1) * size, extent))
        for i, size, extent in zip(index, chunks, array.shape, strict=True)
    )
    write_block(array, selection, values)


def chunk_path(array: Array, index: tuple[int, ...]) -> Path:
    """Where the chunk at grid position `index` lies on the disk."""
    return _local_path(array).joinpath("c", *(str(i) for i in index))


def chunk_name(array: str, index: tuple[int, ...]) -> str:
    """Name of a chunk in its group, such as ``gram/0/c/1/0/2``."""
    return "/".join((array, "c", *(str(i) for i in index)))


def stored_chunks(path: Path) -> set[str]:
    """Names, as of `chunk_name`, of all chunks of the group at `path`.

    A listing and no more: they are there, and whether they are whole is seen when they are read.
    """
    names: set[str] = set()
    below = len(str(path)) + 1
    for directory, _, files in os.walk(path):
        if files and "/c/" in directory:
            prefix = directory[below:]
            names.update(f"{prefix}/{file}" for file in files if file.isdecimal())
    return names


def write_strings(group: zarr.Group, name: str, values: Sequence[str]) -> None:
    """Store a column of text as a Zarr variable-length UTF-8 array."""
    array = group.create_array(
        name, shape=(len(values),), chunks=(max(1, min(len(values), 65536)),), dtype=str,
        overwrite=True,
    )  # fmt: skip
    if len(values):
        array[:] = np.asarray(values, dtype=object)


def read_strings(group: zarr.Group, name: str) -> npt.NDArray[np.object_]:
    """Read back a column written by `write_strings`, as Python strings."""
    return np.asarray(array_of(group, name)[:], dtype=object)


def array_of(group: zarr.Group, name: str) -> Array:
    """The array `name` of a group (a group of that name would be a damaged store)."""
    member = group[name]
    if not isinstance(member, zarr.Array):
        raise InputError("the store is damaged: not an array", where=name)
    array: Array = member
    return array.with_config(_EVERY_CHUNK)  # a setting of the open array, not of the stored one


def _local_path(node: zarr.Group | Array) -> Path:
    return Path(str(node.store_path.store.root)) / node.store_path.path  # type: ignore[attr-defined]


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
