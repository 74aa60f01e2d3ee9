"""Ingest of genotype files into the packed genotype store.

The steps are: plan, initialise, write partitions, finalise. Several partitions are copied
concurrently, so that one computes while another waits for the disk. A large file is hashed while it
is copied, in the same order and at the same pace, so that its bytes are still in the page cache.
Genotypes need at most `READ_BUDGET_BYTES` of memory for any number of people, in addition to the
tables of people and variants.

The store is written in ``<destination>.partial/`` and renamed when all partitions are complete.
After an interruption the same call continues. A call with other inputs, lists or chunks is refused.
A partition is complete when its record exists, which is committed after the chunks were flushed.

A finished store is copied to another location object by object, unchanged; its root metadata comes
last, after every chunk was read back and had the CRC-32C that the ingest recorded for it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes import bed, filters, tables
from primo_scale.genotypes.source import GenotypeSource, SourceFiles, open_source
from primo_scale.genotypes.store import HARD_CALLS, GenotypeStore, Packing, open_genotype_store
from primo_scale.interruption import check
from primo_scale.machine import in_threads, read_ahead, refuse_full_disk
from primo_scale.ranges import pieces, whole_multiple
from primo_scale.storage import files, groups, locations, resuming, stores

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
    sample_index: tables.Index  # selected rows of the source's tables
    variant_index: tables.Index
    filter_counts: tuple[filters.FilterCount, ...]
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

    @cached_property
    def samples(self) -> tables.SampleTable:
        """Selected people."""
        return self.source.samples.select(self.sample_index)

    @cached_property
    def variants(self) -> tables.VariantTable:
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
        return files.sha256_of_json({**self.request, "chunk_shape": None})

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
    sources: SourceFiles,
    destination: Path,
    *,
    selection: filters.Selection = filters.NO_LISTS,
    chunk_shape: tuple[int, int] | None = None,
) -> IngestPlan:
    """Read the tables, apply the filters, check the files and fingerprint the sources.

    The refusals are those of `primo_scale.genotypes.ingest.ingest`.
    """
    source = open_source(sources)
    plan = plan_of_source(source, destination, selection=selection, chunk_shape=chunk_shape)
    request, recorded = recorded_request(plan)
    if request is None:  # without a recorded hash to compare, the copy hashes large files
        recorded = tuple(SourceFile.of(path, NOT_HASHED) for path in source.copied_files())
    return replace(plan, sources=fingerprint(source.files(), recorded))


def plan_of_source(
    source: GenotypeSource,
    destination: Path,
    *,
    selection: filters.Selection = filters.NO_LISTS,
    chunk_shape: tuple[int, int] | None = None,
) -> IngestPlan:
    """Return the plan of an ingest of an open source, whose files are not read."""
    height, width = source.packing.chunk_shape if chunk_shape is None else chunk_shape
    if min(height, width) < 1 or width % _SAMPLES_MULTIPLE:
        raise UsageError(
            "a chunk needs at least one variant and a multiple of 4 samples", value=(height, width)
        )
    sample_index, sample_counts = filters.select_samples(source.samples, selection)
    variant_index, variant_counts = filters.select_variants(source.variants, selection)
    return IngestPlan(
        source=source,
        packing=source.packing,
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


def check_same_request(plan: IngestPlan, request: dict[str, Any], where: Path) -> None:
    """Refuse to continue or reuse a store of another request, and name what differs."""
    if request == plan.request:
        return
    names = ", ".join(n for n in request | plan.request if request.get(n) != plan.request.get(n))
    remedy = "Remove it, or choose another --out, or repeat the earlier command unchanged"
    raise resuming.of_other_request(where, value=f"other {names}".replace("_", " "), remedy=remedy)


def recorded_request(plan: IngestPlan) -> tuple[dict[str, Any] | None, tuple[SourceFile, ...]]:
    """Return the request and the sources of the finished or unfinished store, if there is one."""
    if plan.destination.exists():
        kind = plan.packing.kind
        if groups.is_complete(plan.destination, kind):
            return _request_from(groups.attributes_of(groups.open_group(plan.destination, kind)))
    elif plan.request_path.is_file():
        remedy = f"Remove {plan.partial} and start again"
        return files.read_document(plan.request_path, _request_from, remedy=remedy)
    return None, ()


def _request_from(content: dict[str, Any]) -> tuple[dict[str, Any], tuple[SourceFile, ...]]:
    return content["request"], tuple(SourceFile(**source) for source in content["sources"])


def fingerprint(paths: Iterable[Path], recorded: tuple[SourceFile, ...]) -> tuple[SourceFile, ...]:
    """Hash files, except for those that are unchanged since they were `recorded`.

    A file with equal times, size and inode is taken as unchanged, because programs cannot set back
    the inode change time.
    """
    sources, known = [], {source.path: source for source in recorded}
    for path in paths:
        before = known.get(str(path.resolve()))
        now = SourceFile.of(path, before.sha256 if before is not None else "")
        sources.append(now if now == before else replace(now, sha256=files.sha256_of_file(path)))
    return tuple(sources)


def _digest_of_index(index: tables.Index) -> str:
    return hashlib.sha256(index.astype("<i8").tobytes()).hexdigest()


_TABLE_CHUNK_ROWS = 65536

_HASH_BLOCK_BYTES = 1 << 20


def ingest(
    sources: SourceFiles,
    destination: Path,
    *,
    selection: filters.Selection = filters.NO_LISTS,
    chunk_shape: tuple[int, int] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> GenotypeStore:
    """Write the genotypes of `sources` to a store, continue doing so, or reuse the finished store.

    All files hold the same people, and their variants are joined in the order of the files.
    `chunk_shape` are the numbers of variants and samples in a chunk, by default those of the
    packing; the number of samples is a multiple of 4. `on_progress` is called with (partitions
    written, total partitions).
    """
    plan = plan_ingest(sources, destination, selection=selection, chunk_shape=chunk_shape)
    return carry_out(plan, on_progress)


def carry_out(plan: IngestPlan, on_progress: Callable[[int, int], None]) -> GenotypeStore:
    """Carry out a plan, see `ingest`."""
    if plan.destination.exists():
        return _reuse(plan)
    files.make_private_directory(plan.partial)
    with files.exclusive_lock(plan.partial / "lock"):
        _initialise(plan)
        missing = _missing_partitions(plan)
        needed = store_bytes(plan, len(missing))
        remedy = "Free space or choose a directory on a larger disk"
        refuse_full_disk(plan.destination, needed, what="the genotype store", remedy=remedy)
        on_progress(plan.n_partitions - len(missing), plan.n_partitions)
        digests = {s.path: hashlib.sha256() for s in plan.sources if s.sha256 == NOT_HASHED}
        hashing = _hash_step_by_step(digests, len(missing))
        slab = math.prod(plan.slab_shape) * plan.packing.width(plan.chunk_shape[1])
        held = 2 * bed.RAW_SLAB_BYTES + _COPIES_OF_A_SLAB * max(_SLAB_BYTES, slab)
        written = read_ahead(partial(_write_one, plan), missing, max(1, READ_BUDGET_BYTES // held))
        for done, _ in enumerate(written, start=plan.n_partitions - len(missing) + 1):
            next(hashing, None)
            on_progress(done, plan.n_partitions)
        deque(hashing, maxlen=0)  # what is left
        hashed = {path: digest.hexdigest() for path, digest in digests.items()}
        sources = (replace(s, sha256=hashed.get(s.path, s.sha256)) for s in plan.sources)
        return _finalise(replace(plan, sources=tuple(sources)))


def _initialise(plan: IngestPlan) -> None:
    """Create the empty store and record the request, or refuse the store of another request."""
    request, _ = recorded_request(plan)
    if request is not None:
        check_same_request(plan, request, plan.partial)
        return
    packing = plan.packing
    group = groups.create_group(plan.growing_store, packing.kind, {})
    shape = len(plan.variant_index), packing.width(len(plan.sample_index))
    chunks = plan.chunk_shape[0], packing.width(plan.chunk_shape[1])
    groups.create_array(
        group, "genotypes", groups.ArrayLayout(shape, chunks, np.uint8), packing.missing
    )
    files.make_private_directory(plan.partial / "partitions")
    files.sync_tree(plan.partial)
    files.write_atomically(plan.request_path, json.dumps(plan.description).encode())


def _write_one(plan: IngestPlan, number: int) -> None:
    """Write partition `number` and commit its record."""
    array = _growing_array(plan)
    # Chunks without a record come from an interrupted run and may be incomplete.
    shutil.rmtree(groups.chunk_path(array, (number, 0)).parent, ignore_errors=True)
    with files.disk_errors_explained(plan.partial):
        record = write_partition(plan, array, number)
    buffer = io.BytesIO()
    np.savez(buffer, **record)
    files.write_atomically(plan.record_path(number), buffer.getvalue())


def _growing_array(plan: IngestPlan) -> groups.Array:
    group = groups.open_group(plan.growing_store, plan.packing.kind, complete=False)
    return groups.array_of(group, "genotypes")


def _hash_step_by_step(digests: Mapping[str, hashlib._Hash], n_steps: int) -> Iterator[None]:
    """Hash files in order, and yield after each of `n_steps` shares of their bytes."""
    step = max(1, sum(map(os.path.getsize, digests)) // max(1, n_steps))
    hashed, stop = 0, step
    for path, digest in digests.items():
        with open(path, "rb") as file:
            while block := file.read(_HASH_BLOCK_BYTES):
                check()
                digest.update(block)
                hashed += len(block)
                while hashed >= stop:
                    stop += step
                    yield


def _missing_partitions(plan: IngestPlan) -> list[int]:
    """Return the numbers of the partitions that lack their record or a chunk."""
    array = _growing_array(plan)
    columns = -(-array.shape[1] // array.chunks[1])
    return [
        number
        for number in range(plan.n_partitions)
        if not plan.record_path(number).is_file()
        or not all(
            groups.chunk_path(array, (number, column)).is_file() for column in range(columns)
        )
    ]


def _finalise(plan: IngestPlan) -> GenotypeStore:
    """Write tables, counts and digests, and publish the store.

    A source that changed during the run is refused.
    """
    if fingerprint(plan.source.files(), plan.sources) != plan.sources:
        raise InputError(
            "an input file changed while it was read",
            where=plan.source.where,
            remedy=f"Remove {plan.partial} and start again",
        )
    group = groups.open_group(plan.growing_store, plan.packing.kind, complete=False)
    records = [plan.record_path(number) for number in range(plan.n_partitions)]
    columns = {
        "genotype_counts": np.concatenate([np.load(record)["counts"] for record in records]),
        "chunk_crc32c": np.stack([np.load(record)["crc32c"] for record in records]),
    }
    with files.disk_errors_explained(plan.partial):
        write_tables(group, columns, plan.variants, plan.samples)
    files.sync_tree(plan.growing_store)
    groups.mark_complete(
        group,
        {
            **plan.description,
            "n_samples": len(plan.sample_index),
            "n_variants": len(plan.variant_index),
            "chunk_shape": list(plan.chunk_shape),
            "identity_digest": plan.identity_digest,
            "cohort_digest": plan.cohort_digest,
            "filter_counts": [asdict(count) for count in plan.filter_counts],
        },
    )
    with files.disk_errors_explained(plan.destination):
        os.rename(plan.growing_store, plan.destination)
        files.sync_directory(plan.destination.parent)
    shutil.rmtree(plan.partial)
    return open_genotype_store(plan.destination)


def write_tables(
    group: groups.Group,
    columns: dict[str, npt.NDArray[Any]],
    variants: tables.VariantTable,
    samples: tables.SampleTable,
) -> None:
    """Write some columns, and those of the tables, to a genotype store."""
    for table, rows in (("variant", variants), ("sample", samples)):
        columns |= {f"{table}_{name}": values for name, values in vars(rows).items()}
    for name, values in columns.items():
        if values.dtype == object:
            groups.write_strings(group, name, values.tolist())
            continue
        chunks = min(len(values), _TABLE_CHUNK_ROWS), *values.shape[1:]
        groups.write_array(group, name, values, chunks)


def _reuse(plan: IngestPlan) -> GenotypeStore:
    """Return the finished store; refuse the store of another request."""
    if not groups.is_complete(plan.destination, plan.packing.kind):
        what = "exists already and is not a finished genotype store"
        raise InputError(what, where=plan.destination, remedy="Remove it or choose another --out")
    request, _ = recorded_request(plan)
    check_same_request(plan, request or {}, plan.destination)
    shutil.rmtree(plan.partial, ignore_errors=True)  # the ingest was killed before removing it
    return open_genotype_store(plan.destination)


def write_partition(plan: IngestPlan, array: groups.Array, number: int) -> dict[str, Any]:
    """Copy the genotypes of row `number` of the chunks of `array`, and flush them to the disk.

    The result has ``crc32c``, the checksum of each chunk, including its padding, shape (chunks,),
    and ``counts``, the samples that `Packing.count` counts, shape (v, 4).

    They are copied in slabs of `IngestPlan.slab_shape`, so that the memory does not depend on the
    number of people.
    """
    source, packing = plan.source, plan.packing
    index = plan.variant_index[plan.variants_of(number)]
    chunk_bytes, width = array.chunks[1], array.shape[1]
    rows, step = plan.slab_shape[0], plan.slab_shape[1] * chunk_bytes
    counts = np.zeros((len(index), 4), dtype=np.int64)
    buffer = np.empty(rows * min(width, step), dtype=np.uint8)
    checksums = []

    def slabs(columns: slice) -> Iterator[npt.NDArray[np.uint8]]:
        start, stop = (packing.samples_per_byte * edge for edge in (columns.start, columns.stop))
        samples = plan.sample_index[start:stop]
        for variants in pieces(len(index), rows):
            shape = (variants.stop - variants.start, columns.stop - columns.start)
            packed = buffer[: math.prod(shape)].reshape(shape)
            source.read_into(packed, index[variants], samples)
            counts[variants] += packing.count(packed, len(samples))
            yield packed

    for columns in pieces(width, step):
        grid = range(columns.start // chunk_bytes, -(-columns.stop // chunk_bytes))
        checksums.append(groups.write_chunks_by_rows(array, number, grid, slabs(columns)))
    directory = groups.chunk_path(array, (number, 0)).parent
    files.sync_directory(directory)
    files.sync_directory(directory.parent)
    return {"crc32c": np.concatenate(checksums), "counts": counts}


_ROOT = "zarr.json"
# A bucket serves many concurrent requests, each of them slowly. A chunk usually has 4 MiB.
_AT_ONCE = 16


def copy_genotypes(
    source: GenotypeStore,
    destination: locations.Location,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> GenotypeStore:
    """Copy a finished store to `destination`, or continue an interrupted copy; return the copy.

    `on_progress` is called with (objects copied and compared, all objects).
    Another store at the destination is refused. An object that differs when it is read back is
    deleted and reported, so that the same call copies it again.
    """
    kind = source.packing.kind
    if groups.is_complete(destination, kind):
        return _if_same(open_genotype_store(destination), source)
    here, there = stores.store_at(source.path), stores.store_at(destination)
    keys = {key for key in here.all_keys() if key != _ROOT}
    table = groups.read_block(groups.array_of(groups.open_group(source.path, kind), "chunk_crc32c"))
    recorded = {groups.chunk_name("genotypes", i): int(table[i]) for i in np.ndindex(table.shape)}
    missing = keys.difference(there.all_keys())
    every = sorted(keys.union(recorded))
    steps = itertools.count(1)

    def copy(key: str) -> None:
        """Copy an object, and compare what is read back with the checksum or the source."""
        if key in missing:
            there.put_if_absent(key, here.read(key))
        content = there.read(key) if key in keys else b""  # missing in a damaged source
        if key in recorded:
            same = groups.crc32c_of_chunk(content) == recorded[key]
        else:
            same = content == here.read(key)
        if not same:
            there.remove(key)
            raise InputError(
                f"the copy of an object differs from the original: {key}",
                where=str(destination),
                remedy="The copy was deleted. Run the same command again. If the error persists, "
                "the original store is damaged: ingest it again",
            )
        on_progress(next(steps), len(every))

    in_threads(copy, every, _AT_ONCE)
    there.put_if_absent(_ROOT, here.read(_ROOT))
    there.flush("")
    return _if_same(open_genotype_store(destination), source)


def _if_same(copied: GenotypeStore, source: GenotypeStore) -> GenotypeStore:
    ours = (source.identity_digest, source.cohort_digest, source.chunk_shape)
    if (copied.identity_digest, copied.cohort_digest, copied.chunk_shape) != ours:
        raise resuming.of_other_request(copied.path, remedy="Remove it, or choose another location")
    return copied
