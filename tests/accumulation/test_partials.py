"""Checkpoint: committed tasks, damaged chunks, replaced stores, and workers that do not fit."""

import errno
import os
import pickle
import re
import shutil
import socket

import numpy as np
import pytest
from support.partials import commit_zeros, partials_below
from support.stores import flip_a_bit

from primo_scale.accumulation import statistics, tasks
from primo_scale.accumulation.partials import KIND, Partials
from primo_scale.accumulation.plan import Plan, RowTask, TileTask
from primo_scale.accumulation.statistics import Reduction, accumulate, remove_partials
from primo_scale.accumulation.tasks import run_task
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage import groups
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.groups import chunk_path, is_complete
from primo_scale.storage.stores import DiskStore
from primo_scale.version import __version__

LAYOUT = BlockLayout((0, 5, 8), 1, 1)
PLAN = Plan(LAYOUT, 20, row_group=8, stripe=16, rows_per_read=8, tile=3)


def store(path, subsample=None):
    return partials_below(path, PLAN, np.ones((8, 4), np.int8), subsample=subsample)


def every_task():
    return [*PLAN.row_tasks(), *PLAN.tile_tasks()]


def test_only_complete_tasks_count_as_committed(tmp_path):
    partials, tasks = store(tmp_path), every_task()
    assert partials.committed() == set()
    for number, task in enumerate(tasks):
        assert not partials.is_committed(task)
        commit_zeros(partials, task)
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
        commit_zeros(partials, task)


@pytest.mark.parametrize("harm", ["truncated", "flipped", "emptied"])
def test_only_damaged_chunks_are_dropped(harm, tmp_path):
    partials, tasks = store(tmp_path), every_task()
    for task in tasks:
        commit_zeros(partials, task)
    assert partials.drop_damaged() == 0
    hit = TileTask(0, 0, 0, 1)
    chunk = chunk_path(partials.array("gram/0"), (0, 0, 1))
    if harm == "flipped":
        flip_a_bit(chunk)
    else:
        os.truncate(chunk, 9 if harm == "truncated" else 0)
    assert partials.committed() == set(tasks)  # only the existence of chunks is checked
    assert partials.drop_damaged() == 1
    assert partials.committed() == set(tasks) - {hit}


def test_a_late_commit_to_a_replaced_store_is_ignored(tmp_path):
    """A worker that outlives its client still has arrays open and commits to them."""
    made = store(tmp_path)
    late = Partials(made.path, made.store_id, made.kernel)
    task = TileTask(0, 1, 0, 0)
    commit_zeros(late, TileTask(0, 0, 0, 0))
    assert late.array("gram/1") is not None and late.array("cross/1") is not None
    shutil.rmtree(late.path)
    partials = store(tmp_path, subsample=4)
    commit_zeros(late, task)
    assert partials.committed() == set()
    assert not partials.is_committed(task)


def test_a_late_worker_refuses_the_plan_of_a_replaced_store(tmp_path):
    made = store(tmp_path)
    late = Partials(made.path, made.store_id, made.kernel)
    shutil.rmtree(late.path)
    store(tmp_path, subsample=4)
    with pytest.raises(InputError, match="the store of partial sums was replaced"):
        _ = late.plan


def test_repeated_damage_ends_the_run(tmp_path, monkeypatch):
    partials, rounds = store(tmp_path), []

    def torn(executor, partials, reduce, on_progress):
        rounds.append(1)
        commit_zeros(partials, RowTask(0))
        chunk_path(partials.array("outcome_gram"), (0, 0, 0)).write_bytes(b"torn")
        raise DamagedChunk("a stored chunk is damaged")

    monkeypatch.setattr(statistics, "_run_remaining", torn)
    with pytest.raises(InputError, match="damaged repeatedly"):
        accumulate(None, partials, tmp_path / "s", lambda done, total: None)
    assert len(rounds) == statistics._ROUNDS


def test_committed_tasks_are_reduced_and_tiles_wait_for_rows(tmp_path, monkeypatch):
    partials, reduced, runs, progress = store(tmp_path), [], [], []
    committed = [RowTask(1), TileTask(0, 0, 0, 0)]
    for task in committed:
        commit_zeros(partials, task)
    monkeypatch.setattr(Reduction, "add", lambda _, task: reduced.append(task))
    monkeypatch.setattr(Reduction, "finish", lambda _: None)

    def run(partials, tasks, on_done):
        runs.append(tasks)
        for task in tasks:
            on_done(task)

    accumulate(run, partials, tmp_path / "s", lambda *amounts: progress.append(amounts))
    rows, tiles = runs
    assert rows == [RowTask(0)]
    assert set(reduced[:2]) == set(committed)
    assert reduced[2:] == [*rows, *tiles]
    assert {*reduced} == {*every_task()}
    assert progress[0][0] == 2
    assert progress[-1][0] == progress[-1][1]


def test_a_new_store_is_flushed_before_it_is_complete(tmp_path, monkeypatch):
    """After a loss of power, a complete store without its subsample could sum everybody."""
    complete = []
    path = tmp_path / "partials.zarr"
    monkeypatch.setattr(groups, "flush", lambda _: complete.append(is_complete(path, KIND)))
    store(tmp_path, subsample=4)
    assert complete == [False]


def test_a_subsample_list_that_cannot_be_deleted_is_an_error(tmp_path, monkeypatch):
    path = store(tmp_path, subsample=4).path

    def refuse(*_):
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(DiskStore, "remove_below", refuse)
        with pytest.raises(InputError, match=r"secret list .* cannot be deleted: Permission"):
            remove_partials(path)
    remove_partials(path)
    assert not path.exists()


def test_a_worker_of_another_version_computes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    partials = store(tmp_path)
    assert partials.address[-1] == __version__
    monkeypatch.setattr(tasks, "__version__", "0.2.9")
    with pytest.raises(InputError, match=r"worker node7\. Install primo_scale") as refused:
        run_task(partials.address, RowTask(0))
    assert not partials.is_committed(RowTask(0))
    again = pickle.loads(pickle.dumps(refused.value))
    assert (type(again), str(again)) == (InputError, str(refused.value))


def test_a_worker_that_does_not_see_the_files_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    partials = store(tmp_path)
    partials.path.rename(tmp_path / "not mounted")
    words = f"{partials.path}: holds no partial statistics store on worker node7."
    with pytest.raises(InputError, match=re.escape(words)):
        run_task(partials.address, RowTask(0))
