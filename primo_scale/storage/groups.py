"""Zarr format 3 groups with a kind, a format version and checksummed chunks.

Every group states its kind (``primo_scale_kind``) and the version of its layout, and readers refuse
unknown ones. Every chunk has a CRC-32C that is bound to the chunk's key (`encoding_stores`), so
that reading an incomplete, changed or exchanged chunk is an error. With a key of the user, kinds
that hold data about people are encrypted instead, except for the group's metadata (`encryption`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.array_spec import ArrayConfigParams
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import StorePath

from primo_scale.errors import InputError, UsageError
from primo_scale.storage.base_store import HEADER, BaseStore, damaged_store
from primo_scale.storage.encoding_stores import (
    EncryptedStore,
    KeyedChecksumStore,
    RecordedChecksumStore,
)
from primo_scale.storage.encryption import (
    StoreEncryption,
    check_key,
    decrypt_attributes,
    encrypt_attributes,
    new_store_encryption,
)
from primo_scale.storage.files import PRIVATE_DIRECTORY_MODE, disk_errors_explained
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import DiskStore, store_at

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
_ENCRYPTED_KINDS = FORMAT_VERSIONS.keys() - {
    "genotypes",
    "dosages",
    "ld components",
    "own directions",
}

# Kinds whose chunks several processes or runs write, so that none can record all checksums.
_BOUND_KINDS = {"partial statistics", "principal components"}

# By default Zarr does not write chunks that hold only the fill value. Then "all homozygous" and
# "never written" could not be told apart on disk.
_EVERY_CHUNK: ArrayConfigParams = {"write_empty_chunks": True}

Array = zarr.Array[Any]
Group: TypeAlias = zarr.Group


def create_group(location: Location, kind: str, attributes: Mapping[str, Any]) -> zarr.Group:
    """Create an empty group of `kind` at `location`; a group that exists there is replaced."""
    encryption = new_store_encryption() if kind in _ENCRYPTED_KINDS else None
    store = _view(store_at(location), kind, encryption)
    with disk_errors_explained(location):
        # One write, so that a group never exists without its kind.
        group = zarr.open_group(
            store,
            mode="w",
            zarr_format=3,
            attributes=_stored_attributes(encryption, kind, attributes, complete=False),
        )
        if isinstance(location, Path):
            location.chmod(PRIVATE_DIRECTORY_MODE)
    return group


def open_group(location: Location, kind: str, *others: str, complete: bool = True) -> zarr.Group:
    """Open a group of a kind, one of `FORMAT_VERSIONS`, or of one of several kinds.

    A group that has to be `complete` is opened read-only. A group that is missing, unfinished,
    damaged, of another kind or of an unknown format version is refused, and so is one that the key
    in effect does not decrypt.
    """
    store = store_at(location)
    if not store.holds(HEADER):
        raise InputError(f"holds no {kind} store", where=str(location), remedy="Check the path")
    with _damage_explained(location):
        group = zarr.open_group(store, mode="r+" if not complete else "r", zarr_format=3)
    found = group.attrs.get(KIND_ATTRIBUTE)
    if found not in (kind, *others):
        raise InputError(
            "is a store of another kind", where=str(location), value=found, expected=kind
        )
    kind = str(found)
    version = group.attrs.get(VERSION_ATTRIBUTE)
    if version != FORMAT_VERSIONS[kind]:
        raise InputError(
            f"the {kind} store has an unknown format version",
            where=str(location),
            value=version,
            expected=FORMAT_VERSIONS[kind],
            remedy="Write it again with this version of primo_scale",
        )
    with _damage_explained(location):
        stored: Any = group.attrs.get(_ENCRYPTION_ATTRIBUTE)
        encryption = (
            None if stored is None else StoreEncryption(str(stored["key"]), str(stored["store"]))
        )
        checksums: Any = group.attrs.get(_CHECKSUMS_ATTRIBUTE) or {}
        recorded = {str(key): int(checksum) for key, checksum in checksums.items()}
    if kind in _ENCRYPTED_KINDS:
        check_key(encryption, str(location))
    if complete and not group.attrs.get(COMPLETE_ATTRIBUTE):
        raise InputError(
            f"the {kind} store is unfinished",
            where=str(location),
            remedy="Run the command that writes it again; it continues where it stopped",
        )
    view = _view(store_of(group), kind, encryption, recorded)
    return zarr.Group(zarr.AsyncGroup(group.metadata, StorePath(view, group.store_path.path)))


def kind_of(group: zarr.Group) -> str:
    """Return the kind of an open group."""
    return str(group.attrs[KIND_ATTRIBUTE])


def is_complete(location: Location, kind: str) -> bool:
    """Return whether `location` holds a finished group of `kind`."""
    if not store_at(location).holds(HEADER):
        return False
    return bool(open_group(location, kind, complete=False).attrs.get(COMPLETE_ATTRIBUTE))


class Attributes(dict[str, Any]):
    """Attributes of a group by name; reading a missing one raises an InputError."""

    def __init__(self, attributes: Mapping[str, Any], location: Location) -> None:
        super().__init__(attributes)
        self._location = location

    def __missing__(self, name: str) -> Any:
        raise InputError(
            "the store is damaged: an attribute is missing",
            where=str(self._location),
            value=name,
            remedy="Remove the store and run the same command again",
        )


def attributes_of(group: zarr.Group) -> Attributes:
    """Return the attributes that `create_group` and `mark_complete` were given."""
    encryption, stored = _encryption_of(group), group.attrs.asdict()
    if encryption is not None:
        kind, complete = str(stored[KIND_ATTRIBUTE]), bool(stored[COMPLETE_ATTRIBUTE])
        encrypted, about = str(stored.get(_ENCRYPTED_ATTRIBUTE)), _about(kind, complete)
        where = location_of(group)
        return Attributes(decrypt_attributes(encryption, encrypted, about, str(where)), where)
    for name in (KIND_ATTRIBUTE, VERSION_ATTRIBUTE, COMPLETE_ATTRIBUTE, _CHECKSUMS_ATTRIBUTE):
        stored.pop(name, None)
    return Attributes(stored, location_of(group))


def flush(group: zarr.Group) -> None:
    """Make everything in a group survive a power failure."""
    store = store_of(group)
    with disk_errors_explained(store.location):
        store.flush(group.store_path.path)


def mark_complete(group: zarr.Group, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a group and mark it as finished, in one atomic write."""
    store, kind = store_of(group), str(group.attrs[KIND_ATTRIBUTE])
    with disk_errors_explained(store.location):
        every = {**attributes_of(group), **attributes}
        stored = _stored_attributes(_encryption_of(group), kind, every, complete=True)
        if isinstance(store, RecordedChecksumStore):
            stored[_CHECKSUMS_ATTRIBUTE] = dict(sorted(store.recorded.items()))
        group.attrs.put(stored)
        store.flush(_key(group, HEADER))


