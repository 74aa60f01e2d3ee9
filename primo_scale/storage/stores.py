"""Zarr stores in directories and buckets, with synchronous access to their objects.

A checksum of the values alone does not detect that two chunks of the same size were exchanged. A
store therefore has a `Guard`. A finished store records the checksum of each chunk, and any Zarr
reader can read its chunks. Partial sums have many writers and no common record, so that their
checksums also cover the chunk's key. In an encrypted store the authentication tag covers it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import google_crc32c
import numpy as np
import numpy.typing as npt
from zarr.abc.store import Store

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.encryption import StoreEncryption
from primo_scale.storage.files import (
    disk_errors_explained,
    sync_directory,
    sync_file,
    sync_tree,
    write_all,
)
from primo_scale.storage.locations import Location

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

HEADER = "zarr.json"
"""Key of a store's unencrypted metadata document, and file name of each array's metadata."""
CHECKSUM_BYTES = 4
_WRITE_AGAIN = "Remove the store and run the same command again"
Parts = Sequence[memoryview]


def is_chunk(key: str) -> bool:
    """Return whether a key of a Zarr format 3 store is that of a chunk."""
    return "/c/" in key


def no_conditional_put(where: Location) -> InputError:
    """Return the error of an object store without conditional writes."""
    return InputError(
        "the object store does not support conditional put, which commits need",
        where=str(where),
        remedy="Use a service with If-None-Match",
    )


def damaged(where: Location, key: str, what: str = "damaged") -> InputError:
    """Return the error of an object that is missing, incomplete, changed or exchanged."""
    if is_chunk(key):
        return DamagedChunk(
            f"a stored chunk is {what}", where=str(where / key), remedy=_WRITE_AGAIN
        )
    where = where / key if key else where
    return InputError("the store is damaged", where=str(where), remedy=_WRITE_AGAIN)


class Guard:
    """Encryption or checksums of a store's objects; none by default.

    `encryption` is AES-256-GCM of every object except for the store's own metadata document,
    `HEADER`. The object's key and its store are authenticated, so that one object cannot replace
    another. `keyed` appends the CRC-32C of a chunk's content and its key. `recorded` is compared
    with each chunk's final CRC-32C, of which the reader of a chunk checks that it is that of the
    values before it. Chunks without a record are not compared, and those written are recorded.
    """

    def __init__(
        self,
        encryption: StoreEncryption | None = None,
        *,
        keyed: bool = False,
        recorded: Mapping[str, int] | None = None,
    ) -> None:
        self.encryption, self._keyed = encryption, keyed
        self.recorded = None if recorded is None else dict(recorded)
        self.tables: dict[str, npt.NDArray[np.uint32]] = {}
        """Checksums of the chunks of an array, by grid position."""

    def encode(self, key: str, parts: Parts) -> Parts:
        """Return the encoded content of an object, in parts."""
        if self.encryption is not None:
            if key == HEADER:
                return parts
            return [memoryview(self.encryption.encrypt(b"".join(parts), key))]
        if self._keyed and is_chunk(key):
            return [*parts, memoryview(crc32c_bytes(*parts, key.encode()))]
        if self.recorded is not None and is_chunk(key):
            self.recorded[key] = int.from_bytes(parts[-1][-CHECKSUM_BYTES:], "little")
        return parts

    def decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        """Return the content of an object, or raise a ValueError if the stored bytes differ."""
        if self.encryption is not None:
            return stored if key == HEADER else self.encryption.decrypt(stored, key)
        if self._keyed and is_chunk(key):
            content = memoryview(stored)[:-CHECKSUM_BYTES]
            if stored[-CHECKSUM_BYTES:] != crc32c_bytes(content, key.encode()):
                raise ValueError("another checksum")
            return content
        if self.recorded is not None:
            array, _, index = key.partition("/c/")
            expected = self.recorded.get(key)
            if index and array in self.tables:
                expected = int(self.tables[array][tuple(map(int, index.split("/")))])
            if expected not in (None, int.from_bytes(stored[-CHECKSUM_BYTES:], "little")):
                raise ValueError("another checksum")
        return stored


def crc32c_bytes(*parts: Any) -> bytes:
    """Return the CRC-32C of consecutive bytes, as Zarr stores it."""
    checksum = 0
    for part in parts:  # google_crc32c accepts an array but no memoryview
        checksum = google_crc32c.extend(checksum, np.frombuffer(part, np.uint8))
    return int(checksum).to_bytes(CHECKSUM_BYTES, "little")


class BaseStore(Store):
    """Zarr store that knows its location and gives synchronous access to its guarded objects.

    Reading a missing chunk is an error. Zarr itself would read the fill value, which makes a sum
    silently wrong. Keys are those of Zarr, such as ``gram/0/c/1/2``.
    """

    location: Any  # a `Location`
    supports_writes = supports_deletes = supports_listing = True

    def __init__(self, location: Location, guard: Guard | None = None) -> None:
        super().__init__()
        self.location, self.guard = location, guard or Guard()

    def guarded(self, guard: Guard) -> Self:
        """Return the store with another guard of its objects."""
        return type(self)(self.location, guard)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def read(self, key: str) -> bytes | memoryview:
        """Return the content of an object.

        A missing chunk raises `DamagedChunk`, and another missing object FileNotFoundError.
        """
        try:
            return self.guard.decode(key, self._load(key))
        except FileNotFoundError:
            if is_chunk(key):
                raise damaged(self.location, key, "missing") from None
            raise
        except ValueError as error:
            raise damaged(self.location, key) from error

    def write(self, key: str, parts: Parts) -> None:
        """Write the concatenated parts as one object; an object with the same key is replaced."""
        self._save(key, self.guard.encode(key, parts))

    def commit(self, key: str, parts: Parts) -> None:
        """Write as `write` does, where several workers may write the same content."""
        self.write(key, parts)

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write an object unless its key exists, and return whether it was written.

        Of several concurrent callers exactly one gets True.
        """
        return self._create(key, b"".join(self.guard.encode(key, [memoryview(content)])))

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Return whether a complete object has this key."""

    @abstractmethod
    def all_keys(self, prefix: str = "") -> Iterator[str]:
        """Return the keys of all objects, or of those below a prefix, in any order."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete an object, if it exists."""

    @abstractmethod
    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix; ``""`` means all objects."""

    @abstractmethod
    def flush(self, prefix: str) -> None:
        """Make the objects at or below a prefix survive a power failure."""

    @abstractmethod
    def _load(self, key: str) -> bytes: ...

    @abstractmethod
    def _save(self, key: str, parts: Parts) -> None: ...

    @abstractmethod
    def _create(self, key: str, content: bytes) -> bool: ...

    # Methods that Zarr calls. Threads do the work, so that Zarr's only event loop is not blocked.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the whole content of an object, or None for missing metadata."""
        if byte_range is not None:
            raise ValueError("an object cannot be read in parts")
        try:
            return prototype.buffer.from_bytes(await asyncio.to_thread(self.read, key))
        except FileNotFoundError:
            return None

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the contents of several objects."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def set(self, key: str, value: Buffer) -> None:
        """Write or replace an object."""
        content: Any = np.ascontiguousarray(value.as_numpy_array())
        await asyncio.to_thread(self.write, key, [memoryview(content).cast("B")])

    async def exists(self, key: str) -> bool:
        """Return whether the object exists."""
        return await asyncio.to_thread(self.holds, key)

    async def delete(self, key: str) -> None:
        """Delete an object."""
        await asyncio.to_thread(self.remove, key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        await asyncio.to_thread(self.remove_below, prefix)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        for key in await asyncio.to_thread(lambda: list(self.all_keys(prefix))):
            yield key

    def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        return self.list_prefix("")

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names below a prefix."""
        start = len(prefix) + 1 if prefix else 0
        names = {key[start:].partition("/")[0] async for key in self.list_prefix(prefix)}
        for name in names:
            yield name


class DiskStore(BaseStore):
    """Zarr store in a directory, one file per object.

    A file under its final name is complete: it is written under a temporary name and renamed.
    """

    location: Path

    def holds(self, key: str) -> bool:
        """Return whether the file exists."""
        return (self.location / key).is_file()

    def all_keys(self, prefix: str = "") -> Iterator[str]:
        """Return the files below the directory, without temporary files of killed processes."""
        below = len(str(self.location)) + 1
        for directory, _, names in os.walk(self.location / prefix):
            for name in names:
                if not name.endswith(".partial"):
                    yield os.path.join(directory, name)[below:]

    def remove(self, key: str) -> None:
        """Delete a file, if it exists."""
        with disk_errors_explained(self.location / key):
            (self.location / key).unlink(missing_ok=True)

    def remove_below(self, prefix: str) -> None:
        """Delete a directory, if it exists."""
        if (self.location / prefix).exists():
            shutil.rmtree(self.location / prefix)

    def flush(self, prefix: str) -> None:
        """Flush a file or a directory tree, and the directory entry that names it."""
        path = self.location / prefix
        if path.is_dir():
            sync_tree(path)
        else:
            sync_file(path)
        sync_directory(path.parent)

    def _load(self, key: str) -> bytes:
        return (self.location / key).read_bytes()

    def _save(self, key: str, parts: Parts) -> None:
        path = self.location / key
        beside = _beside(path)
        try:
            with beside.open("xb", buffering=0) as file:
                for part in parts:
                    write_all(file.fileno(), part)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def _create(self, key: str, content: bytes) -> bool:
        """Write a temporary file and link the final name to it, which fails if the name exists."""
        path = self.location / key
        with disk_errors_explained(path):
            beside = _beside(path)
            try:
                beside.write_bytes(content)
                sync_file(beside)
                os.link(beside, path)
            except FileExistsError:
                return False
            finally:
                beside.unlink(missing_ok=True)
            sync_directory(path.parent)
        return True


def _beside(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def store_at(location: Location) -> BaseStore:
    """Return the store at a location; nothing is read or written yet.

    A process that lacks a package or settings to reach the bucket is refused.
    """
    if isinstance(location, Path):
        return DiskStore(location)
    try:
        # By name, since that module knows this one, and only with the extra.
        bucket = import_module("primo_scale.storage.bucket_store")
    except ImportError:
        raise InputError(
            "object stores need the extra s3",
            where=str(location),
            remedy="pip install obstore, here and where the workers run",
        ) from None
    store: BaseStore = bucket.BucketStore(location)
    return store
