"""Zarr format 3 groups with a kind, a format version and checksummed chunks.

Every group this project writes says what it is (``primo_scale_kind``) and in which version of
that layout; readers refuse what they do not know. Every chunk carries a CRC-32C, and the store
knows which one belongs to which place (`checked_stores`), so that a torn, flipped or exchanged
chunk is an error when it is read, never a wrong number. Under a key of the user's the kinds that
hold anything about people are encrypted instead, all but this header (`encryption`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.array_spec import ArrayConfigParams
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import StorePath

from primo_scale.errors import InputError
from primo_scale.storage.checked_stores import BoundStore, ChecksumTable, RecordedStore
from primo_scale.storage.disks import DiskStore
from primo_scale.storage.encrypted_store import SealedStore
from primo_scale.storage.encryption import (
    Sealing,
    check_key,
    new_sealing,
    open_attributes,
    seal_attributes,
)
from primo_scale.storage.files import disk_errors_explained
from primo_scale.storage.location_store import HEADER, LocationStore
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import store_at

KIND_ATTRIBUTE = "primo_scale_kind"
VERSION_ATTRIBUTE = "primo_scale_format_version"
COMPLETE_ATTRIBUTE = "complete"
_SEALING_ATTRIBUTE, _SEALED_ATTRIBUTE = "encryption", "sealed"
_CHECKSUMS_ATTRIBUTE = "chunk_checksums"

# One entry a kind of group; raised when its layout changes, with a migration beside the reader.
FORMAT_VERSIONS = {
    "genotypes": 3,
    "outcomes": 2,
    "partial statistics": 6,
    "statistics": 4,
    "private statistics": 4,
}

# Genotypes are a copy of files that lie about in the clear anyway.
_ENCRYPTED_KINDS = FORMAT_VERSIONS.keys() - {"genotypes"}

# Many processes write their chunks, so that nobody could record all checksums.
_BOUND_KINDS = {"partial statistics"}

# Zarr leaves out chunks that hold only the fill value unless told otherwise, which would make
# "all homozygous" and "never written" the same thing on disk.
_EVERY_CHUNK: ArrayConfigParams = {"write_empty_chunks": True}

Array = zarr.Array[Any]
Group: TypeAlias = zarr.Group


def create_group(place: Location, kind: str, attributes: Mapping[str, Any]) -> zarr.Group:
    """Create an empty group of `kind` at `place`, replacing what an unfinished run left there."""
    sealing = new_sealing() if kind in _ENCRYPTED_KINDS else None
    store = _view(store_at(place), kind, sealing)
    with disk_errors_explained(place):
        # In one write: a group that does not say what it is would be nobody's.
        group = zarr.open_group(
            store,
            mode="w",
            zarr_format=3,
            attributes=_stored_attributes(sealing, kind, attributes, complete=False),
        )
        store.close_to_others()
    return group


def open_group(place: Location, kind: str, *, complete: bool = True) -> zarr.Group:
    """Open a group and check that it is of `kind`, of a known version and, if asked, complete.

    Raises
    ------
    InputError
        Nothing there, another kind of data, a version this release does not read, a group whose
        writing was never finished, one that the key in effect does not open, or a damaged one.
    """
    store = store_at(place)
    if not store.holds(HEADER):
        raise InputError(f"holds no {kind} store", where=str(place), remedy="Check the path")
    with _damage_explained(place):
        group = zarr.open_group(store, mode="r+" if not complete else "r", zarr_format=3)
    found = group.attrs.get(KIND_ATTRIBUTE)
    if found != kind:
        raise InputError("is a store of another kind", where=str(place), value=found, limit=kind)
    version = group.attrs.get(VERSION_ATTRIBUTE)
    if version != FORMAT_VERSIONS[kind]:
        raise InputError(
            f"the {kind} store has an unknown format version",
            where=str(place),
            value=version,
            limit=FORMAT_VERSIONS[kind],
            remedy="Write it again with this version of primo_scale",
        )
    with _damage_explained(place):
        stored: Any = group.attrs.get(_SEALING_ATTRIBUTE)
        sealing = None if stored is None else Sealing(str(stored["key"]), str(stored["store"]))
        recorded = _recorded_in(group)
    if kind in _ENCRYPTED_KINDS:
        check_key(sealing, str(place))
    if complete and not group.attrs.get(COMPLETE_ATTRIBUTE):
        raise InputError(
            f"the {kind} store is unfinished",
            where=str(place),
            remedy="Run the command that writes it again; it continues where it stopped",
        )
    return _group_in(_view(store_of(group), kind, sealing, recorded), group)


def is_complete(place: Location, kind: str) -> bool:
    """Whether `place` holds a finished group of `kind`."""
    if not store_at(place).holds(HEADER):
        return False
    return bool(open_group(place, kind, complete=False).attrs.get(COMPLETE_ATTRIBUTE))


class Attributes(dict[str, Any]):
    """Attributes of a group, by name; one that is missing is an InputError.

    Parameters
    ----------
    attributes
        Attributes that there are.
    place
        Location of the group.
    """

    def __init__(self, attributes: Mapping[str, Any], place: Location) -> None:
        super().__init__(attributes)
        self._place = place

    def __missing__(self, name: str) -> Any:
        raise InputError(
            "the store is damaged: an attribute is missing",
            where=str(self._place),
            value=name,
            remedy="Remove the store and run the same command again",
        )


def attributes_of(group: zarr.Group) -> Attributes:
    """Return what `create_group` and `mark_complete` were given.

    Raises
    ------
    InputError
        They are damaged.
    """
    sealing, stored = _sealing_of(group), group.attrs.asdict()
    if sealing is not None:
        kind, complete = str(stored[KIND_ATTRIBUTE]), bool(stored[COMPLETE_ATTRIBUTE])
        sealed, about = str(stored.get(_SEALED_ATTRIBUTE)), _about(kind, complete)
        where = place_of(group)
        return Attributes(open_attributes(sealing, sealed, about, str(where)), where)
    for name in (KIND_ATTRIBUTE, VERSION_ATTRIBUTE, COMPLETE_ATTRIBUTE, _CHECKSUMS_ATTRIBUTE):
        stored.pop(name, None)
    return Attributes(stored, place_of(group))


def flush(group: zarr.Group) -> None:
    """Make everything in a group survive a loss of power."""
    store_of(group).flush(group.store_path.path)


def mark_complete(group: zarr.Group, attributes: Mapping[str, Any]) -> None:
    """Set the last attributes of a group and declare it finished, in one atomic write."""
    store, kind = store_of(group), str(group.attrs[KIND_ATTRIBUTE])
    with disk_errors_explained(store.location):
        every = {**attributes_of(group), **attributes}
        stored = _stored_attributes(_sealing_of(group), kind, every, complete=True)
        if isinstance(store, RecordedStore):
            stored[_CHECKSUMS_ATTRIBUTE] = dict(sorted(store.recorded.items()))
        group.attrs.put(stored)
        store.flush(_key(group, HEADER))


def create_array(
    group: zarr.Group,
    name: str,
    *,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: npt.DTypeLike,
    fill_value: int = 0,
) -> Array:
    """Create an uncompressed array, checksummed, bound or sealed, whose every chunk is written."""
    return group.create_array(
        name,
        shape=shape,
        chunks=tuple(max(1, size) for size in chunks),
        dtype=np.dtype(dtype),
        fill_value=fill_value,
        filters=None,
        # Other stores check their chunks themselves.
        compressors=[Crc32cCodec()] if isinstance(store_of(group), RecordedStore) else None,
        config=_EVERY_CHUNK,
        overwrite=True,
    )


@dataclass(frozen=True)
class ArrayLayout:
    """Shape, chunks and type of an array."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: npt.DTypeLike


