"""Reading of Zarr groups that other programs wrote, of format 2 or 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zarr

from primo_scale.errors import InputError
from primo_scale.storage.groups import Array


def open_foreign_arrays(path: Path) -> Mapping[str, Array]:
    """Return the arrays of a group on this machine by name, read-only; refuse what is no group."""
    with foreign_errors_explained(path):
        return dict(zarr.open_group(str(path), mode="r").arrays())


@contextmanager
def foreign_errors_explained(path: Path) -> Iterator[Any]:
    """Turn errors of Zarr and of its codecs into an `InputError` that names the group."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"cannot be read as a Zarr group: {' '.join(str(error).split())}", where=path
        ) from error
