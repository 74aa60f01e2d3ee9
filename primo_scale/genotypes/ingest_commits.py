"""How far an ingest is, seen from another process: which partitions are recorded, and when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from primo_scale.genotypes.store import KIND
from primo_scale.storage.groups import array_of, open_group


@dataclass(frozen=True)
class IngestCommits:
    """Partitions of a growing store.

    Attributes
    ----------
    partitions
        In all.
    times
        Seconds since the epoch at which those that are there were recorded, in no order.
    """

    partitions: int
    times: tuple[float, ...]


def read_ingest_commits(destination: Path) -> IngestCommits | None:
    """Look at the store that grows beside `destination`, or None if none does."""
    partial = destination.with_name(destination.name + ".partial")
    if not (partial / "request.json").is_file():
        return None
    array = array_of(open_group(partial / "store.zarr", KIND, complete=False), "genotypes")
    times = []
    for record in (partial / "partitions").glob("[0-9]*.npz"):
        try:
            times.append(record.stat().st_mtime)
        except FileNotFoundError:  # the ingest has just ended
            continue
    return IngestCommits(-(-array.shape[0] // array.chunks[0]), tuple(times))