@dataclass(frozen=True)
class ArrayLayout:
    """Shape, chunk shape and data type of an array."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: npt.DTypeLike


def create_array(group: zarr.Group, name: str, layout: ArrayLayout, fill_value: int = 0) -> Array:
    """Create an uncompressed array whose chunks are checksummed or encrypted and all written."""
    return group.create_array(
        name,
        shape=layout.shape,
        chunks=tuple(max(1, size) for size in layout.chunks),
        dtype=np.dtype(layout.dtype),
        fill_value=fill_value,
        filters=None,
        # The other stores add their own checksums or tags.
        compressors=[Crc32cCodec()] if isinstance(store_of(group), RecordedChecksumStore) else None,
        config=_EVERY_CHUNK,
        overwrite=True,
    )


def create_arrays(group: zarr.Group, layouts: Mapping[str, ArrayLayout]) -> dict[str, Array]:
    """Create arrays in a new group concurrently, with the same metadata as by `create_array`.

    One after the other, the arrays of a thousand LD blocks take seconds on a disk and minutes in a
    bucket.
    """
    created: dict[str, Array] = {}
    headers: dict[np.dtype[Any], ArrayV3Metadata] = {}
    nodes: dict[str, Any] = {}
    for name, layout in layouts.items():
        dtype = np.dtype(layout.dtype)
        if dtype not in headers:  # Zarr makes the metadata of the first array of each data type
            created[name] = create_array(group, name, layout)
            headers[dtype] = cast(ArrayV3Metadata, created[name].metadata)
            continue
        grid = {"chunk_shape": [max(1, size) for size in layout.chunks]}
        changes: dict[str, Any] = {
            "shape": layout.shape,
            "chunk_grid": {"name": "regular", "configuration": grid},
        }
        nodes[name] = ArrayV3Metadata.from_dict({**headers[dtype].to_dict(), **changes})
    for name, node in group.create_hierarchy(nodes):
        if isinstance(node, zarr.Array):
            created[name] = node.with_config(_EVERY_CHUNK)
    return created


def write_strings(group: zarr.Group, name: str, values: Sequence[str]) -> None:
    """Store a column of strings as a Zarr array of variable-length UTF-8."""
    array = group.create_array(
        name, shape=(len(values),), chunks=(max(1, min(len(values), 65536)),), dtype=str,
        compressors=[ZstdCodec(), Crc32cCodec()], overwrite=True,
    )  # fmt: skip
    if len(values):
        array[:] = np.asarray(values, dtype=object)


def read_strings(group: zarr.Group, name: str) -> npt.NDArray[np.object_]:
    """Return a column written by `write_strings`, as Python strings."""
    array = array_of(group, name)
    with _damage_explained(location_of(array)):
        return np.asarray(array[:], dtype=object)


def array_of(group: zarr.Group, name: str) -> Array:
    """Return an array of a group, or raise an InputError if it is missing or damaged.

    Its metadata is read in this thread. Zarr's own threads wait for a CPU when all are busy.
    """
    store, key = store_of(group), _key(group, name)
    with _damage_explained(location_of(group) / name):
        try:
            metadata = json.loads(bytes(store.read(f"{key}/{HEADER}")))
        except FileNotFoundError as error:
            raise KeyError(name) from error
        place = StorePath(group.store_path.store, key)
        return zarr.Array(zarr.AsyncArray(metadata, place, config=_EVERY_CHUNK))


def has_array(group: zarr.Group, name: str) -> bool:
    """Return whether a group has an array `name`, complete or not."""
    return store_of(group).holds(f"{_key(group, name)}/{HEADER}")


@contextmanager
def _damage_explained(where: Location) -> Iterator[None]:
    """Turn Zarr's errors about a missing or damaged metadata document into one InputError."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise damaged_store(where) from error


