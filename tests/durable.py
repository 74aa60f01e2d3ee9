"""Observation of the files that are flushed to the disk."""

from __future__ import annotations

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
