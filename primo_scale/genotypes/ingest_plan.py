"""Plan of an ingest, which is computed and checked before anything is written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from primo_scale.errors import UsageError
from primo_scale.genotypes.bed import RAW_SLAB_BYTES
from primo_scale.genotypes.filters import (
    NO_LISTS,
    FilterCount,
    Selection,
    select_samples,
    select_variants,
)
from primo_scale.genotypes.source import GenotypeSource, SourceFiles, open_source
from primo_scale.genotypes.store import HARD_CALLS, Packing
from primo_scale.genotypes.tables import Index, SampleTable, VariantTable
from primo_scale.machine import refuse_full_disk
from primo_scale.ranges import whole_multiple
from primo_scale.storage.files import read_document, sha256_of_file, sha256_of_json
from primo_scale.storage.groups import attributes_of, is_complete, open_group
from primo_scale.storage.resume import of_other_request

READ_BUDGET_BYTES = 64 << 20
"""Memory for genotypes in an ingest, in bytes, for any number of people.

Only a large chunk of a sample-major file can need more; partitions are then written one at a time.
"""

NOT_HASHED = ""
"""Placeholder for the SHA-256 of a file that is hashed while it is copied."""

# Bytes of packed genotypes that are read, counted and written together, for any number of people.
_SLAB_BYTES = 4 << 20
# Whole rows of half a million people. Sequential reading is several times as fast, and 32 rows of a
# chunk are long enough for one write.
_SLAB_ROWS = 32
_MOST_CHUNKS = 64  # limits the number of open files
_SAMPLES_MULTIPLE = 4  # of a chunk, so that a chunk of any packing is read in whole bytes
# A partition holds a slab as it is read, its selected people, a piece that is written, and parts
# that are counted. Tests compare this with the measured memory.
_COPIES_OF_A_SLAB = 4
# Size of a variant in addition to its genotypes: counts in the record and the store, and table row.
_BYTES_PER_VARIANT = 256


@dataclass(frozen=True)
class SourceFile:
    """Content hash of a file, and its path and file-system attributes at that time."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> SourceFile:
        """Return the fingerprint of a file whose hash is known."""
        found = path.stat()
        times = found.st_mtime_ns, found.st_ctime_ns
        return cls(str(path.resolve()), sha256, found.st_size, *times, found.st_ino)