def expect_checksums(group: zarr.Group, name: str, table: npt.NDArray[np.uint32]) -> None:
    """Compare the chunks of an array with a table of their checksums, by grid position.

    This is for arrays whose chunks are not written through the store, which does not record them.
    """
    store = store_of(group)
    if isinstance(store, RecordedChecksumStore):
        store.expect(_key(group, name), table)


def _view(
    store: BaseStore,
    kind: str,
    encryption: StoreEncryption | None,
    recorded: Mapping[str, int] | None = None,
) -> BaseStore:
    """Return the view of a store that encrypts or checks the chunks of a kind of group."""
    if encryption is not None:
        return EncryptedStore(store, encryption)
    return (
        KeyedChecksumStore(store)
        if kind in _BOUND_KINDS
        else RecordedChecksumStore(store, recorded or {})
    )


def _encryption_of(group: zarr.Group) -> StoreEncryption | None:
    store = group.store_path.store
    return store.encryption if isinstance(store, EncryptedStore) else None


def _stored_attributes(
    encryption: StoreEncryption | None, kind: str, attributes: Mapping[str, Any], *, complete: bool
) -> dict[str, Any]:
    header = {
        KIND_ATTRIBUTE: kind,
        VERSION_ATTRIBUTE: FORMAT_VERSIONS[kind],
        COMPLETE_ATTRIBUTE: complete,
    }
    if encryption is None:
        return {**header, **attributes}
    return {
        **header,
        _ENCRYPTION_ATTRIBUTE: asdict(encryption),
        _ENCRYPTED_ATTRIBUTE: encrypt_attributes(encryption, attributes, _about(kind, complete)),
    }


def _about(kind: str, complete: bool) -> str:
    """Return what encrypted attributes authenticate, so that nobody can mark a store complete."""
    return f"{HEADER} of {kind}, {'complete' if complete else 'unfinished'}"


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


def store_of(node: zarr.Group | Array) -> BaseStore:
    """Return the store of a group or an array."""
    store = node.store_path.store
    # A group that was opened with Zarr's own functions is on a disk.
    return store if isinstance(store, BaseStore) else DiskStore(store.root)  # type: ignore[attr-defined]


def location_of(node: zarr.Group | Array) -> Location:
    """Return the location of a group or an array."""
    location = store_of(node).location
    return location / node.store_path.path if node.store_path.path else location


def _key(node: zarr.Group | Array, name: str) -> str:
    path = node.store_path.path
    return f"{path}/{name}" if path else name
