"""Executors: threads, and Dask as a fake cluster of futures without processes."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue

import pytest
from distributed import CancelledError, KilledWorker

from primo_scale.accumulation import executors
from primo_scale.accumulation.executors import run_on_dask, run_on_threads
from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import RowTask, TileTask
from primo_scale.errors import InputError, InterruptedRun, ResourceError

PARTIALS = Partials(Path("/nowhere"), "store")


@dataclass
class FakeFuture:
    key: tuple[str, str]
    cluster: FakeCluster
    status: str = "pending"
    error: Exception | None = None

    def add_done_callback(self, ended) -> None:
        self.cluster.begun(self, ended)

    def result(self) -> object:
        assert self.error is not None, "the result of a successful task was fetched"
        raise self.error

    def release(self) -> None:
        self.cluster.held.discard(self.key)


@dataclass
class FakeCluster:
    """Cluster that ends tasks at once; `fate` has the error of a task."""

    fate: dict[str, Exception] = field(default_factory=dict)
    workers: list[int] = field(default_factory=lambda: [2])
    keys: list[tuple[str, str]] = field(default_factory=list)
    held: set[tuple[str, str]] = field(default_factory=set)
    most_held: int = 0
    asked: int = 0
    waiting: list = field(default_factory=list)

    def map(self, call, tasks, *, key, retries) -> list[FakeFuture]:
        assert retries == 3
        assert call.args == (PARTIALS.address,)
        self.keys += key
        self.held |= set(key)
        self.most_held = max(self.most_held, len(self.held))
        return [FakeFuture(name, self) for name in key]

    def begun(self, future, ended) -> None:
        if self.count():
            self.end(future, ended)
        else:
            self.waiting.append((future, ended))

    def end(self, future, ended) -> None:
        future.error = self.fate.get(future.key[1])
        future.status = "error" if future.error else "finished"
        ended(future)

    def count(self) -> int:
        return self.workers[max(0, min(self.asked - 1, len(self.workers) - 1))]

    def scheduler_info(self, n_workers) -> dict[str, int]:
        assert n_workers == 0, "the state of every worker was fetched"
        self.asked += 1
        if self.count():
            for future, ended in self.waiting:
                self.end(future, ended)
            self.waiting.clear()
        return {"total_threads": self.count()}


def run(cluster: FakeCluster, n_tasks: int) -> list[RowTask]:
    done: list[RowTask] = []
    run_on_dask(cluster, PARTIALS, [RowTask(i) for i in range(n_tasks)], done.append)
    return done


def test_fifty_thousand_tasks_run_with_a_bounded_number_in_flight() -> None:
    cluster = FakeCluster()
    assert sorted(run(cluster, 50_000)) == [RowTask(i) for i in range(50_000)]
    assert cluster.most_held <= 1000
    assert not cluster.held
    assert len(set(cluster.keys)) == 50_000
    assert cluster.keys[0] == ("sums-store", "rows-0")
    assert cluster.asked < 500  # workers are counted at intervals, not for every task


@pytest.mark.parametrize(
    ("fate", "error", "words"),
    [
        (KilledWorker("key", None, 3), ResourceError, "workers died repeatedly"),
        (CancelledError("lost"), InterruptedRun, "connection to the Dask scheduler was lost"),
        (InputError("damaged on worker node7"), InputError, "damaged on worker node7"),
    ],
)
def test_failures_end_the_run_and_release_all_futures(fate, error, words) -> None:
    cluster = FakeCluster({"rows-2": fate})
    with pytest.raises(error, match=words):
        run(cluster, 100)
    assert not cluster.held


@pytest.mark.parametrize("workers", [[2, 0, 0, 0, 2], [0, 0, 2]])
def test_without_workers_a_run_waits_and_says_so_once(workers, monkeypatch) -> None:
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    monkeypatch.setattr(executors, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(executors, "_IN_FLIGHT", 8)
    monkeypatch.setattr(executors.LOGGER, "handlers", [QueueHandler(records)])
    monkeypatch.setattr(executors.LOGGER, "isEnabledFor", lambda level: level >= logging.INFO)
    assert len(run(FakeCluster(workers=workers), 40)) == 40
    logged = [records.get_nowait() for _ in range(records.qsize())]
    lines = ["no Dask workers", "Dask workers are connected"]
    assert [record.getMessage().split(":")[0] for record in logged] == lines
    assert [getattr(record, "event", None) for record in logged] == ["waiting", None]


class Work:
    def __init__(self, seconds, fails=None) -> None:
        self.began, self.ended, self.stopped = [], [], []
        self.running = self.most_running = 0
        self._seconds, self._fails, self._lock = seconds, fails, threading.Lock()

    def __call__(self, partials, task, check) -> None:
        with self._lock:
            self.began.append(task)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        try:
            end = time.monotonic() + self._seconds(task)
            while time.monotonic() < end:
                check()
                time.sleep(0.001)
            if task == self._fails:
                raise InputError("is damaged", where="genotypes.zarr")
            self.ended.append(task)
        except InterruptedRun:
            self.stopped.append(task)
            raise
        finally:
            with self._lock:
                self.running -= 1


TILES = [TileTask(0, 0, i, i) for i in range(50)]


@pytest.fixture
def compute(monkeypatch):
    def use(work: Work) -> Work:
        monkeypatch.setattr(executors, "compute_task", work)
        return work

    return use


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_task_runs_once_and_at_most_one_per_thread_at_a_time(compute, threads):
    work, done = compute(Work(lambda task: 0.002)), []
    run_on_threads(threads, None, TILES, done.append)
    assert sorted(done) == TILES
    assert sorted(work.began) == TILES
    assert 1 <= work.most_running <= threads


def test_a_failed_task_ends_the_run_and_stops_the_others_at_their_next_read(compute):
    def fails_when_another_runs(task) -> float:
        while task == TILES[0] and len(work.began) < 2:
            time.sleep(0.001)
        return 0 if task == TILES[0] else 3600

    work, done = compute(Work(fails_when_another_runs, fails=TILES[0])), []
    with pytest.raises(InputError, match="is damaged"):
        run_on_threads(2, None, TILES, done.append)
    assert (done, work.ended, work.running) == ([], [], 0)
    assert work.began == TILES[:2] and work.stopped == [TILES[1]]


def test_a_signal_stops_the_tasks(compute, monkeypatch):
    work = compute(Work(lambda task: 3600))

    def came() -> None:
        if work.began:
            raise InterruptedRun("interrupted")

    monkeypatch.setattr(executors.interruption, "check", came)
    with pytest.raises(InterruptedRun):
        run_on_threads(2, None, TILES, lambda task: None)
    assert (work.ended, work.running) == ([], 0)


def test_an_error_of_the_caller_stops_the_tasks(compute):
    work = compute(Work(lambda task: 0 if task == TILES[0] else 3600))

    def fail(task) -> None:
        raise InputError("the disk is full")

    with pytest.raises(InputError, match="disk is full"):
        run_on_threads(2, None, TILES, fail)
    assert (work.ended, work.running) == ([TILES[0]], 0)
    assert len(work.began) <= 3
