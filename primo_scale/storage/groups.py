"""Zarr format 3 groups with a kind, a format version and checksummed chunks, and their values.

Every group states its kind (``primo_scale_kind``) and the version of its layout, and readers refuse
unknown ones. Every chunk has a CRC-32C that is bound to the chunk's key (`stores.BaseStore`), so
that reading an incomplete, changed or exchanged chunk is an error. With a key of the user, kinds
that hold data about people are encrypted instead, except for the group's metadata (`stores`).

A stored chunk consists of its little-endian values, padded beyond the array's edge, and their
CRC-32C. A store that encrypts chunks or adds checksums itself gets the values alone. Values of a
single chunk pass directly between memory and the store. Zarr would copy them twice and schedule
several steps in its event loop, which wait while all cores compute.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.array_spec import ArrayConfigParams
from zarr.storage import StorePath

from primo_scale.errors import InputError, UsageError
from primo_scale.machine import in_threads
from primo_scale.storage import stores
from primo_scale.storage.files import PRIVATE_DIRECTORY_MODE, disk_errors_explained, write_all
from primo_scale.storage.locations import Location

if not __debug__:  # Zarr reads metadata in an assert statement
    raise UsageError(
        "Zarr does not work in an optimized Python",
        where="python -O",
        remedy="Leave out -O and unset PYTHONOPTIMIZE",
    )

KIND_ATTRIBUTE = "primo_scale_kind"
VERSION_ATTRIBUTE = "primo_scale_format_version"
COMPLETE_ATTRIBUTE = "complete"
_ENCRYPTION_ATTRIBUTE, _ENCRYPTED_ATTRIBUTE = "encryption", "sealed"
_CHECKSUMS_ATTRIBUTE = "chunk_checksums"

# Format version by kind of group. A change of the layout increases it.
FORMAT_VERSIONS = {
    "genotypes": 3,
    "dosages": 1,
    "outcomes": 2,
    "partial statistics": 6,
    "statistics": 4,
    "private statistics": 4,
    "ld components": 1,
    "own directions": 1,
    "own sums": 1,
    "principal components": 1,
}

# Genotypes are not encrypted: the PLINK files they are copied from are not either.
_ENCRYPTED = FORMAT_VERSIONS.keys() - {"genotypes", "dosages", "ld components", "own directions"}

# Kinds whose chunks several processes or runs write, so that none can record all checksums.
_BOUND_KINDS = {"partial statistics", "principal components"}

# By default Zarr does not write chunks that hold only the fill value. Then "all homozygous" and
# "never written" could not be told apart on disk.
_EVERY_CHUNK: ArrayConfigParams = {"write_empty_chunks": True}

_CREATED_AT_ONCE = 16  # arrays, each of which waits for a disk or a bucket

Array = zarr.Array[Any]


@dataclass
class Group:
    """Open group: its store, and the attributes in its metadata document."""

    store: stores.BaseStore
    stored: dict[str, Any]

    @property
    def location(self) -> Location:
        """Location of the group."""
        location: Location = self.store.location
        return location

    @property
    def kind(self) -> str:
        """Kind of the group, one of `FORMAT_VERSIONS`."""
        return str(self.stored[KIND_ATTRIBUTE])


def create_group(location: Location, kind: str, attributes: Mapping[str, Any]) -> Group:
    """Create an empty group of `kind` at `location`; a group that exists there is replaced."""
    encryption = stores.new_store_encryption() if kind in _ENCRYPTED else None
    group = Group(_view(location, kind, encryption, {}), {})
    with disk_errors_explained(location):
        group.store.remove_below("")
        # One write, so that a group never exists without its kind.
        _write_header(group, kind, attributes, complete=False)
        if isinstance(location, Path):
            location.chmod(PRIVATE_DIRECTORY_MODE)
    return group


def open_group(location: Location, kind: str, *others: str, complete: bool = True) -> Group:
    """Open a group of a kind, one of `FORMAT_VERSIONS`, or of one of several kinds.

    A group that is missing, unfinished although it has to be `complete`, damaged, of another kind
    or of an unknown format version is refused, and so is one that the key in effect does not
    decrypt.
    """
    with _damage_explained(location):
        try:
            header = json.loads(bytes(stores.store_at(location).read(stores.HEADER)))
            stored = header.get("attributes", {})
        except FileNotFoundError:
            raise InputError(
                f"holds no {kind} store", where=str(location), remedy="Check the path"
            ) from None
        found = stored.get(KIND_ATTRIBUTE)
    if found not in (kind, *others):
        raise InputError(
            "is a store of another kind", where=str(location), value=found, expected=kind
        )
    kind, version = str(found), stored.get(VERSION_ATTRIBUTE)
    if version != FORMAT_VERSIONS[kind]:
        raise InputError(
            f"the {kind} store has an unknown format version",
            where=str(location),
            value=version,
            expected=FORMAT_VERSIONS[kind],
            remedy="Write it again with this version of primo_scale",
        )
    with _damage_explained(location):
        key = stored.get(_ENCRYPTION_ATTRIBUTE)
        encryption = (
            None if key is None else stores.StoreEncryption(str(key["key"]), str(key["store"]))
        )
        checksums = stored.get(_CHECKSUMS_ATTRIBUTE) or {}
        recorded = {str(name): int(checksum) for name, checksum in checksums.items()}
    if kind in _ENCRYPTED:
        stores.check_key(encryption, str(location))
    if complete and not stored.get(COMPLETE_ATTRIBUTE):
        remedy = "Run the command that writes it again; it continues where it stopped"
        raise InputError(f"the {kind} store is unfinished", where=str(location), remedy=remedy)
    return Group(_view(location, kind, encryption, recorded), stored)


def is_complete(location: Location, kind: str) -> bool:
    """Return whether `location` holds a finished group of `kind`."""
    if not stores.store_at(location).holds(stores.HEADER):
        return False
    return bool(open_group(location, kind, complete=False).stored.get(COMPLETE_ATTRIBUTE))


class Attributes(dict[str, Any]):
    """Attributes of a group by name; reading a missing one raises an InputError."""

    def __init__(self, attributes: Mapping[str, Any], location: Location) -> None:
        super().__init__(attributes)
        self._location = location

    def __missing__(self, name: str) -> Any:
        what = "the store is damaged: an attribute is missing"
        remedy = "Remove the store and run the same command again"
        raise InputError(what, where=str(self._location), value=name, remedy=remedy)


def attributes_of(group: Group) -> Attributes:
    """Return the attributes that `create_group` and `mark_complete` were given."""
    encryption, stored = group.store.encryption, dict(group.stored)
    if encryption is not None:
        # Attributes hold digests of private integers, with which guesses of them can be confirmed.
        about = _about(group.kind, complete=bool(stored[COMPLETE_ATTRIBUTE]))
        with _damage_explained(group.location):
            text = stores.opened(encryption, str(stored.get(_ENCRYPTED_ATTRIBUTE)), about)
        return Attributes(json.loads(text), group.location)
    for name in (KIND_ATTRIBUTE, VERSION_ATTRIBUTE, COMPLETE_ATTRIBUTE, _CHECKSUMS_ATTRIBUTE):
        stored.pop(name, None)
    return Attributes(stored, group.location)


def flush(group: Group) -> None:
    """Make everything in a group survive a power failure."""
    with disk_errors_explained(group.location):
        group.store.flush("")


def mark_complete(group: Group, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a group and mark it as finished, in one atomic write."""
    with disk_errors_explained(group.location):
        _write_header(group, group.kind, {**attributes_of(group), **attributes}, complete=True)
        group.store.flush(stores.HEADER)


