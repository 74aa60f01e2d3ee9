"""Partitions of an ingest: each copies one row of chunks from the source to the store.

A partition is complete when its record exists. The record is committed atomically after the chunks
were flushed, and holds their checksums and the counts of genotypes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.input_warnings import count_heterozygous_haploids
from primo_scale.genotypes.packings import Packing
from primo_scale.genotypes.source import GenotypeSource
from primo_scale.genotypes.tables import Index, StringColumn
from primo_scale.storage.chunk_appender import open_chunk_appender
from primo_scale.storage.chunks import chunk_path
from primo_scale.storage.files import sync_directory, write_atomically
from primo_scale.storage.groups import Array

# Bytes of packed genotypes that are read, counted and written together, for any number of people.
SLAB_BYTES = 4 << 20
# Whole rows of half a million people. Sequential reading is several times as fast, and 32 rows of a
# chunk are long enough for one write.
_SLAB_ROWS = 32
_MOST_CHUNKS = 64  # limits the number of open files


@dataclass(frozen=True)
class PartitionTask:
    """Inputs of a partition of v variants and n people."""

    variants: Index  # positions in the source's table, shape (v,)
    samples: Index  # positions in the source's table, shape (n,)
    chromosome: StringColumn  # canonical code of each variant
    sex: npt.NDArray[np.int8]  # as in `SampleTable`


@dataclass(frozen=True)
class PartitionRecord:
    """Record of a written partition, or of all partitions, of v variants and n people."""

    # Checksum of each chunk, including its padding, shape (chunks,); of all partitions, shape
    # (partitions, chunks).
    crc32c: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.int64]  # samples that `Packing.count` counts, shape (v, 4)
    never_called: npt.NDArray[np.uint8]  # people without a call, as `always_missing`
    heterozygous_haploids: npt.NDArray[np.int64]  # heterozygous calls on X in men, shape ()

    def commit(self, path: Path) -> None:
        """Write the record atomically and durably."""
        buffer = io.BytesIO()
        np.savez(buffer, **{field.name: getattr(self, field.name) for field in fields(self)})
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> PartitionRecord:
        """Read a committed record."""
        with np.load(path, allow_pickle=False) as content:
            return cls(**{field.name: content[field.name] for field in fields(cls)})


def write_partition(
    source: GenotypeSource, array: Array, packing: Packing, *, number: int, task: PartitionTask
) -> PartitionRecord:
    """Copy the genotypes of row `number` of the chunks of `array`, and flush them to the disk.

    They are copied in slabs of `slab_shape`, so that the memory does not depend on the number of
    people.
    """
    chunk_bytes, width = array.chunks[1], array.shape[1]
    rows, chunks = slab_shape(array.chunks[0], chunk_bytes, variant_major=source.variant_major)
    counts = np.zeros((len(task.variants), 4), dtype=np.int64)
    never_called = np.full(width, 0xFF, dtype=np.uint8)
    heterozygous_haploids = np.zeros((), dtype=np.int64)
    buffer = np.empty(rows * min(width, chunks * chunk_bytes), dtype=np.uint8)
    checksums = []
    source.read_ahead(task.variants)
    for first in range(0, width, chunks * chunk_bytes):
        columns = slice(first, min(first + chunks * chunk_bytes, width))
        start, stop = (packing.samples_per_byte * edge for edge in (columns.start, columns.stop))
        samples = slice(start, min(stop, len(task.samples)))
        grid = range(first // chunk_bytes, -(-columns.stop // chunk_bytes))
        with open_chunk_appender(array, number, grid, most_rows=rows) as appender:
            for top in range(0, len(task.variants), rows):
                variants = slice(top, min(top + rows, len(task.variants)))
                shape = (variants.stop - top, columns.stop - first)
                packed = buffer[: shape[0] * shape[1]].reshape(shape)
                source.read_into(packed, task.variants[variants], task.samples[samples])
                counts[variants] += packing.count(packed, samples.stop - samples.start)
                never_called[columns] &= packing.always_missing(packed)
                heterozygous_haploids += count_heterozygous_haploids(
                    packed, packing, task.chromosome[variants], task.sex[samples]
                )
                appender.append(packed)
            checksums.append(appender.finish())
    directory = chunk_path(array, (number, 0)).parent
    sync_directory(directory)
    sync_directory(directory.parent)
    return PartitionRecord(np.concatenate(checksums), counts, never_called, heterozygous_haploids)


def slab_shape(height: int, width: int, *, variant_major: bool) -> tuple[int, int]:
    """Return the numbers of variants and chunks that are copied together.

    A chunk has `height` variants and `width` bytes in a row. In a variant-major file, a slab
    consists of long pieces of a few rows, so that the file is read sequentially, and genotypes are
    counted and written from the processor's cache. In a sample-major file, a slab consists of whole
    columns of chunks, because each read passes over all samples.
    """
    rows = min(_SLAB_ROWS, height) if variant_major else height
    side_by_side = min(_MOST_CHUNKS, max(1, SLAB_BYTES // (rows * width)))
    if variant_major:
        rows = max(1, min(rows, SLAB_BYTES // (side_by_side * width)))
    return rows, side_by_side


def total_record(paths: Sequence[Path]) -> PartitionRecord:
    """Combine the records of all partitions, in order."""
    counts, checksums = [], []
    never_called: npt.NDArray[np.uint8] = np.array(0xFF, dtype=np.uint8)
    heterozygous = np.zeros((), dtype=np.int64)
    for path in paths:
        record = PartitionRecord.load(path)
        counts.append(record.counts)
        checksums.append(record.crc32c)
        never_called = never_called & record.never_called
        heterozygous += record.heterozygous_haploids
    return PartitionRecord(np.stack(checksums), np.concatenate(counts), never_called, heterozygous)
