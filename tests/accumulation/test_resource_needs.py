"""Predicted resources of an accumulation, compared with files, and refusals of too small ones."""

from dataclasses import replace

import numpy as np
import pytest
from support.partials import commit_zeros, partials_below
from support.stores import zero_statistics
from support.tiers import thinned

from primo_scale import machine
from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.clipping_rules import ClippingRule, LongRecords
from primo_scale.accumulation.plan import Plan, default_plan
from primo_scale.accumulation.resource_needs import Machines, needs_of, refuse_if_too_small
from primo_scale.accumulation.speed import STORE_RATE, bytes_read, core_seconds, measure_rates
from primo_scale.accumulation.workload import _READING, _TYPICAL, Amount, Rates, Workload
from primo_scale.errors import ResourceError
from primo_scale.genotypes.packings import HARD_CALLS
from primo_scale.outcomes.store import rows_layout
from primo_scale.storage.block_matrices import BlockLayout, stored_bytes
from primo_scale.storage.chunks import array_bytes, write_block
from primo_scale.storage.groups import create_array, create_group

KERNELS = ("amx", "vnni", "avx2", "float32")


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


@pytest.mark.parametrize("norms", [False, True])
def test_every_pair_of_tiles_is_read_and_multiplied_once(norms):
    """Three tiles form six pairs, and each tile is read for three of them.

    40,000 people lie in 5 chunks of 8192.
    """
    work = replace(workload(40_000, sizes=(6144,)), may_clip=norms)
    assert bytes_read(work) == (3 + norms) * 6144 * 10_240
    rates = Rates(diagonal=1, beside=2, outcomes=5, outcome_gram=100, decoding=1000, norms=2000)
    products = 3 * 2048**2 * (1 + 2) + 6144 * 401 * 5 + 401**2 * 100
    a_person = products + 3 * 6144 * 1000 + norms * 6144 * 2000
    assert core_seconds(work, rates) == pytest.approx(40_000 * a_person, rel=1e-3)


@pytest.mark.parametrize("sizes", [(500,), (6144, 500)])
def test_tasks_weigh_together_what_the_whole_takes(sizes):
    work = workload(2**16, sizes=sizes)
    tasks = [*work.plan.row_tasks(), *work.plan.tile_tasks()]
    amount = work.amount(tasks)
    whole = core_seconds(work, _TYPICAL) - partial_bytes(work) / STORE_RATE
    assert amount == Amount(len(tasks), round(whole + _READING * bytes_read(work)))
    assert work.amount(tasks[:3]) + work.amount(tasks[3:]) == amount


def test_components_are_computed_from_all_variants_of_their_block():
    """1,000 components of 6,144 variants: once for the norms, and once for their only tile."""
    layout = BlockLayout((0, 1000), 5, 195)
    plan = default_plan(layout, 40_000)
    work = Workload(plan, "vnni", 127, (2048, 8192), True, 1, False, variants=(6144,))
    rates = Rates(diagonal=1, beside=2, outcomes=5, outcome_gram=100, decoding=1000, norms=2000)
    mapped = 6144 * (1000 * 2 + 1000)
    a_person = 2 * mapped + 1000 * 1000 + 1000**2 + 1000 * 401 * 5 + 401**2 * 100
    assert core_seconds(work, rates) == pytest.approx(40_000 * a_person, rel=1e-3)
    assert bytes_read(work) == 2 * 6144 * 10_240


def test_blocks_that_share_tasks_are_read_once():
    """8,000 variants lie in 4 chunks; every second block of 1000 begins in another chunk."""
    alone, shared = (replace(workload(8192, sizes=(1000,) * 8), may_clip=False) for _ in range(2))
    shared = replace(shared, plan=replace(shared.plan, together=2048))
    assert bytes_read(shared) == (4 + 3) * 2048 * 2048
    assert bytes_read(alone) == (8 + 3) * 2048 * 2048
    rates = Rates(diagonal=1, beside=2, outcomes=5, outcome_gram=9, decoding=7, norms=0)
    assert core_seconds(shared, rates) == core_seconds(alone, rates)