@dataclass(frozen=True)
class ArrayLayout:
    """Shape, chunk shape and data type of an array."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: npt.DTypeLike


def create_array(group: Group, name: str, layout: ArrayLayout, fill_value: int = 0) -> Array:
    """Create an uncompressed array whose chunks are checksummed or encrypted and all written."""
    group.store.remove_below(name)
    return create_arrays(group, {name: layout}, fill_value)[name]


def create_arrays(
    group: Group, layouts: Mapping[str, ArrayLayout], fill_value: int = 0
) -> dict[str, Array]:
    """Create arrays, as `create_array` does, that do not exist yet, several at a time.

    Through Zarr, the arrays of a thousand LD blocks take seconds on a disk and minutes in a bucket.
    """
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if group.store.recorded is not None:
        codecs.append({"name": "crc32c"})  # the other guards add their own checksums or tags

    def create(item: tuple[str, ArrayLayout]) -> Array:
        name, layout = item
        dtype = np.dtype(layout.dtype)
        metadata = {
            "node_type": "array",
            "shape": layout.shape,
            "data_type": dtype.name,
            "chunk_grid": _named("regular", chunk_shape=[max(1, size) for size in layout.chunks]),
            "chunk_key_encoding": _named("default", separator="/"),
            "fill_value": dtype.type(fill_value).item(),
            "codecs": codecs,
        }
        return _array(group, name, _write_node(group, name, metadata))

    for parent in sorted({name.rpartition("/")[0] for name in layouts} - {""}):
        _write_node(group, parent, {"node_type": "group"})
    return dict(zip(layouts, in_threads(create, layouts.items(), _CREATED_AT_ONCE), strict=True))


def write_strings(group: Group, name: str, values: Sequence[str]) -> None:
    """Store a column of strings as a Zarr array of variable-length UTF-8."""
    array = zarr.create_array(
        group.store, name=name, shape=(len(values),), chunks=(max(1, min(len(values), 65536)),),
        dtype=str, compressors=[ZstdCodec(), Crc32cCodec()], overwrite=True,
    )  # fmt: skip
    if len(values):
        array[:] = np.asarray(values, dtype=object)


def read_strings(group: Group, name: str) -> npt.NDArray[np.object_]:
    """Return a column written by `write_strings`, as Python strings."""
    array = array_of(group, name)
    with _damage_explained(group.location / name):
        return np.asarray(array[:], dtype=object)


def array_of(group: Group, name: str) -> Array:
    """Return an array of a group, or raise an InputError if it is missing or damaged.

    Its metadata is read in this thread. Zarr's own threads wait for a CPU when all are busy.
    """
    with _damage_explained(group.location / name):
        try:
            metadata = json.loads(bytes(group.store.read(f"{name}/{stores.HEADER}")))
        except FileNotFoundError as error:
            raise KeyError(name) from error
        return _array(group, name, metadata)


def _array(group: Group, name: str, metadata: Any) -> Array:
    return zarr.Array(zarr.AsyncArray(metadata, StorePath(group.store, name), config=_EVERY_CHUNK))


def has_array(group: Group, name: str) -> bool:
    """Return whether a group has an array `name`, complete or not."""
    return group.store.holds(f"{name}/{stores.HEADER}")


@contextmanager
def _damage_explained(where: Location) -> Iterator[None]:
    """Turn Zarr's errors about a missing or damaged metadata document into one InputError."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise stores.damaged(where, "") from error