def create_arrays(group: zarr.Group, layouts: Mapping[str, ArrayLayout]) -> dict[str, Array]:
    """Create arrays by name in a new group, each as `create_array` would, side by side.

    One by one, those of a thousand LD blocks would take seconds on a disk and minutes in a bucket.
    """
    created: dict[str, Array] = {}
    headers: dict[np.dtype[Any], ArrayV3Metadata] = {}
    nodes: dict[str, Any] = {}
    for name, layout in layouts.items():
        shape, chunks, dtype = layout.shape, layout.chunks, np.dtype(layout.dtype)
        if dtype not in headers:  # the first of its type shows what Zarr makes of it
            created[name] = create_array(group, name, shape=shape, chunks=chunks, dtype=dtype)
            headers[dtype] = cast(ArrayV3Metadata, created[name].metadata)
            continue
        grid = {"chunk_shape": [max(1, size) for size in chunks]}
        changes: dict[str, Any] = {
            "shape": shape,
            "chunk_grid": {"name": "regular", "configuration": grid},
        }
        nodes[name] = ArrayV3Metadata.from_dict({**headers[dtype].to_dict(), **changes})
    for name, node in group.create_hierarchy(nodes):
        if isinstance(node, zarr.Array):
            created[name] = node.with_config(_EVERY_CHUNK)
    return created


