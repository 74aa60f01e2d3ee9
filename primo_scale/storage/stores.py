"""Zarr stores in directories, and `store_at`, which returns the store at any location."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zarr.storage import LocalStore

from primo_scale.storage.base_store import BaseStore, is_chunk, missing_chunk
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