def _view(
    location: Location,
    kind: str,
    encryption: stores.StoreEncryption | None,
    recorded: Mapping[str, int],
) -> stores.BaseStore:
    """Return the store at a location with the guard of a kind of group."""
    store = stores.store_at(location)
    store.encryption, store.keyed = encryption, kind in _BOUND_KINDS
    if not store.keyed and encryption is None:
        store.recorded = dict(recorded)
    return store


def _write_header(
    group: Group, kind: str, attributes: Mapping[str, Any], *, complete: bool
) -> None:
    stored: dict[str, Any] = {
        KIND_ATTRIBUTE: kind,
        VERSION_ATTRIBUTE: FORMAT_VERSIONS[kind],
        COMPLETE_ATTRIBUTE: complete,
    }
    encryption, recorded = group.store.encryption, group.store.recorded
    if encryption is None:
        stored |= attributes
    else:
        content, about = json.dumps(attributes).encode(), _about(kind, complete=complete)
        stored[_ENCRYPTION_ATTRIBUTE] = asdict(encryption)
        stored[_ENCRYPTED_ATTRIBUTE] = stores.sealed(encryption, content, about)
    if complete and recorded is not None:
        stored[_CHECKSUMS_ATTRIBUTE] = dict(sorted(recorded.items()))
    _write_node(group, "", {"node_type": "group", "attributes": stored})
    group.stored = stored


def _write_node(group: Group, name: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """Write a metadata document, and return it."""
    document = {"zarr_format": 3, "attributes": {}, **metadata}
    key = f"{name}/{stores.HEADER}" if name else stores.HEADER
    group.store.write(key, [memoryview(json.dumps(document).encode())])
    return document


def _named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def _about(kind: str, *, complete: bool) -> str:
    """Return what encrypted attributes authenticate, so that nobody can mark a store complete."""
    return f"{stores.HEADER} of {kind}, {'complete' if complete else 'unfinished'}"


def open_foreign_arrays(path: Path) -> Mapping[str, Array]:
    """Return the arrays, by name, of a group of format 2 or 3 that another program wrote."""
    with foreign_errors_explained(path):
        return dict(zarr.open_group(str(path), mode="r").arrays())


@contextmanager
def foreign_errors_explained(path: Path) -> Iterator[Any]:
    """Turn errors of Zarr and of its codecs into an `InputError` that names the group."""
    try:
        yield
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SystemError,
    ) as error:  # fmt: skip
        raise InputError(
            f"cannot be read as a Zarr group: {' '.join(str(error).split())}", where=path
        ) from error


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
        raise stores.damaged(_store_of(array).location, f"{array.path}/c/") from error


