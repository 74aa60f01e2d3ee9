"""When the chunks of a growing array were written, read off its directory.

Nothing is opened, locked or checked, so looking costs a running writer nothing; what is damaged
counts as written here, and its reader finds out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

Index = tuple[int, ...]


def chunk_times(store: Path, array: str) -> dict[Index, float]:
    """Modification time (seconds since the epoch) of every chunk under its final name.

    Parameters
    ----------
    store
        A local Zarr group, which may be growing or vanish meanwhile.
    array
        Name of an array in it.

    Returns
    -------
    dict
        By grid position; empty where there is no such array yet, or no more.
    """
    return dict(_below(os.path.join(store, array, "c"), ()))


def _below(directory: str, index: Index) -> Iterator[tuple[Index, float]]:
    # Whatever is seen may be gone a moment later: temporary names always, stores at the end.
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if not entry.name.isdecimal():
            continue
        at = (*index, int(entry.name))
        try:
            if entry.is_dir():
                yield from _below(entry.path, at)
            else:
                yield at, entry.stat().st_mtime
        except FileNotFoundError:
            continue
