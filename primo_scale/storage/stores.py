"""Zarr stores of this project: the abstract base class, the store in a directory, `store_at`."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zarr.abc.store import Store
from zarr.storage import LocalStore

from primo_scale.errors import DamagedChunk, InputError
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
_WRITE_AGAIN = "Remove the store and run the same command again"


class BaseStore(Store):
    """Zarr store that knows its location and gives synchronous access to its objects.

    Reading a missing chunk is an error. Zarr itself would read the fill value, which makes a sum
    silently wrong. Keys are those of Zarr, such as ``gram/0/c/1/2``.
    """

    @property
    @abstractmethod
    def location(self) -> Location:
        """Location of the store."""

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Return whether a complete object has this key."""

    @abstractmethod
    def all_keys(self) -> Iterator[str]:
        """Return the keys of all objects, in any order."""

    @abstractmethod
    def read(self, key: str) -> bytes | memoryview:
        """Return the content of an object.

        A missing chunk raises `DamagedChunk`, and another missing object FileNotFoundError.
        """

    @abstractmethod
    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write the concatenated parts as one object; an object with the same key is replaced."""

    def commit(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write as `write` does, where several workers may write the same content."""
        self.write(key, parts)

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write an object unless its key exists, and return whether it was written.

        Of several concurrent callers exactly one gets True.
        """

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete an object, if it exists."""

    @abstractmethod
    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix; ``""`` means all objects."""

    @abstractmethod
    def flush(self, prefix: str) -> None:
        """Make the objects at or below a prefix survive a power failure."""

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return (parts of) the contents of several objects."""
        requests = list(key_ranges)
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in requests))


class DiskStore(LocalStore, BaseStore):
    """Zarr store in a directory, one file per object.

    A file under its final name is complete: it is written under a temporary name and renamed.
    """

    @property
    def location(self) -> Path:
        """Directory of the store."""
        return self.root

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the content of a file, or None for missing metadata."""
        content = await super().get(key, prototype, byte_range)
        if content is None and is_chunk(key):
            raise missing_chunk(self.root / key)
        return content

    def holds(self, key: str) -> bool:
        """Return whether the file exists."""
        return (self.root / key).is_file()

    def all_keys(self) -> Iterator[str]:
        """Return the files below the directory, without temporary files of killed processes."""
        below = len(str(self.root)) + 1
        for directory, _, names in os.walk(self.root):
            for name in names:
                if not name.endswith(".partial"):
                    yield os.path.join(directory, name)[below:]

    def read(self, key: str) -> bytes:
        """Return the content of a file."""
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            if is_chunk(key):
                raise missing_chunk(self.root / key) from None
            raise

    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write a file under a temporary name and rename it."""
        path = self.root / key
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("xb", buffering=0) as file:
                for part in parts:
                    write_all(file.fileno(), part)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write a temporary file and link the final name to it, which fails if the name exists."""
        path = self.root / key
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
        with disk_errors_explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
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

    def remove(self, key: str) -> None:
        """Delete a file, if it exists."""
        with disk_errors_explained(self.root / key):
            (self.root / key).unlink(missing_ok=True)

    def remove_below(self, prefix: str) -> None:
        """Delete a directory, if it exists."""
        if (self.root / prefix).exists():
            shutil.rmtree(self.root / prefix)

    def flush(self, prefix: str) -> None:
        """Flush a file or a directory tree, and the directory entry that names it."""
        path = self.root / prefix
        if path.is_dir():
            sync_tree(path)
        else:
            sync_file(path)
        sync_directory(path.parent)


def store_at(location: Location) -> BaseStore:
    """Return the store at a location; nothing is read or written yet.

    A process that lacks a package or settings to reach the bucket is refused.
    """
    if isinstance(location, Path):
        return DiskStore(location)
    from primo_scale.storage.bucket_store import open_bucket

    return open_bucket(location)


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


def damaged_store(where: Location) -> InputError:
    """Return the error of a damaged metadata document."""
    return InputError("the store is damaged", where=str(where), remedy=_WRITE_AGAIN)


def missing_chunk(where: Location) -> DamagedChunk:
    """Return the error of a missing chunk."""
    return DamagedChunk("a stored chunk is missing", where=str(where), remedy=_WRITE_AGAIN)


def damaged_chunk(where: Location) -> DamagedChunk:
    """Return the error of a chunk that is incomplete, changed or exchanged for another one."""
    return DamagedChunk("a stored chunk is damaged", where=str(where), remedy=_WRITE_AGAIN)
