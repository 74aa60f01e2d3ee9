"""From a place to the Zarr store there."""

from __future__ import annotations

from pathlib import Path

from primo_scale.storage.disks import DiskStore
from primo_scale.storage.place_store import PlaceStore
from primo_scale.storage.places import Place


def store_at(place: Place) -> PlaceStore:
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
