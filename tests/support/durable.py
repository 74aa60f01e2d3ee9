"""Observation of the files that are flushed to the disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def flushes_seen(on_flush: Callable[[Path], object]) -> Iterator[None]:
    """Call `on_flush` with the path of every file and directory that is flushed."""
    flush = os.fsync

    def seen(descriptor: int) -> None:
        on_flush(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        flush(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", seen)
        yield


class Disk:
    """What a loss of power leaves: POSIX promises content and names that were flushed, no more."""

    def __init__(self) -> None:
        self._contents: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}

    def see_flush(self, path: Path) -> None:
        if path.is_dir():
            self._names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._contents[path.stat().st_ino] = path.read_bytes()

    def has_content(self, path: Path) -> bool:
        """Return whether the content of a file, under whatever name, was flushed as it is."""
        return self._contents.get(path.stat().st_ino) == path.read_bytes()

    def keeps(self, path: Path) -> bool:
        named = self._names.get(path.parent, {}).get(path.name)
        return named == path.stat().st_ino and self.has_content(path)

    def names_in(self, directory: Path) -> list[str]:
        return sorted(self._names.get(directory, {}))


@contextmanager
def disk_seen() -> Iterator[Disk]:
    disk = Disk()
    with flushes_seen(disk.see_flush):
        yield disk
