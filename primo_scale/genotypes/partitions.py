"""One partition of an ingest: a chunk-row of variants, copied from the .bed files to the store.

A partition counts as written once its record is there: the record is committed atomically after
the chunks were flushed, and carries their checksum and what was counted on the way.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.filesets import JoinedFilesets
from primo_scale.genotypes.input_warnings import GenotypeTallies, count_heterozygous_haploids
from primo_scale.kernels.packed import PackedGenotypes, always_missing, count_genotypes
from primo_scale.storage.chunks import chunk_path
from primo_scale.storage.files import sync_directory, write_atomically
from primo_scale.storage.groups import Array
from primo_scale.storage.growing_chunks import growing_chunks

# So that memory is the same for thousands of people and millions.
SLAB_BYTES = 4 << 20
# Whole rows of half a million people: read in order a disk is several times as fast, and pieces of
# 32 rows of a chunk are long enough to be written on their own.
_SLAB_ROWS = 32
_MOST_CHUNKS = 64  # files that are open together

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class PartitionTask:
    """What a partition reads.

    Attributes
    ----------
    variants : ndarray of intp, shape (v,)
        Positions in the joined tables.
    samples : ndarray of intp, shape (n,)
    chromosome : ndarray of object (str), shape (v,)
        Canonical codes of `variants`.
    sex : ndarray of int8, shape (n,)
    """

    variants: Index
    samples: Index
    chromosome: npt.NDArray[np.object_]
    sex: npt.NDArray[np.int8]


@dataclass(frozen=True)
class PartitionRecord:
    """What a partition leaves besides its chunks.

    Attributes
    ----------
    crc32c : ndarray of uint32, shape (chunks,)
        Of each chunk, with the padding that it ends with at the edges of the array.
    counts : ndarray of int64, shape (v, 4)
        Samples of each raw value.
    never_called : ndarray of uint8, shape (ceil(n / 4),)
        Mask of `kernels.packed.always_missing`.
    heterozygous_haploids : ndarray of int64, shape ()
        Heterozygous calls on X in men.
    """

    crc32c: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.int64]
    never_called: npt.NDArray[np.uint8]
    heterozygous_haploids: npt.NDArray[np.int64]

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
    filesets: JoinedFilesets, array: Array, *, number: int, task: PartitionTask
) -> PartitionRecord:
    """Copy the genotypes of one chunk-row and flush them to the disk.

    They go through in slabs of `slab_shape`, so that memory does not depend on the number of
    samples.

    Parameters
    ----------
    filesets : JoinedFilesets
    array : zarr.Array of uint8
        The store's genotypes.
    number : int
        Chunk-row to write.
    task : PartitionTask
    """
    chunk_bytes, width = array.chunks[1], array.shape[1]
    rows, chunks = slab_shape(array.chunks[0], chunk_bytes, variant_major=filesets.variant_major)
    tally = _Tally(task, width)
    buffer = np.empty(rows * min(width, chunks * chunk_bytes), dtype=np.uint8)
    checksums = []
    filesets.read_ahead(task.variants)
    for first in range(0, width, chunks * chunk_bytes):
        columns = slice(first, min(first + chunks * chunk_bytes, width))
        samples = slice(4 * columns.start, min(4 * columns.stop, len(task.samples)))
        grid = range(first // chunk_bytes, -(-columns.stop // chunk_bytes))
        with growing_chunks(array, number, grid, most_rows=rows) as growing:
            for top in range(0, len(task.variants), rows):
                variants = slice(top, min(top + rows, len(task.variants)))
                shape = (variants.stop - top, columns.stop - first)
                packed = buffer[: shape[0] * shape[1]].reshape(shape)
                filesets.read_into(packed, task.variants[variants], task.samples[samples])
                tally.add(packed, variants, samples)
                growing.append(packed)
            checksums.append(growing.finish())
    directory = chunk_path(array, (number, 0)).parent
    sync_directory(directory)
    sync_directory(directory.parent)
    return PartitionRecord(
        np.concatenate(checksums),
        tally.counts,
        tally.never_called,
        np.asarray(tally.heterozygous_haploids),
    )


def slab_shape(height: int, width: int, *, variant_major: bool) -> tuple[int, int]:
    """Variants and chunks, of `height` variants and `width` bytes, that go through at once.

    Long pieces of few rows, so that a file is read in order and what was read is counted and
    written out of the processor's cache; of a file that is not variant-major whole columns of
    chunks, since each read of it passes over all the samples.
    """
    rows = min(_SLAB_ROWS, height) if variant_major else height
    side_by_side = min(_MOST_CHUNKS, max(1, SLAB_BYTES // (rows * width)))
    if variant_major:
        rows = max(1, min(rows, SLAB_BYTES // (side_by_side * width)))
    return rows, side_by_side


class _Tally:
    """What is counted of a partition while it passes."""

    def __init__(self, task: PartitionTask, width: int) -> None:
        self._task = task
        self.counts = np.zeros((len(task.variants), 4), dtype=np.int64)
        self.never_called = np.full(width, 0x55, dtype=np.uint8)
        self.heterozygous_haploids = 0

    def add(self, packed: PackedGenotypes, variants: slice, samples: slice) -> None:
        """Count a slab, by its positions among the partition's variants and samples."""
        self.counts[variants] += count_genotypes(packed, samples.stop - samples.start)
        columns = slice(samples.start // 4, samples.start // 4 + packed.shape[1])
        self.never_called[columns] &= always_missing(packed)
        self.heterozygous_haploids += count_heterozygous_haploids(
            packed, self._task.chromosome[variants], self._task.sex[samples]
        )


def total_records(paths: Sequence[Path]) -> GenotypeTallies:
    """Add up the records of all partitions, in order."""
    counts, checksums = [], []
    heterozygous = 0
    never_called = None
    for path in paths:
        record = PartitionRecord.load(path)
        counts.append(record.counts)
        checksums.append(record.crc32c)
        heterozygous += int(record.heterozygous_haploids)
        mask = record.never_called
        never_called = mask if never_called is None else never_called & mask
    return GenotypeTallies(
        counts=np.concatenate(counts),
        chunk_crc32c=np.stack(checksums),
        uncalled_samples=0 if never_called is None else int(np.unpackbits(never_called).sum()),
        heterozygous_haploids=heterozygous,
    )