def test_a_narrow_block_is_read_in_whole_chunks():
    """Of 5 blocks of 1000 in chunks of 2048, the third and the fifth lie in two chunks each."""
    work = replace(workload(8192, sizes=(1000,) * 5), may_clip=False)
    assert bytes_read(work) == 7 * 2048 * 2048


def test_measured_rates_are_plausible():
    rates = measure_rates("float32", 1, HARD_CALLS)
    assert 0 < rates.diagonal < 1e-8
    assert 0 < rates.decoding < 1e-7


def test_existing_files_reduce_the_needed_disk_space(tmp_path, monkeypatch):
    needs = needs_of(workload())
    free = needs.disk_bytes // 2
    monkeypatch.setattr(machine, "free_disk", lambda _: free)
    with pytest.raises(ResourceError, match="disk"):
        refuse_if_too_small(needs, Machines(0, 0, None, tmp_path))
    refuse_if_too_small(needs, Machines(0, 0, None, tmp_path, bytes_there=needs.disk_bytes - free))


def test_a_worker_below_its_needs_is_refused_with_the_least_limit(tmp_path):
    needs = needs_of(workload())
    least = int(needs.worker_bytes / 0.8)  # where Dask stops a worker
    refuse_if_too_small(needs, Machines(0, 0, least, tmp_path))
    with pytest.raises(ResourceError, match=r"--cluster: a worker .*; limit at least \d+ MiB"):
        refuse_if_too_small(needs, Machines(0, 0, least - 1, tmp_path))


# ---- Predicted disk use, compared with the files that are written --------------------------------

N_BLOCKS, SIDE = 17, 6


def bytes_below(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.usefixtures("encrypted")
def test_partial_sums_fit_the_predicted_size(tmp_path):
    """Z'Z of every stripe, and multipliers of 17 blocks in chunks of 16."""
    layout = BlockLayout(tuple(range(0, SIDE * N_BLOCKS + 1, SIDE)), 2, 38)
    plan = Plan(layout, 1000, row_group=400, stripe=80, rows_per_read=40, tile=4)
    rule = ClippingRule(LongRecords.RECORD, 10, (1,) * N_BLOCKS, 1)
    codes = np.ones((layout.n_variants, 4), np.int8)
    partials = partials_below(tmp_path, plan, codes, rule=rule, subsample=500)
    for task in [*plan.row_tasks(), *plan.tile_tasks()]:
        commit_zeros(partials, task)
    work = Workload(plan, "vnni", 1, (8, 8), True, partials.multiplier_columns, True)
    there = bytes_below(partials.path)
    assert 0.9 * partial_bytes(work) <= there <= partial_bytes(work)


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize("copies", thinned([1, 3], every=2))
def test_statistics_fit_the_predicted_size(tmp_path, copies):
    """The last of two panels holds 53 rows, and fills a chunk of 1047."""
    layout = BlockLayout((0, 1100, 1110), 5, 996)
    path = tmp_path / "statistics.zarr"
    zero_statistics(path, layout, gram_copies=copies)
    predicted = stored_bytes(layout, gram_copies=copies)
    assert 0.99 * predicted <= bytes_below(path) <= predicted


def test_outcomes_fit_the_predicted_size(tmp_path):
    """A chunk of 100 columns holds 20,971 people, so that 30,000 people take two chunks."""
    layout = rows_layout(30_000, 100)
    group = create_group(tmp_path / "outcomes.zarr", "outcomes", {})
    rows = create_array(group, "rows", layout)
    for start in range(0, 30_000, layout.chunks[0]):
        part = slice(start, min(start + layout.chunks[0], 30_000))
        write_block(rows, (part, slice(None)), np.zeros((part.stop - start, 100), np.int16))
    predicted = array_bytes(layout)
    assert 0.99 * predicted <= bytes_below(tmp_path / "outcomes.zarr") <= predicted
