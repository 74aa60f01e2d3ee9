"""Copying of a finished genotype store to another location, with verification.

Chunks are copied unchanged, including their checksums. After an interruption the same call copies
the missing objects. The root metadata is written last, after every chunk was read back and had the
CRC-32C that the ingest recorded for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from primo_scale import interruption
from primo_scale.errors import InputError
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.storage.chunks import chunk_name, crc32c_of_chunk, read_block
from primo_scale.storage.groups import array_of, is_complete, open_group
from primo_scale.storage.locations import Location
from primo_scale.storage.resume import of_other_request
from primo_scale.storage.stores import store_at

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
