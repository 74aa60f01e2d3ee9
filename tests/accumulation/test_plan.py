"""The plan covers every entry of every statistic exactly once, without a cluster."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from primo_scale.accumulation.plan import Plan, TileTask, default_plan, plan_digest
from primo_scale.errors import UsageError
from primo_scale.storage.block_matrices import BlockLayout

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=5)


def plan_of(block_sizes, n_samples=50, tile=7, together=0):
    boundaries = (0, *np.cumsum(block_sizes).tolist())
    layout = BlockLayout(boundaries, n_fixed=1, n_phenotypes=2)
    return Plan(layout, n_samples, 16, 24, rows_per_read=8, tile=tile, together=together)


@given(sizes, st.integers(1, 100), st.integers(1, 40), st.integers(0, 60))
def test_tiles_cover_the_upper_triangle_of_each_block_once_for_each_person(
    block_sizes, n_samples, tile, together
):
    plan = plan_of(block_sizes, n_samples, tile, together)
    for block, size in enumerate(block_sizes):
        people = np.zeros((size, size), dtype=int)
        for part in [part for task in plan.tile_tasks() for part in task.tiles]:
            if part.block == block:
                rows = plan.inside(block, part.row_tile)
                columns = plan.inside(block, part.column_tile)
                samples = plan.people(part)
                people[rows, columns] += samples.stop - samples.start
        np.testing.assert_array_equal(np.triu(people), np.triu(np.full_like(people, n_samples)))


@given(sizes, st.integers(1, 40), st.integers(0, 60))
def test_narrow_blocks_share_a_task_up_to_the_limit(block_sizes, tile, together):
    plan = plan_of(block_sizes, tile=tile, together=together)
    shared = list(plan.shared_blocks())
    assert [block for blocks in shared for block in blocks] == list(range(len(block_sizes)))
    widths = [sum(block_sizes[block] for block in blocks) for blocks in shared]
    limit = min(together, tile)
    for blocks, width in zip(shared, widths, strict=True):
        assert width <= limit or len(blocks) == 1
        if blocks.stop < len(block_sizes):
            assert width + block_sizes[blocks.stop] > limit


@given(st.integers(1, 200))
def test_reads_cover_each_person_once(n_samples):
    plan = plan_of([5], n_samples)
    for tasks in (plan.row_tasks(), plan.tile_tasks()):
        reads = [read for task in tasks for read in plan.reads(task)]
        people = [person for read in reads for person in range(read.start, read.stop)]
        assert people == list(range(n_samples))


def test_the_digest_depends_on_inputs_and_plan():
    plan = plan_of([20, 3])
    digests = {
        plan_digest(plan, {"genotypes": "a"}),
        plan_digest(plan, {"genotypes": "b"}),
        plan_digest(plan_of([20, 3], tile=8), {"genotypes": "a"}),
        plan_digest(plan_of([3, 20]), {"genotypes": "a"}),
    }
    assert len(digests) == 4
    assert plan_digest(Plan.from_json(plan.to_json()), {"genotypes": "a"}) in digests


def test_a_row_group_that_splits_a_read_is_refused():
    layout = BlockLayout((0, 4), 1, 1)
    for row_group, stripe, rows_per_read in ((12, 8, 8), (8, 12, 8), (6, 6, 6)):
        with pytest.raises(UsageError):
            Plan(layout, 100, row_group, stripe, rows_per_read)


@given(st.integers(1, 10**6), st.lists(st.integers(1, 20_000), min_size=1, max_size=20))
@example(65_537, [1, 1, 14])  # two blocks share a task
def test_the_default_plan_bounds_memory_and_keeps_workers_busy(n_samples, block_sizes):
    layout = BlockLayout((0, *np.cumsum(block_sizes).tolist()), 1, 1)
    plan = default_plan(layout, n_samples)
    tasks = list(plan.tile_tasks())
    sides = [[min(plan.tile, layout.size(block)) for block in task.blocks] for task in tasks]
    # Codes in memory, whatever n and d.
    assert max(map(sum, sides)) * plan.rows_per_read <= 2048 * 8192
    assert plan.stripe <= 65_536
    reads = -(-n_samples // plan.rows_per_read)
    assert len(tasks) >= min(3, reads)
    whole = plan.people(TileTask(0, 0, 0, 0))
    widest = max(map(max, sides))
    assert (whole.stop - whole.start) * 2 * widest**2 <= 2 * 10**12 or plan.n_row_groups == reads