def write_strings(group: zarr.Group, name: str, values: Sequence[str]) -> None:
    """Store a column of text as a Zarr variable-length UTF-8 array."""
    array = group.create_array(
        name, shape=(len(values),), chunks=(max(1, min(len(values), 65536)),), dtype=str,
        compressors=[ZstdCodec(), Crc32cCodec()], overwrite=True,
    )  # fmt: skip
    if len(values):
        array[:] = np.asarray(values, dtype=object)


def read_strings(group: zarr.Group, name: str) -> npt.NDArray[np.object_]:
    """Read back a column written by `write_strings`, as Python strings.

    Raises
    ------
    InputError
        It is missing or damaged.
    """
    array = array_of(group, name)
    with _damage_explained(place_of(array)):
        return np.asarray(array[:], dtype=object)


def array_of(group: zarr.Group, name: str) -> Array:
    """The array `name` of a group.

    Raises
    ------
    InputError
        It is not there, or what says of what shape it is was damaged.
    """
    with _damage_explained(place_of(group) / name):
        member = group[name]
        if not isinstance(member, zarr.Array):
            raise KeyError(name)
    array: Array = member
    return array.with_config(_EVERY_CHUNK)  # a setting of the open array, not of the stored one


def has_array(group: zarr.Group, name: str) -> bool:
    """Whether a group has an array `name`, whole or not."""
    return store_of(group).holds(f"{_key(group, name)}/{HEADER}")


@contextmanager
def _damage_explained(where: Location) -> Iterator[None]:
    """Say in one line what Zarr says of a header that is gone, or torn by a loss of power."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            "the store is damaged",
            where=str(where),
            remedy="Remove the store and run the same command again",
        ) from error


def expect_checksums(group: zarr.Group, name: str, table: ChecksumTable) -> None:
    """Hold the chunks of an array against a table of their checksums, by grid position.

    For arrays whose chunks are not written through the store, which then records nothing of them.
    """
    store = store_of(group)
    if isinstance(store, RecordedStore):
        store.expect(_key(group, name), table)


def _view(
    store: LocationStore,
    kind: str,
    sealing: Sealing | None,
    recorded: Mapping[str, int] | None = None,
) -> LocationStore:
    """Return the store as groups of a kind are read and written through it."""
    if sealing is not None:
        return SealedStore(store, sealing)
    return BoundStore(store) if kind in _BOUND_KINDS else RecordedStore(store, recorded or {})


def _recorded_in(group: zarr.Group) -> dict[str, int]:
    """Return the checksums that a finished group recorded, by the keys of its chunks."""
    recorded: Any = group.attrs.get(_CHECKSUMS_ATTRIBUTE) or {}
    return {str(key): int(checksum) for key, checksum in recorded.items()}


def _sealing_of(group: zarr.Group) -> Sealing | None:
    store = group.store_path.store
    return store.sealing if isinstance(store, SealedStore) else None


def _stored_attributes(
    sealing: Sealing | None, kind: str, attributes: Mapping[str, Any], *, complete: bool
) -> dict[str, Any]:
    header = {
        KIND_ATTRIBUTE: kind,
        VERSION_ATTRIBUTE: FORMAT_VERSIONS[kind],
        COMPLETE_ATTRIBUTE: complete,
    }
    if sealing is None:
        return {**header, **attributes}
    sealed = seal_attributes(sealing, attributes, _about(kind, complete))
    return {**header, _SEALING_ATTRIBUTE: asdict(sealing), _SEALED_ATTRIBUTE: sealed}


def _about(kind: str, complete: bool) -> str:
    """What sealed attributes are bound to: nobody calls a store complete that is not."""
    return f"{HEADER} of {kind}, {'complete' if complete else 'unfinished'}"


def store_of(node: zarr.Group | Array) -> LocationStore:
    """The store that a group or an array lies in."""
    store = node.store_path.store
    # Whoever opened it with Zarr alone did so on a disk.
    return store if isinstance(store, LocationStore) else DiskStore(store.root)  # type: ignore[attr-defined]


def place_of(node: zarr.Group | Array) -> Location:
    """Where a group or an array lies."""
    place = store_of(node).location
    return place / node.store_path.path if node.store_path.path else place


def _key(node: zarr.Group | Array, name: str) -> str:
    path = node.store_path.path
    return f"{path}/{name}" if path else name


def _group_in(store: LocationStore, group: zarr.Group) -> zarr.Group:
    """The same group, read and written through another view of its store."""
    path = StorePath(store, group.store_path.path)
    return zarr.Group(zarr.AsyncGroup(group.metadata, path))