def read_chunk(array: Array, index: tuple[int, ...]) -> npt.NDArray[Any]:
    """Read the chunk at grid position `index`; errors are those of `read_block`."""
    store, key = _store_of(array), _chunk_key(array, index)
    content, dtype = store.read(key), array.dtype.newbyteorder("<")
    stored, is_intact = np.frombuffer(content, np.uint8), True
    if array.compressors:  # else the store has checked the chunk
        stored, is_intact = stored[: -stores.CHECKSUM_BYTES], crc32c_of_chunk(content) is not None
    if not is_intact or stored.size != dtype.itemsize * math.prod(array.chunks):
        raise stores.damaged(store.location, key)
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
    return {key for key in stores.store_at(location).all_keys() if stores.is_chunk(key)}


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
    overhead = max(stores.CHECKSUM_BYTES, stores.NONCE_BYTES + stores.TAG_BYTES)
    return entries * np.dtype(layout.dtype).itemsize + overhead


def array_bytes(layout: ArrayLayout, *, chunks: int | None = None) -> int:
    """Return the largest size in bytes of a stored array, or of one with so many chunks."""
    if chunks is None:
        sides = zip(layout.shape, layout.chunks, strict=True)
        chunks = math.prod(-(-extent // max(1, size)) for extent, size in sides)
    return _HEADER_BYTES + chunks * chunk_bytes(layout)


def crc32c_of_chunk(content: bytes | memoryview) -> int | None:
    """Return the CRC-32C of a stored chunk's values, or None if the chunk ends with another."""
    computed = stores.crc32c_bytes(memoryview(content)[: -stores.CHECKSUM_BYTES])
    is_intact = content[-stores.CHECKSUM_BYTES :] == computed
    return int.from_bytes(computed, "little") if is_intact else None


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
    return [stored.data, memoryview(stores.crc32c_bytes(stored))]


def _inside(array: Array, index: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of a chunk that lies inside the array."""
    return tuple(
        slice(0, min(size, extent - i * size))
        for i, size, extent in zip(index, array.chunks, array.shape, strict=True)
    )


def _chunk_key(array: Array, index: tuple[int, ...]) -> str:
    return chunk_name(array.path, index)


def _store_of(array: Array) -> stores.BaseStore:
    store: Any = array.store_path.store
    # An array that was opened with Zarr's own functions is on a disk.
    return store if isinstance(store, stores.BaseStore) else stores.DiskStore(store.root)


def write_chunks_by_rows(
    array: Array, row: int, columns: range, pieces: Iterable[npt.NDArray[np.uint8]]
) -> npt.NDArray[np.uint32]:
    """Write and flush the chunks at `row` and `columns` of the chunk grid, a few rows at a time.

    The array holds uint8 in two dimensions, neither compressed nor encrypted, in a directory. A
    piece has the next rows of all chunks side by side, shape (rows, bytes); the array's edge may
    make the last chunk narrower. The result has the checksum of each chunk.

    Zarr writes a chunk only when it has all its rows. Each row of a .bed file holds a small part of
    many chunks. Appending rows to the chunk files lets every byte be read, examined and written
    while it is in the processor's cache. The finished files are identical to those that Zarr
    writes. Before, incomplete files exist under the final names, so that the caller needs another
    record of which chunks are complete.
    """
    (height, width), fill = array.chunks, np.uint8(array.fill_value)
    paths = [chunk_path(array, (row, column)) for column in columns]
    checksums = [0] * len(paths)
    with ExitStack() as stack:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        files = [stack.enter_context(path.open("wb", buffering=0)).fileno() for path in paths]

        def append(number: int, rows: npt.NDArray[np.uint8]) -> None:
            content = rows.reshape(-1)
            checksums[number] = google_crc32c.extend(checksums[number], content)
            write_all(files[number], content.data)

        missing = height
        for values in pieces:
            piece = np.empty((len(values), width), dtype=np.uint8)
            for number in range(len(files)):
                part = values[:, number * width : (number + 1) * width]
                piece[:, : part.shape[1]] = part
                piece[:, part.shape[1] :] = fill
                append(number, piece)
            missing -= len(values)
        for number, descriptor in enumerate(files):
            append(number, np.full((missing, width), fill))
            write_all(descriptor, checksums[number].to_bytes(stores.CHECKSUM_BYTES, "little"))
        for descriptor in files:
            os.fsync(descriptor)
    return np.array(checksums, dtype=np.uint32)
