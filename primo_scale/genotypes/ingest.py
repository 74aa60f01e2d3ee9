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
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale import interruption
from primo_scale.errors import InputError
from primo_scale.genotypes.filters import NO_LISTS, Selection
from primo_scale.genotypes.ingest_plan import (
    NOT_HASHED,
    IngestPlan,
    check_free_space,
    check_same_request,
    fingerprint,
    plan_ingest,
    recorded_request,
)
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.interruption import check, result_of
from primo_scale.storage import groups
from primo_scale.storage.chunks import (
    chunk_name,
    chunk_path,
    crc32c_of_chunk,
    open_chunk_appender,
    read_block,
    write_array,
)
from primo_scale.storage.files import (
    disk_errors_explained,
    exclusive_lock,
    make_private_directory,
    sync_directory,
    sync_tree,
    write_atomically,
)
from primo_scale.storage.groups import Array, array_of, is_complete, open_group
from primo_scale.storage.locations import Location
from primo_scale.storage.resume import of_other_request
from primo_scale.storage.stores import store_at

_TABLE_CHUNK_ROWS = 65536

_HASH_BLOCK_BYTES = 1 << 20


def ingest(
    files: SourceFiles,
    destination: Path,
    *,
    selection: Selection = NO_LISTS,
    chunk_shape: tuple[int, int] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> GenotypeStore:
    """Write the genotypes of `files` to a store, continue doing so, or reuse the finished store.

    All files hold the same people, and their variants are joined in the order of the files.
    `chunk_shape` are the numbers of variants and samples in a chunk, by default those of the
    packing; the number of samples is a multiple of 4. `on_progress` is called with (partitions
    written, total partitions).
    """
    plan = plan_ingest(files, destination, selection=selection, chunk_shape=chunk_shape)
    return carry_out(plan, on_progress)


def carry_out(plan: IngestPlan, on_progress: Callable[[int, int], None]) -> GenotypeStore:
    """Carry out a plan, see `ingest`."""
    if plan.destination.exists():
        return _reuse(plan)
    make_private_directory(plan.partial)
    with exclusive_lock(plan.partial / "lock"):
        _initialise(plan)
        missing = _missing_partitions(plan)
        check_free_space(plan, len(missing))
        on_progress(plan.n_partitions - len(missing), plan.n_partitions)
        digests = {s.path: hashlib.sha256() for s in plan.sources if s.sha256 == NOT_HASHED}
        hashing = _hash_step_by_step(digests, len(missing))
        _write_partitions(plan, missing, hashing, on_progress)
        deque(hashing, maxlen=0)  # what is left
        sources = (
            replace(source, sha256=digests[source.path].hexdigest())
            if source.path in digests
            else source
            for source in plan.sources
        )
        return _finalise(replace(plan, sources=tuple(sources)))


def _initialise(plan: IngestPlan) -> None:
    """Create the empty store and record the request, or refuse the store of another request."""
    request, sources = recorded_request(plan)
    if request is not None:
        check_same_request(plan, request, sources, plan.partial)
        return
    packing = plan.packing
    group = groups.create_group(plan.growing_store, packing.kind, {})
    shape = len(plan.variant_index), packing.width(len(plan.sample_index))
    chunks = plan.chunk_shape[0], packing.width(plan.chunk_shape[1])
    groups.create_array(
        group, "genotypes", groups.ArrayLayout(shape, chunks, np.uint8), packing.missing
    )
    make_private_directory(plan.partial / "partitions")
    sync_tree(plan.partial)
    write_atomically(plan.request_path, json.dumps(plan.description).encode())


def _write_one(plan: IngestPlan, number: int) -> None:
    """Write partition `number` and commit its record."""
    array = _growing_array(plan)
    # Chunks without a record come from an interrupted run and may be incomplete.
    shutil.rmtree(chunk_path(array, (number, 0)).parent, ignore_errors=True)
    with disk_errors_explained(plan.partial):
        record = write_partition(plan, array, number)
    buffer = io.BytesIO()
    np.savez(buffer, **record)
    write_atomically(plan.record_path(number), buffer.getvalue())


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


def _write_partitions(
    plan: IngestPlan,
    missing: Sequence[int],
    hashing: Iterator[None],
    on_progress: Callable[[int, int], None],
) -> None:
    """Write partitions in order, several at a time, and take a step of `hashing` for each.

    No partition is in progress when this function returns or raises.
    """
    numbers = itertools.count(plan.n_partitions - len(missing) + 1)
    under_way: deque[Future[None]] = deque()

    def finish_oldest() -> None:
        next(hashing, None)
        result_of(under_way.popleft())
        on_progress(next(numbers), plan.n_partitions)

    with ThreadPoolExecutor(plan.partitions_at_once, thread_name_prefix="ingest") as threads:
        try:
            for number in missing:
                under_way.append(threads.submit(_write_one, plan, number))
                if len(under_way) == plan.partitions_at_once:
                    finish_oldest()
            while under_way:
                finish_oldest()
        finally:
            threads.shutdown(cancel_futures=True)


def _missing_partitions(plan: IngestPlan) -> list[int]:
    """Return the numbers of the partitions that lack their record or a chunk."""
    array = _growing_array(plan)
    columns = -(-array.shape[1] // array.chunks[1])
    return [
        number
        for number in range(plan.n_partitions)
        if not plan.record_path(number).is_file()
        or not all(chunk_path(array, (number, column)).is_file() for column in range(columns))
    ]


def _finalise(plan: IngestPlan) -> GenotypeStore:
    """Write tables, counts and digests, and publish the store.

    A source that changed during the run is refused.
    """
    known = {source.path: source for source in plan.sources}
    if fingerprint(plan.source.files(), known) != plan.sources:
        raise InputError(
            "an input file changed while it was read",
            where=plan.source.where,
            remedy=f"Remove {plan.partial} and start again",
        )
    group = groups.open_group(plan.growing_store, plan.packing.kind, complete=False)
    _write_tables(plan, group)
    sync_tree(plan.growing_store)
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
    with disk_errors_explained(plan.destination):
        os.rename(plan.growing_store, plan.destination)
        sync_directory(plan.destination.parent)
    shutil.rmtree(plan.partial)
    return open_genotype_store(plan.destination)


def _write_tables(plan: IngestPlan, group: groups.Group) -> None:
    columns: dict[str, npt.NDArray[Any]]
    records = [plan.record_path(number) for number in range(plan.n_partitions)]
    columns = {
        "genotype_counts": np.concatenate([np.load(record)["counts"] for record in records]),
        "chunk_crc32c": np.stack([np.load(record)["crc32c"] for record in records]),
    }
    for table, rows in (("variant", plan.variants), ("sample", plan.samples)):
        columns |= {f"{table}_{name}": values for name, values in vars(rows).items()}
    with disk_errors_explained(plan.partial):
        for name, values in columns.items():
            if values.dtype == object:
                groups.write_strings(group, name, values.tolist())
                continue
            chunks = min(len(values), _TABLE_CHUNK_ROWS), *values.shape[1:]
            write_array(group, name, values, chunks)


def _reuse(plan: IngestPlan) -> GenotypeStore:
    """Return the finished store; refuse the store of another request."""
    if not groups.is_complete(plan.destination, plan.packing.kind):
        raise InputError(
            "exists already and is not a finished genotype store",
            where=plan.destination,
            remedy="Remove it or choose another --out",
        )
    request, sources = recorded_request(plan)
    check_same_request(plan, request or {}, sources, plan.destination)
    shutil.rmtree(plan.partial, ignore_errors=True)  # the ingest was killed before removing it
    return open_genotype_store(plan.destination)


def write_partition(
    plan: IngestPlan, array: Array, number: int
) -> dict[str, npt.NDArray[np.uint32] | npt.NDArray[np.int64]]:
    """Copy the genotypes of row `number` of the chunks of `array`, and flush them to the disk.

    The result has ``crc32c``, the checksum of each chunk, including its padding, shape (chunks,),
    and ``counts``, the samples that `Packing.count` counts, shape (v, 4).

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
    return {"crc32c": np.concatenate(checksums), "counts": counts}


_ROOT = "zarr.json"
# A bucket serves many concurrent requests, each of them slowly. A chunk usually has 4 MiB.
_AT_ONCE = 16


def copy_genotypes(
    source: GenotypeStore,
    destination: Location,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> GenotypeStore:
    """Copy a finished store to `destination`, or continue an interrupted copy; return the copy.

    `on_progress` is called with (objects copied and compared, all objects).
    Another store at the destination is refused. An object that differs when it is read back is
    deleted and reported, so that the same call copies it again.
    """
    kind = source.packing.kind
    if is_complete(destination, kind):
        return _if_same(open_genotype_store(destination), source)
    here, there = store_at(source.path), store_at(destination)
    keys = {key for key in here.all_keys() if key != _ROOT}
    table = read_block(array_of(open_group(source.path, kind), "chunk_crc32c"))
    recorded = {chunk_name("genotypes", i): int(table[i]) for i in np.ndindex(table.shape)}
    missing = keys.difference(there.all_keys())
    every = sorted(keys.union(recorded))
    steps = itertools.count(1)

    def copy(key: str) -> None:
        """Copy an object, and compare what is read back with the checksum or the source."""
        if key in missing:
            there.put_if_absent(key, here.read(key))
        content = there.read(key) if key in keys else b""  # missing in a damaged source
        if key in recorded:
            same = crc32c_of_chunk(content) == recorded[key]
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

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copy") as threads:
        for _ in threads.map(copy, every):
            interruption.check()
    there.put_if_absent(_ROOT, here.read(_ROOT))
    there.flush("")
    return _if_same(open_genotype_store(destination), source)


def _if_same(copied: GenotypeStore, source: GenotypeStore) -> GenotypeStore:
    ours = (source.identity_digest, source.cohort_digest, source.chunk_shape)
    if (copied.identity_digest, copied.cohort_digest, copied.chunk_shape) != ours:
        raise of_other_request(copied.path, remedy="Remove it, or choose another location")
    return copied
