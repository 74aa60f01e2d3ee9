"""Stream of tasks on a fake cluster of futures, without processes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue

import pytest
from distributed import CancelledError, KilledWorker

from primo_scale.accumulation import engine
from primo_scale.accumulation.engine import run_tasks
from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import Order, RowTask, TileTask
from primo_scale.errors import InputError, InterruptedRun, OnWorker, OtherVersion, ResourceError

PARTIALS = Partials(Path("/nowhere"), "store")


@dataclass
class FakeFuture:
    key: str
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
    """Cluster that ends tasks at once; `fate` lists the errors of successive runs of a key."""

    fate: dict[str, list[Exception]] = field(default_factory=dict)
    workers: list[int] = field(default_factory=lambda: [2])
    batches: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    most_held: int = 0
    asked: int = 0
    waiting: list = field(default_factory=list)

    def map(self, call, tasks, *, key, retries) -> list[FakeFuture]:
        assert retries == 0, "Dask would try the task of another version elsewhere"
        assert call.func is print and call.args == (PARTIALS.address,)
        self.batches.append(len(tasks))
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
        turns = self.fate.get(future.key.partition("-store")[0], [])
        future.error = turns.pop(0) if turns else None
        future.status = "error" if future.error else "finished"
        ended(future)

    def count(self) -> int:
        return self.workers[min(self.asked - 1, len(self.workers) - 1)]

    def scheduler_info(self, n_workers) -> dict[str, int]:
        assert n_workers == 0, "the state of every worker was fetched"
        self.asked += 1
        if self.count():
            for future, ended in self.waiting:
                self.end(future, ended)
            self.waiting.clear()
        return {"total_threads": self.count()}


def stream(cluster: FakeCluster, n_tasks: int) -> list[RowTask]:
    done: list[RowTask] = []
    run_tasks(cluster, print, PARTIALS, Order([RowTask(i) for i in range(n_tasks)]), done.append)
    return done


def killed(times: int) -> list[Exception]:
    return [KilledWorker("key", None, 3) for _ in range(times)]


@pytest.mark.slow
def test_fifty_thousand_tasks_run_in_batches_with_few_in_flight() -> None:
    cluster = FakeCluster()
    done = stream(cluster, 50_000)
    assert sorted(done) == [RowTask(i) for i in range(50_000)]
    assert cluster.most_held <= 8 * 2
    assert len(cluster.batches) <= 50_000 / 7
    assert not cluster.held
    assert len(cluster.keys) == len(set(cluster.keys)) == 50_000
    assert cluster.keys[0] == "rows-0-store-0"
    assert cluster.asked < 500  # workers are counted at intervals, not for every task


def test_a_task_of_dead_workers_is_retried_under_new_names_then_fails() -> None:
    lucky = FakeCluster({"rows-3": killed(engine._TRIALS - 1)})
    assert len(stream(lucky, 9)) == 9
    assert [key for key in lucky.keys if key.startswith("rows-3-")] == [
        "rows-3-store-0", "rows-3-store-1", "rows-3-store-2",
    ]  # fmt: skip
    unlucky = FakeCluster({"rows-3": killed(engine._TRIALS)})
    with pytest.raises(ResourceError, match="workers died repeatedly") as raised:
        stream(unlucky, 9)
    assert raised.value.value == "rows-3"
    assert "memory of the profile" in str(raised.value)  # a job queue has no --memory-limit
    assert not unlucky.held


def failed(times: int) -> list[InputError]:
    return [InputError("damaged") for _ in range(times)]


def test_a_task_that_fails_is_tried_again_under_new_names() -> None:
    cluster = FakeCluster({"rows-3": [*failed(2), *killed(1), *failed(1)]})
    assert len(stream(cluster, 9)) == 9
    assert [key for key in cluster.keys if key.startswith("rows-3-")] == [
        f"rows-3-store-{attempt}" for attempt in range(5)
    ]


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        ([CancelledError("lost")], InterruptedRun),
        (failed(1 + engine._RETRIES), InputError),
        ([OtherVersion("0.2.9 there")], OtherVersion),
    ],
)
def test_other_failures_end_the_run_and_release_all_futures(fate, error) -> None:
    cluster = FakeCluster({"rows-2": fate})
    with pytest.raises(error):
        stream(cluster, 100)
    assert not cluster.held
    assert len(cluster.keys) < 100


def test_a_failure_names_the_host_of_the_worker() -> None:
    for error in (errors := failed(1 + engine._RETRIES)):
        error.on_worker = OnWorker("node7", lacks_path=False)
    with pytest.raises(InputError, match="damaged on worker node7"):
        stream(FakeCluster({"rows-2": errors}), 9)


@pytest.mark.parametrize(
    ("workers", "lines"),
    [
        ([2, 0, 0, 0, 2], ["no Dask workers are left", "Dask workers are connected again"]),
        ([0, 0, 2], ["waiting for the first Dask worker", "Dask workers are connected now"]),
    ],
)
def test_without_workers_the_stream_waits_and_says_so_once(workers, lines, monkeypatch) -> None:
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    monkeypatch.setattr(engine, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(engine.LOGGER, "handlers", [QueueHandler(records)])
    monkeypatch.setattr(engine.LOGGER, "isEnabledFor", lambda level: level >= logging.INFO)
    assert len(stream(FakeCluster(workers=workers), 40)) == 40
    logged = [records.get_nowait() for _ in range(records.qsize())]
    assert [record.getMessage().split(":")[0] for record in logged] == lines
    assert [getattr(record, "event", None) for record in logged] == ["waiting", None]


@pytest.mark.parametrize("n_tasks", [1, 2, 3, 5, 17, 40])
def test_the_last_tasks_wait_until_a_worker_is_free(n_tasks: int) -> None:
    """No worker has a task in reserve while another worker is idle."""
    cluster = FakeCluster(workers=[4])
    held: list[int] = []
    done: list[RowTask] = []

    def note(task) -> None:
        done.append(task)
        held.append(len(cluster.held))

    run_tasks(cluster, print, PARTIALS, Order([RowTask(i) for i in range(n_tasks)]), note)
    assert len(done) == n_tasks
    left = [n_tasks - number for number in range(1, n_tasks + 1)]
    for in_flight, remain in zip(held, left, strict=True):
        # The task that has just ended counts as held until it is released.
        assert in_flight - 1 <= max(4, (remain + 1) // 2)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 100])
def test_diagonal_tiles_start_when_all_rows_are_done(n_rows: int) -> None:
    rows = [RowTask(i) for i in range(n_rows)]
    free = [TileTask(0, 0, 0, i) for i in range(1, 4)]
    bound = [TileTask(0, 0, i, i) for i in range(30)]
    # Workers die twice during one row task, which therefore ends last.
    cluster = FakeCluster({"rows-0": killed(2)})
    done: list[object] = []
    started_before: dict[object, int] = {}

    def note(task) -> None:
        done.append(task)
        started_before[task] = len(cluster.keys)

    run_tasks(cluster, print, PARTIALS, Order(rows, free, bound), note)
    assert sorted(map(str, done)) == sorted(map(str, [*rows, *free, *bound]))
    first_bound = min(cluster.keys.index(f"{task.key}-store-0") for task in bound)
    assert all(first_bound >= started_before[row] for row in rows)
    if rows:
        assert all(cluster.keys.index(f"{task.key}-store-0") < first_bound for task in free)
        assert cluster.keys[0] == "rows-0-store-0"