@dataclass(frozen=True)
class IngestPlan:
    """Plan of an ingest, with all parameters that determine the content of the store."""

    source: GenotypeSource
    packing: Packing
    sources: tuple[SourceFile, ...]  # some may still be `NOT_HASHED`
    destination: Path
    sample_index: Index  # selected rows of the source's tables
    variant_index: Index
    filter_counts: tuple[FilterCount, ...]
    chunk_shape: tuple[int, int]  # variants and samples, at most those of the selection

    @property
    def partial(self) -> Path:
        """Directory of the unfinished store and its records."""
        return self.destination.with_name(self.destination.name + ".partial")

    @property
    def growing_store(self) -> Path:
        """Path of the unfinished store."""
        return self.partial / "store.zarr"

    @property
    def n_partitions(self) -> int:
        """Number of partitions, one for each row of chunks."""
        return -(-len(self.variant_index) // self.chunk_shape[0])

    @property
    def slab_shape(self) -> tuple[int, int]:
        """Numbers of variants and chunks that are copied together.

        In a variant-major file, a slab consists of long pieces of a few rows, so that the file is
        read sequentially, and genotypes are counted and written from the processor's cache. In a
        sample-major file, a slab consists of whole columns of chunks, because each read passes over
        all samples.
        """
        height, width = self.chunk_shape[0], self.packing.width(self.chunk_shape[1])
        rows = min(_SLAB_ROWS, height) if self.source.variant_major else height
        side_by_side = min(_MOST_CHUNKS, max(1, _SLAB_BYTES // (rows * width)))
        if self.source.variant_major:
            rows = max(1, min(rows, _SLAB_BYTES // (side_by_side * width)))
        return rows, side_by_side

    @property
    def partitions_at_once(self) -> int:
        """Number of concurrent partitions that fit `READ_BUDGET_BYTES`, at least one."""
        slab = math.prod(self.slab_shape) * self.packing.width(self.chunk_shape[1])
        held = 2 * RAW_SLAB_BYTES + _COPIES_OF_A_SLAB * max(_SLAB_BYTES, slab)
        return max(1, READ_BUDGET_BYTES // held)

    @cached_property
    def samples(self) -> SampleTable:
        """Selected people."""
        return self.source.samples.select(self.sample_index)

    @cached_property
    def variants(self) -> VariantTable:
        """Selected variants."""
        return self.source.variants.select(self.variant_index)

    @cached_property
    def request(self) -> dict[str, Any]:
        """Parameters that must be equal to continue or reuse a store.

        A `NOT_HASHED` file equals one that was `NOT_HASHED` when it was recorded, because
        `fingerprint` keeps this value only for files that are unchanged since.
        """
        return {
            **({} if self.packing is HARD_CALLS else {"packing": self.packing.kind}),
            "sources": [source.sha256 for source in self.sources],
            "samples": _digest_of_index(self.sample_index),
            "variants": _digest_of_index(self.variant_index),
            "chunk_shape": list(self.chunk_shape),
        }

    @property
    def request_path(self) -> Path:
        """File with the request of the unfinished store."""
        return self.partial / "request.json"

    @property
    def description(self) -> dict[str, Any]:
        """Request and sources, as the unfinished and the finished store record them."""
        return {"request": self.request, "sources": [asdict(source) for source in self.sources]}

    @cached_property
    def identity_digest(self) -> str:
        """Identity digest of the store, see `GenotypeStore`."""
        return sha256_of_json({**self.request, "chunk_shape": None})

    @cached_property
    def cohort_digest(self) -> str:
        """SHA-256 digest of the sorted (FID, IID) pairs of all people, which is private.

        It does not depend on the order, the format or the variants of the files, so that releases
        of different chromosomes are charged to the same account.
        """
        table = self.source.samples
        # Sorting comes before removing duplicates, because people are mostly sorted already.
        people = sorted(zip(table.family.tolist(), table.individual.tolist(), strict=True))
        rows = dict.fromkeys(f"{family}\t{individual}\n" for family, individual in people)
        return hashlib.sha256("".join(rows).encode()).hexdigest()

    def variants_of(self, number: int) -> slice:
        """Return the rows of `variants` that partition `number` copies."""
        return slice(number * self.chunk_shape[0], (number + 1) * self.chunk_shape[0])

    def record_path(self, number: int) -> Path:
        """Return the file that records partition `number` as written."""
        return self.partial / "partitions" / f"{number:07d}.npz"


def plan_ingest(
    files: SourceFiles,
    destination: Path,
    *,
    selection: Selection = NO_LISTS,
    chunk_shape: tuple[int, int] | None = None,
) -> IngestPlan:
    """Read the tables, apply the filters, check the files and fingerprint the sources.

    The refusals are those of `primo_scale.genotypes.ingest.ingest`.
    """
    plan = plan_of_source(
        open_source(files), files.packing, destination, selection=selection, chunk_shape=chunk_shape
    )
    return replace(plan, sources=_fingerprint_before_copying(plan))


def plan_of_source(
    source: GenotypeSource,
    packing: Packing,
    destination: Path,
    *,
    selection: Selection = NO_LISTS,
    chunk_shape: tuple[int, int] | None = None,
) -> IngestPlan:
    """Return the plan of an ingest of an open source, whose files are not read."""
    height, width = packing.chunk_shape if chunk_shape is None else chunk_shape
    if min(height, width) < 1 or width % _SAMPLES_MULTIPLE:
        raise UsageError(
            "a chunk needs at least one variant and a multiple of 4 samples", value=(height, width)
        )
    sample_index, sample_counts = select_samples(source.samples, selection)
    variant_index, variant_counts = select_variants(source.variants, selection)
    return IngestPlan(
        source=source,
        packing=packing,
        sources=(),
        destination=destination,
        sample_index=sample_index,
        variant_index=variant_index,
        filter_counts=(*sample_counts, *variant_counts),
        chunk_shape=(
            min(height, len(variant_index)),
            min(width, whole_multiple(len(sample_index), _SAMPLES_MULTIPLE)),
        ),
    )


def store_bytes(plan: IngestPlan, partitions: int) -> int:
    """Return the disk that partitions of a genotype store take; chunks at its ends are whole."""
    chunk_bytes = plan.chunk_shape[0] * plan.packing.width(plan.chunk_shape[1])
    columns = -(-len(plan.sample_index) // plan.chunk_shape[1])
    return partitions * (columns * chunk_bytes + plan.chunk_shape[0] * _BYTES_PER_VARIANT)


def check_free_space(plan: IngestPlan, partitions: int) -> None:
    """Refuse an ingest if the disk has too little free space for the remaining partitions."""
    refuse_full_disk(
        plan.destination,
        store_bytes(plan, partitions),
        what="the genotype store",
        remedy="Free space or choose a directory on a larger disk",
    )


def check_same_request(
    plan: IngestPlan, request: dict[str, Any], sources: tuple[SourceFile, ...], where: Path
) -> None:
    """Refuse to continue or reuse a store of another request, and name the first difference."""
    if request == plan.request:
        return
    before = {source.path: source.sha256 for source in sources}
    differences = [
        f"{source.path} changed" if source.path in before else f"{source.path} was not an input"
        for source in plan.sources
        if before.get(source.path) != source.sha256
    ] or [
        f"the {name.replace('_', ' ')} of the request differ"
        for name in request | plan.request
        if request.get(name) != plan.request.get(name)
    ]
    remedy = "Remove it, or choose another --out, or repeat the earlier command unchanged"
    raise of_other_request(where, value=differences[0], remedy=remedy)


def recorded_request(plan: IngestPlan) -> tuple[dict[str, Any] | None, tuple[SourceFile, ...]]:
    """Return the request and the sources of the finished or unfinished store, if there is one."""
    if plan.destination.exists():
        kind = plan.packing.kind
        if is_complete(plan.destination, kind):
            return _request_from(attributes_of(open_group(plan.destination, kind)))
    elif plan.request_path.is_file():
        remedy = f"Remove {plan.partial} and start again"
        return read_document(plan.request_path, _request_from, remedy=remedy)
    return None, ()


def _request_from(content: dict[str, Any]) -> tuple[dict[str, Any], tuple[SourceFile, ...]]:
    return content["request"], tuple(SourceFile(**source) for source in content["sources"])


def _fingerprint_before_copying(plan: IngestPlan) -> tuple[SourceFile, ...]:
    """Fingerprint the sources; hash a file to copy only if there is a recorded hash to compare."""
    request, recorded = recorded_request(plan)
    known = {source.path: source for source in recorded}
    if request is None:
        unhashed = (SourceFile.of(path, NOT_HASHED) for path in plan.source.copied_files())
        known = {source.path: source for source in unhashed}
    return fingerprint(plan.source.files(), known)


def fingerprint(paths: Iterable[Path], known: Mapping[str, SourceFile]) -> tuple[SourceFile, ...]:
    """Hash files, except for those that are unchanged since an earlier fingerprint.

    A file with equal times, size and inode is taken as unchanged, because programs cannot set back
    the inode change time.
    """
    sources = []
    for path in paths:
        before = known.get(str(path.resolve()))
        now = SourceFile.of(path, before.sha256 if before is not None else "")
        sources.append(now if now == before else replace(now, sha256=sha256_of_file(path)))
    return tuple(sources)


def _digest_of_index(index: Index) -> str:
    return hashlib.sha256(index.astype("<i8").tobytes()).hexdigest()
