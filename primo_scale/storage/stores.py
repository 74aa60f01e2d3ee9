"""From a place to the Zarr store there."""

from __future__ import annotations

from pathlib import Path

from primo_scale.storage.disks import DiskStore
from primo_scale.storage.location_store import LocationStore
from primo_scale.storage.locations import Location


def store_at(place: Location) -> LocationStore:
    """The store at a place; nothing is read or written yet.

    Raises
    ------
    InputError, UsageError
        A bucket that this process has no means to reach.
    """
    if isinstance(place, Path):
        return DiskStore(place)
    from primo_scale.storage.buckets import open_bucket

    return open_bucket(place)
