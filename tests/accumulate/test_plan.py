"""The plan covers every entry of every statistic exactly once, without a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.accumulate.plan import Plan, default_plan, plan_digest, remaining
from primo_scale.errors import UsageError
from primo_scale.storage.block_matrices import BlockLayout

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=5)


def plan_of(block_sizes, n_samples=50, tile=7):
    boundaries = (0, *np.cumsum(block_sizes).tolist())
    layout = BlockLayout(boundaries, n_fixed=1, n_phenotypes=2)
    return Plan(layout, n_samples, row_group=16, rows_per_read=8, tile=tile)


@given(sizes, st.integers(1, 100), st.integers(1, 40))
def test_tiles_cover_the_upper_triangle_of_each_block_once_for_each_person(
    block_sizes, n_samples, tile
):
    plan = plan_of(block_sizes, n_samples, tile)
    for block, size in enumerate(block_sizes):
        people = np.zeros((size, size), dtype=int)
        for task in plan.tile_tasks():
            if task.block == block:
                rows = plan.inside(block, task.row_tile)
                columns = plan.inside(block, task.column_tile)
                samples = plan.samples(task.row_group)
                people[rows, columns] += samples.stop - samples.start
        np.testing.assert_array_equal(np.triu(people), np.triu(np.full_like(people, n_samples)))


@given(st.integers(1, 200))
def test_reads_cover_each_person_once(n_samples):
    plan = plan_of([5], n_samples)
    people = [
        i
        for task in plan.row_tasks()
        for read in plan.reads(task.row_group)
        for i in range(read.start, read.stop)
    ]
    assert people == list(range(n_samples))


def test_remaining_is_what_is_not_committed():
    plan = plan_of([20, 3])
    tasks = list(plan.tile_tasks())
    assert remaining(plan.tile_tasks(), set(tasks[::2])) == tasks[1::2]
    assert remaining(plan.tile_tasks(), set(tasks)) == []


def test_the_digest_depends_on_inputs_and_on_the_cut():
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
    with pytest.raises(UsageError):
        Plan(layout, 100, row_group=12, rows_per_read=8)
    with pytest.raises(UsageError):
        Plan(layout, 100, row_group=6, rows_per_read=6)


@given(st.integers(1, 10**6))
def test_the_default_plan_has_bounded_row_groups(n_samples):
    plan = default_plan(BlockLayout((0, 4), 1, 1), n_samples)
    assert plan.row_group <= 65_536
    assert plan.n_row_groups <= max(16, n_samples // 65_536 + 1)
