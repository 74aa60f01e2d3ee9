"""One partition of an ingest: a chunk-row of variants, copied from the .bed files to the store.

A partition counts as written once its record is there: the record is committed atomically after
the chunks were flushed, and carries their checksum and what was counted on the way.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.filesets import JoinedFilesets
from primo_scale.genotypes.hazards import GenotypeTallies, count_haploid_problems
from primo_scale.kernels.packed import always_missing, count_genotypes
from primo_scale.storage.files import sync_directory, sync_tree, write_atomically
from primo_scale.storage.groups import Array, chunk_path, write_block

# One chunk of the default shape, so that memory is the same for thousands of people and millions.
SLAB_BYTES = 4 << 20

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
    sha256 : ndarray of uint8, shape (32,)
        Of the packed bytes, chunk after chunk.
    counts : ndarray of int64, shape (v, 4)
        Samples of each raw value.
    never_called : ndarray of uint8, shape (ceil(n / 4),)
        Mask of `kernels.packed.always_missing`.
    haploid_problems : ndarray of int64, shape (2,)
        Heterozygous haploids and calls on Y in women.
    """

    sha256: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]
    never_called: npt.NDArray[np.uint8]
    haploid_problems: npt.NDArray[np.int64]

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

    Samples go through in slabs of whole chunks of at most `SLAB_BYTES`, so that memory
    depends on the shape of a chunk and not on the number of samples.

    Parameters
    ----------
    filesets : JoinedFilesets
    array : zarr.Array of uint8
        The store's genotypes.
    number : int
        Chunk-row to write.
    task : PartitionTask
    """
    chunk_variants, chunk_bytes = array.chunks
    first_row = number * chunk_variants
    rows = slice(first_row, first_row + len(task.variants))
    chunks_at_once = max(1, SLAB_BYTES // (chunk_variants * chunk_bytes))
    slab_samples = 4 * chunk_bytes * chunks_at_once
    digest = hashlib.sha256()
    counts = np.zeros((len(task.variants), 4), dtype=np.int64)
    never_called = np.empty(array.shape[1], dtype=np.uint8)
    problems = np.zeros(2, dtype=np.int64)
    for start in range(0, len(task.samples), slab_samples):
        samples = task.samples[start : start + slab_samples]
        packed = filesets.read(task.variants, samples)
        columns = slice(start // 4, start // 4 + packed.shape[1])
        write_block(array, (rows, columns), packed)
        for column in range(0, packed.shape[1], chunk_bytes):
            chunk = np.ascontiguousarray(packed[:, column : column + chunk_bytes])
            digest.update(chunk.data)
        counts += count_genotypes(packed, len(samples))
        never_called[columns] = always_missing(packed)
        sex = task.sex[start : start + slab_samples]
        problems += count_haploid_problems(packed, task.chromosome, sex)
    directory = chunk_path(array, (number, 0)).parent
    sync_tree(directory)
    sync_directory(directory.parent)
    sha256 = np.frombuffer(digest.digest(), dtype=np.uint8)
    return PartitionRecord(sha256, counts, never_called, problems)


def total_records(paths: Sequence[Path]) -> GenotypeTallies:
    """Add up the records of all partitions, in order."""
    counts, digests = [], []
    problems = np.zeros(2, dtype=np.int64)
    never_called = None
    for path in paths:
        record = PartitionRecord.load(path)
        counts.append(record.counts)
        digests.append(record.sha256)
        problems += record.haploid_problems
        mask = record.never_called
        never_called = mask if never_called is None else never_called & mask
    return GenotypeTallies(
        counts=np.concatenate(counts),
        partition_sha256=np.stack(digests),
        uncalled_samples=0 if never_called is None else int(np.unpackbits(never_called).sum()),
        heterozygous_haploids=int(problems[0]),
        female_y_calls=int(problems[1]),
    )
