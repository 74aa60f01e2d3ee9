"""Partitions of an ingest: each copies one row of chunks from the source to the store.

A partition is complete when its record exists. The record is committed atomically after the chunks
were flushed, and holds their checksums and the counts of genotypes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.ingest_plan import IngestPlan
from primo_scale.storage.chunks import chunk_path, open_chunk_appender
from primo_scale.storage.files import sync_directory, write_atomically
from primo_scale.storage.groups import Array


@dataclass(frozen=True)
class PartitionRecord:
    """Record of a written partition, or of all partitions, of v variants and n people."""

    # Checksum of each chunk, including its padding, shape (chunks,); of all partitions, shape
    # (partitions, chunks).
    crc32c: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.int64]  # samples that `Packing.count` counts, shape (v, 4)

    def commit(self, path: Path) -> None:
        """Write the record atomically and durably."""
        buffer = io.BytesIO()
        np.savez(buffer, **vars(self))
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> PartitionRecord:
        """Read a committed record."""
        with np.load(path, allow_pickle=False) as content:
            return cls(content["crc32c"], content["counts"])


def write_partition(plan: IngestPlan, array: Array, number: int) -> PartitionRecord:
    """Copy the genotypes of row `number` of the chunks of `array`, and flush them to the disk.

    They are copied in slabs of `IngestPlan.slab_shape`, so that the memory does not depend on the
    number of people.
    """
    source, packing, people = plan.source, plan.packing, plan.sample_index
    index = plan.variant_index[plan.variants_of(number)]
    chunk_bytes, width = array.chunks[1], array.shape[1]
    rows, chunks = plan.slab_shape
    counts = np.zeros((len(index), 4), dtype=np.int64)
    buffer = np.empty(rows * min(width, chunks * chunk_bytes), dtype=np.uint8)
    checksums = []
    source.read_ahead(index)
    for first in range(0, width, chunks * chunk_bytes):
        columns = slice(first, min(first + chunks * chunk_bytes, width))
        start, stop = (packing.samples_per_byte * edge for edge in (columns.start, columns.stop))
        samples = slice(start, min(stop, len(people)))
        grid = range(first // chunk_bytes, -(-columns.stop // chunk_bytes))
        with open_chunk_appender(array, number, grid, most_rows=rows) as appender:
            for top in range(0, len(index), rows):
                variants = slice(top, min(top + rows, len(index)))
                shape = (variants.stop - top, columns.stop - first)
                packed = buffer[: shape[0] * shape[1]].reshape(shape)
                source.read_into(packed, index[variants], people[samples])
                counts[variants] += packing.count(packed, samples.stop - samples.start)
                appender.append(packed)
            checksums.append(appender.finish())
    directory = chunk_path(array, (number, 0)).parent
    sync_directory(directory)
    sync_directory(directory.parent)
    return PartitionRecord(np.concatenate(checksums), counts)


def total_record(paths: Sequence[Path]) -> PartitionRecord:
    """Combine the records of all partitions, in order."""
    records = [PartitionRecord.load(path) for path in paths]
    return PartitionRecord(
        np.stack([record.crc32c for record in records]),
        np.concatenate([record.counts for record in records]),
    )
