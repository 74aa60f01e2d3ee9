"""Predicted resources of an accumulation, and refusals of too small ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from primo_scale import machine
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.resource_needs import Where, needs_of, refuse_if_too_small
from primo_scale.accumulation.speed import Rates, bytes_read, core_seconds, measure_rates
from primo_scale.accumulation.task_memory import Workload, tile_task_bytes
from primo_scale.errors import ResourceError
from primo_scale.genotypes.packings import HARD_CALLS
from primo_scale.storage.block_matrices import BlockLayout

KERNELS = ("amx", "vnni", "avx2", "torch", "float32", "float64")


def workload(n=100_000, *, sizes=(4096,), q=200, kernel="vnni", code=127):
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 5, q - 5)
    return Workload(
        plan=default_plan(layout, n),
        kernel=kernel,
        largest_code=code,
        chunk_shape=(2048, 8192),
        may_clip=True,
        multiplier_columns=1 if len(sizes) == 1 else len(sizes),
        subsampled=False,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sizes", [(4096,), (500,) * 40], ids=["dense", "LD blocks"])
def test_memory_does_not_depend_on_the_number_of_people(kernel, sizes):
    """Sums stay within int32 for ten million people with codes of 1."""
    few, many = (needs_of(workload(n, sizes=sizes, kernel=kernel, code=1)) for n in (10**5, 10**7))
    assert few.worker_bytes == many.worker_bytes
    tasks = many.tasks - few.tasks
    assert 0 <= many.client_bytes - few.client_bytes <= 2048 * tasks  # the list of tasks


def test_sums_that_need_int64_are_counted_with_eight_bytes():
    """In a row group of a million people, codes of 127 exceed int32 and codes of 45 do not."""
    narrow, wide = (
        needs_of(workload(10**6, sizes=(500,) * 40, q=1000, code=code)).disk_bytes
        for code in (45, 127)
    )
    assert wide - narrow == 40 * 500**2 * 4


def test_worker_memory_includes_codes_and_sums():
    """A worker holds int8 codes of two tiles and their int32 sum, each twice."""
    for kernel in KERNELS:
        needs = needs_of(workload(sizes=(8192,), kernel=kernel))
        assert needs.worker_bytes >= 2 * (2 * 2048 * 8192 + 4 * 2048**2)


@pytest.mark.parametrize(("kernel", "least"), [("torch", 193), ("cuda", 291)])
def test_the_library_of_a_kernel_is_counted(kernel, least):
    """Each worker imports the library, which takes at least `least` MiB."""
    with_library, without = (
        needs_of(replace(workload(kernel="torch"), kernel=name)).worker_bytes
        for name in (kernel, "vnni")
    )
    same = workload(kernel=kernel)
    products = tile_task_bytes(same) - tile_task_bytes(replace(same, kernel="vnni"))
    assert with_library - without >= (least << 20) + products


def test_every_pair_of_tiles_is_read_and_multiplied_once():
    """Three tiles form six pairs, and each tile is read for three of them.

    40,000 people lie in 5 chunks of 8192.
    """
    work = replace(workload(40_000, sizes=(6144,)), may_clip=False)
    assert bytes_read(work) == 3 * 6144 * 10_240
    rates = Rates(1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    triangle = 6 * 2048**2
    assert core_seconds(work, rates) == pytest.approx(40_000 * triangle, rel=1e-3)


def test_a_narrow_block_is_read_in_whole_chunks():
    """Of 5 blocks of 1000 in chunks of 2048, the third and the fifth lie in two chunks each."""
    work = replace(workload(8192, sizes=(1000,) * 5), may_clip=False)
    assert bytes_read(work) == 7 * 2048 * 2048


def test_measured_rates_are_plausible():
    rates = measure_rates("float64", 1, HARD_CALLS)
    assert 0 < rates.diagonal < 1e-8
    assert 0 < rates.decoding < 1e-7


def test_disk_use_is_counted_by_entry():
    """One dense block of 2048 in one row group, int32, then int64; q = 10; 8192 people."""
    needs = needs_of(workload(8192, sizes=(2048,), q=10, code=1))
    gram, cross, rows = 2048**2 * (4 + 8), 2048 * 10 * (8 + 8), 8192 * (2 * 10 + 2 * 10 + 4)
    upper = gram + cross + rows
    # Stored tiles are 1024 wide, of which three of four lie in the upper triangle. A chunk of the
    # code table has room for 65,536 variants.
    least = upper - 8 * 1024**2 + 4 * 65_536
    assert least <= needs.disk_bytes <= least + 20_000


def test_existing_files_reduce_the_needed_disk_space(tmp_path, monkeypatch):
    needs = needs_of(workload())
    free = needs.disk_bytes // 2
    monkeypatch.setattr(machine, "free_disk", lambda _: free)
    with pytest.raises(ResourceError, match="disk"):
        refuse_if_too_small(needs, Where(0, 0, None, tmp_path))
    refuse_if_too_small(needs, Where(0, 0, None, tmp_path, bytes_there=needs.disk_bytes - free))
