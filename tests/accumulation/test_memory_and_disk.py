"""Predicted resources of an accumulation, compared with files, and refusals of too small ones."""

import numpy as np
import pytest
from support.partials import commit_zeros, partials_below
from support.stores import zero_statistics
from support.tiers import thinned

from primo_scale import machine
from primo_scale.accumulation.clipping_rules import ClippingRule
from primo_scale.accumulation.needs import check_needs, needs
from primo_scale.accumulation.partials import partial_bytes
from primo_scale.accumulation.plan import Plan, default_plan
from primo_scale.cluster.job_queues import JobQueueProfile, SchedulerProfile
from primo_scale.errors import ResourceError
from primo_scale.genotypes.store import HARD_CALLS
from primo_scale.storage.block_matrices import BlockLayout, stored_bytes

ELSEWHERE = SchedulerProfile("tls://a:1")


def needs_of(n=100_000, *, sizes=(4096,), q=200, code=127, **others):
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 5, q - 5)
    return needs(
        default_plan(layout, n), (2048, 8192), HARD_CALLS, kernel="vnni", largest_code=code,
        multiplier_columns=len(sizes), **others,
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [(4096,), (500,) * 40], ids=["dense", "LD blocks"])
def test_memory_does_not_depend_on_the_number_of_people(sizes):
    """Sums stay within int32 for ten million people with codes of 1."""
    few, many = (needs_of(n, sizes=sizes, code=1) for n in (10**5, 10**7))
    assert few.worker_bytes == many.worker_bytes
    tasks = many.tasks - few.tasks
    assert 0 <= many.client_bytes - few.client_bytes <= 2048 * tasks  # the list of tasks


def test_existing_files_reduce_the_needed_disk_space(tmp_path, monkeypatch):
    stated = needs_of()
    free = stated.disk_bytes // 2
    monkeypatch.setattr(machine, "free_disk", lambda _: free)
    with pytest.raises(ResourceError, match="disk"):
        check_needs(stated, ELSEWHERE, tmp_path)
    check_needs(stated, ELSEWHERE, tmp_path, bytes_there=stated.disk_bytes - free)


def test_a_worker_below_its_needs_is_refused_with_the_least_limit(tmp_path):
    stated = needs_of()
    least = int(stated.worker_bytes / 0.8) >> 20  # where Dask stops a worker
    options = {"cores": 1, "memory": f"{least + 1}MiB"}
    check_needs(stated, JobQueueProfile("slurm", options=options), tmp_path)
    options = {"cores": 1, "memory": f"{least}MiB"}
    with pytest.raises(ResourceError, match=r"--cluster: a worker .*; limit at least \d+ MiB"):
        check_needs(stated, JobQueueProfile("slurm", options=options), tmp_path)


N_BLOCKS, SIDE = 17, 6


def bytes_below(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.usefixtures("encrypted")
def test_partial_sums_fit_the_predicted_size(tmp_path):
    """Z'Z of every stripe, and multipliers of 17 blocks in chunks of 16."""
    layout = BlockLayout(tuple(range(0, SIDE * N_BLOCKS + 1, SIDE)), 2, 38)
    plan = Plan(layout, 1000, row_group=400, stripe=80, rows_per_read=40, tile=4)
    rule = ClippingRule("record", 10, (1,) * N_BLOCKS, 1)
    codes = np.ones((layout.n_variants, 4), np.int8)
    partials = partials_below(tmp_path, plan, codes, rule=rule, subsample=500)
    for task in [*plan.row_tasks(), *plan.tile_tasks()]:
        commit_zeros(partials, task)
    stated = partial_bytes(plan, layout.n_variants, partials.multiplier_columns, largest=1)
    assert 0.9 * stated <= bytes_below(partials.path) <= stated


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize("copies", thinned([1, 3], every=2))
def test_statistics_fit_the_predicted_size(tmp_path, copies):
    """The last of two panels holds 53 rows, and fills a chunk of 1047."""
    layout = BlockLayout((0, 1100, 1110), 5, 996)
    path = tmp_path / "statistics.zarr"
    zero_statistics(path, layout, gram_copies=copies)
    predicted = stored_bytes(layout, gram_copies=copies)
    assert 0.99 * predicted <= bytes_below(path) <= predicted
