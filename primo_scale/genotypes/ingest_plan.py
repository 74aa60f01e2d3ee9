"""What an ingest will write, worked out and checked before anything is written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.bed import RAW_SLAB_BYTES, BedFile
from primo_scale.genotypes.filesets import (
    JoinedFilesets,
    SourceFile,
    digest_of_people,
    fingerprint,
    open_filesets,
)
from primo_scale.genotypes.filters import (
    FilterCount,
    Selection,
    select_samples,
    select_variants,
)
from primo_scale.genotypes.hazards import canonical_chromosomes
from primo_scale.genotypes.partitions import SLAB_BYTES, PartitionTask, slab_shape
from primo_scale.genotypes.store import KIND
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.kernels.packed import GENOTYPES_PER_BYTE, packed_width
from primo_scale.machine import refuse_full_disk
from primo_scale.storage.documents import read_document
from primo_scale.storage.files import sha256_of_json
from primo_scale.storage.groups import attributes_of, is_complete, open_group

Index = npt.NDArray[np.intp]

DEFAULT_CHUNK_SHAPE = (2048, 8192)

READ_BUDGET_BYTES = 64 << 20
"""Genotypes that an ingest holds in memory, whatever the number of people.

Only a chunk too large for it asks for more, and of a sample-major file alone: then one partition
at a time is written.
"""

NOT_HASHED = ""
"""In place of a SHA-256: the .bed is hashed while it is copied, so that it is read only once."""

# A partition holds a slab as read, selected, a piece of it as written, and parts of it counted;
# tests measure that this is enough.
_COPIES_OF_A_SLAB = 4
# Per variant beside the genotypes: counts, in the record and in the store, and the table's row.
_BYTES_PER_VARIANT = 256


@dataclass(frozen=True)
class IngestPlan:
    """Everything that decides what the store will hold, worked out before anything is written.

    Attributes
    ----------
    filesets : JoinedFilesets
    sources : tuple of SourceFile
        Fingerprints of the input files; a .bed may be `NOT_HASHED` yet.
    destination : Path
    sample_index, variant_index : ndarray of intp
        Rows of the joined tables that were selected.
    filter_counts : tuple of FilterCount
    chunk_shape : tuple of int
        (variants, samples), no larger than the selection.
    """

    filesets: JoinedFilesets
    sources: tuple[SourceFile, ...]
    destination: Path
    sample_index: Index
    variant_index: Index
    filter_counts: tuple[FilterCount, ...]
    chunk_shape: tuple[int, int]

    @property
    def partial(self) -> Path:
        """Directory in which the store grows."""
        return self.destination.with_name(self.destination.name + ".partial")

    @property
    def growing_store(self) -> Path:
        """The store before it has its own name."""
        return self.partial / "store.zarr"

    @property
    def n_partitions(self) -> int:
        """Chunk-rows of variants."""
        return -(-len(self.variant_index) // self.chunk_shape[0])

    @property
    def partitions_at_once(self) -> int:
        """Partitions that may be under way together within `READ_BUDGET_BYTES`; at least one."""
        width = self.chunk_shape[1] // GENOTYPES_PER_BYTE
        rows, chunks = slab_shape(
            self.chunk_shape[0], width, variant_major=self.filesets.variant_major
        )
        held = 2 * RAW_SLAB_BYTES + _COPIES_OF_A_SLAB * max(SLAB_BYTES, rows * chunks * width)
        return max(1, READ_BUDGET_BYTES // held)

    @cached_property
    def samples(self) -> SampleTable:
        """The people selected."""
        return self.filesets.samples.select(self.sample_index)

    @cached_property
    def variants(self) -> VariantTable:
        """The variants selected."""
        return self.filesets.variants.select(self.variant_index)

    @cached_property
    def chromosomes(self) -> npt.NDArray[np.object_]:
        """Canonical chromosome codes of the variants selected."""
        return canonical_chromosomes(self.variants)

    @cached_property
    def request(self) -> dict[str, Any]:
        """What must be equal for a store, finished or not, to be the one asked for.

        A .bed `NOT_HASHED` is equal to one that was not when recorded: it is left unhashed only
        where the file system says that it is untouched since.
        """
        return {
            "sources": [source.sha256 for source in self.sources],
            "samples": _digest_of_index(self.sample_index),
            "variants": _digest_of_index(self.variant_index),
            "chunk_shape": list(self.chunk_shape),
        }

    @property
    def request_path(self) -> Path:
        """Where the request of the growing store is recorded."""
        return self.partial / "request.json"

    @property
    def description(self) -> dict[str, Any]:
        """Request and sources, as the growing and the finished store record them."""
        return {"request": self.request, "sources": [asdict(source) for source in self.sources]}

    @cached_property
    def identity_digest(self) -> str:
        """See `GenotypeStore`."""
        return sha256_of_json({**self.request, "chunk_shape": None})

    @cached_property
    def cohort_digest(self) -> str:
        """See `GenotypeStore`."""
        return digest_of_people(self.filesets.samples)

    def task(self, number: int) -> PartitionTask:
        """Rows of partition `number`."""
        rows = slice(number * self.chunk_shape[0], (number + 1) * self.chunk_shape[0])
        return PartitionTask(
            self.variant_index[rows], self.sample_index, self.chromosomes[rows], self.samples.sex
        )

    def record_path(self, number: int) -> Path:
        """Where partition `number` is recorded as written."""
        return self.partial / "partitions" / f"{number:07d}.npz"


def plan_ingest(
    prefixes: Sequence[Path],
    destination: Path,
    *,
    selection: Selection,
    chunk_shape: tuple[int, int] = DEFAULT_CHUNK_SHAPE,
) -> IngestPlan:
    """Read the tables, apply the filters, check the .bed files and fingerprint the sources."""
    if min(chunk_shape) < 1 or chunk_shape[1] % GENOTYPES_PER_BYTE:
        raise UsageError(
            "chunks need at least one variant and a multiple of 4 samples", value=chunk_shape
        )
    filesets = open_filesets(prefixes)
    sample_index, sample_counts = select_samples(filesets.samples, selection)
    variant_index, variant_counts = select_variants(filesets.variants, selection)
    plan = IngestPlan(
        filesets=filesets,
        sources=(),
        destination=destination,
        sample_index=sample_index,
        variant_index=variant_index,
        filter_counts=(*sample_counts, *variant_counts),
        chunk_shape=(
            min(chunk_shape[0], len(variant_index)),
            min(chunk_shape[1], GENOTYPES_PER_BYTE * packed_width(len(sample_index))),
        ),
    )
    return replace(plan, sources=_fingerprint_before_copying(plan))


def check_free_space(plan: IngestPlan, partitions: int) -> None:
    """Refuse before any work if the disk cannot hold what is still to be written.

    Raises
    ------
    ResourceError
        With the bytes needed and the bytes free.
    """
    chunk_bytes = plan.chunk_shape[0] * plan.chunk_shape[1] // GENOTYPES_PER_BYTE
    columns = -(-len(plan.sample_index) // plan.chunk_shape[1])
    needed = partitions * (columns * chunk_bytes + plan.chunk_shape[0] * _BYTES_PER_VARIANT)
    refuse_full_disk(
        plan.destination,
        needed,
        what="the genotype store",
        remedy="Free space or choose another --out",
    )


def check_same_request(
    plan: IngestPlan, request: dict[str, Any], sources: tuple[SourceFile, ...], where: Path
) -> None:
    """Refuse to continue or reuse a store that holds anything but what `plan` asks for.

    Raises
    ------
    InputError
        Naming the first difference.
    """
    if request == plan.request:
        return
    before = {source.path: source.sha256 for source in sources}
    differences = [
        f"{source.path} changed" if source.path in before else f"{source.path} was not an input"
        for source in plan.sources
        if before.get(source.path) != source.sha256
    ] or [
        f"the {name.replace('_', ' ')} selected or asked for differ"
        for name, value in plan.request.items()
        if request.get(name) != value
    ]
    raise InputError(
        f"holds another ingest: {differences[0]}",
        where=where,
        remedy="Remove it, or choose another --out, or repeat the earlier command unchanged",
    )


def recorded_request(plan: IngestPlan) -> tuple[dict[str, Any] | None, tuple[SourceFile, ...]]:
    """The request and sources of the finished store or else of the partial one, if any."""
    if plan.destination.exists():
        if is_complete(plan.destination, KIND):
            return _request_from(attributes_of(open_group(plan.destination, KIND)))
    elif plan.request_path.is_file():
        remedy = f"Remove {plan.partial} and start again"
        return read_document(plan.request_path, _request_from, remedy=remedy)
    return None, ()


def _request_from(content: dict[str, Any]) -> tuple[dict[str, Any], tuple[SourceFile, ...]]:
    return content["request"], tuple(SourceFile(**source) for source in content["sources"])


def _fingerprint_before_copying(plan: IngestPlan) -> tuple[SourceFile, ...]:
    """Fingerprint the sources; a .bed only where there is something to compare it with."""
    request, recorded = recorded_request(plan)
    known = {source.path: source for source in recorded}
    if request is None:
        known = {source.path: source for source in map(_not_hashed, plan.filesets.beds)}
    return fingerprint(plan.filesets.files(), known)


def _not_hashed(bed: BedFile) -> SourceFile:
    path, status = bed.path.resolve(), bed.path.stat()
    return SourceFile(
        path=str(path),
        sha256=NOT_HASHED,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
        inode=status.st_ino,
    )


def _digest_of_index(index: Index) -> str:
    return hashlib.sha256(index.astype("<i8").tobytes()).hexdigest()
