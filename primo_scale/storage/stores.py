"""Zarr store of a location."""

from __future__ import annotations

from pathlib import Path

from primo_scale.storage.base_store import BaseStore
from primo_scale.storage.disk_store import DiskStore
from primo_scale.storage.locations import Location


def store_at(location: Location) -> BaseStore:
    """Return the store at a location; nothing is read or written yet.

    Raises
    ------
    InputError, UsageError
        The process lacks a package or settings to reach the bucket.
    """
    if isinstance(location, Path):
        return DiskStore(location)
    from primo_scale.storage.bucket_store import open_bucket

    return open_bucket(location)
