"""Checkpoint: committed tasks, damaged chunks, and commits to replaced stores."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from genotype_headers import write_header

from primo_scale.accumulation import summation as run
from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.partials import Inputs, Partials
from primo_scale.accumulation.plan import Plan, RowTask, TileTask, default_plan
from primo_scale.accumulation.summation import accumulate
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.chunks import chunk_path

LAYOUT = BlockLayout((0, 5, 8), 1, 1)
PLAN = Plan(LAYOUT, 20, row_group=8, stripe=16, rows_per_read=8, tile=3)


def store(path, subsample=None):
    genotypes = write_header(path / "g", "of g")
    digests = {"genotypes": "of g", "outcomes": "x"}
    inputs = Inputs(genotypes, path / "o", None, subsample, digests)
    return open_partials(path / "partials.zarr", PLAN, inputs, np.ones((8, 4), np.int8))


def commit(partials, task):
    """Commit zeros as a worker commits its results."""
    plan, q = partials.plan, partials.plan.layout.n_outcomes
    if isinstance(task, RowTask):
        for samples in plan.reads(task):
            people = samples.stop - samples.start
            partials.commit_read(
                samples, np.zeros((people, 1), np.int64), np.zeros((2 * q, people), np.int8)
            )
        partials.commit_rows(task, np.zeros((q, q), np.int64))
        return
    rows, columns = (plan.inside(task.block, tile) for tile in (task.row_tile, task.column_tile))
    height, width = rows.stop - rows.start, columns.stop - columns.start
    if task.row_tile == task.column_tile:
        partials.commit_cross(task, np.zeros((height, q), np.int64))
    partials.commit_tile(task, np.zeros((height, width), np.int32))


def every_task():
    return [*PLAN.row_tasks(), *PLAN.tile_tasks()]


def test_only_complete_tasks_count_as_committed(tmp_path):
    partials, tasks = store(tmp_path), every_task()
    assert partials.committed() == set()
    for number, task in enumerate(tasks):
        assert not partials.is_committed(task)
        commit(partials, task)
        assert partials.is_committed(task)
        assert store(tmp_path).committed() == set(tasks[: number + 1])
    for name, task in [
        ("row_multipliers", RowTask(1)), ("outcome_planes", RowTask(1)),
        ("outcome_gram", RowTask(1)), ("cross/1", TileTask(2, 1, 0, 0)),
        ("gram/1", TileTask(2, 1, 0, 0)),
    ]:  # fmt: skip
        index = dict(partials._results(task))[name]
        chunk_path(partials.array(name), index).unlink()
        assert partials.committed() == set(tasks) - {task}
        assert not partials.is_committed(task)
        commit(partials, task)


@pytest.mark.parametrize("harm", ["truncated", "flipped", "emptied"])
def test_only_damaged_chunks_are_dropped(harm, tmp_path):
    partials, tasks = store(tmp_path), every_task()
    for task in tasks:
        commit(partials, task)
    assert partials.drop_damaged() == 0
    hit = TileTask(0, 0, 0, 1)
    chunk = chunk_path(partials.array("gram/0"), (0, 0, 1))
    content = bytearray(chunk.read_bytes())
    content[7] ^= 16
    chunk.write_bytes({"truncated": content[:9], "flipped": content, "emptied": b""}[harm])
    assert partials.committed() == set(tasks)  # only the existence of chunks is checked
    assert partials.drop_damaged() == 1
    assert partials.committed() == set(tasks) - {hit}


def test_a_late_commit_to_a_replaced_store_is_ignored(tmp_path):
    """A worker that outlives its client still has arrays open and commits to them."""
    late = store(tmp_path)
    task = TileTask(0, 1, 0, 0)
    commit(late, TileTask(0, 0, 0, 0))
    assert late.array("gram/1") is not None and late.array("cross/1") is not None
    shutil.rmtree(late.path)
    partials = store(tmp_path, subsample=4)
    commit(late, task)
    assert partials.committed() == set()
    assert not partials.is_committed(task)


def test_a_late_worker_refuses_the_plan_of_a_replaced_store(tmp_path):
    late = Partials(*store(tmp_path).address)
    shutil.rmtree(late.path)
    store(tmp_path, subsample=4)
    with pytest.raises(InputError, match="the store of partial sums was replaced"):
        _ = late.plan


def test_repeated_damage_ends_the_run(tmp_path, monkeypatch):
    partials, rounds = store(tmp_path), []

    def torn(client, partials, reduction, on_progress):
        rounds.append(1)
        commit(partials, RowTask(0))
        chunk_path(partials.array("outcome_gram"), (0, 0, 0)).write_bytes(b"torn")
        raise DamagedChunk("a stored chunk is damaged")

    monkeypatch.setattr(run, "_run_remaining", torn)
    with pytest.raises(InputError, match="damaged repeatedly"):
        accumulate(None, partials, tmp_path / "s", lambda done, total: None)
    assert len(rounds) == run._ROUNDS


def test_damage_of_another_store_is_raised_unchanged(tmp_path, monkeypatch):
    def damaged_genotypes(*_):
        raise DamagedChunk("a stored chunk is damaged", where="genotypes.zarr")

    monkeypatch.setattr(run, "_run_remaining", damaged_genotypes)
    with pytest.raises(DamagedChunk, match=r"genotypes\.zarr"):
        accumulate(None, store(tmp_path), tmp_path / "s", lambda done, total: None)


@pytest.mark.parametrize("n_samples", [5_000, 500_000, 2_000_000])
@pytest.mark.parametrize("block", [50, 2_000, 100_000])
def test_tasks_of_a_default_plan_are_short(n_samples, block):
    """A lost task costs at most a minute at 34 G operations per second."""
    n_blocks = max(1, 200_000 // block)
    layout = BlockLayout(tuple(range(0, n_blocks * block + 1, block)), 10, 50)
    plan = default_plan(layout, n_samples)
    side = min(plan.tile, block)
    planes = 2 * layout.n_outcomes + 1
    multiplied = 2 * side * (side + planes) * min(plan.row_group, n_samples)
    assert multiplied <= 2e12
