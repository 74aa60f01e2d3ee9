"""Tasks on threads: order, concurrency, failures and interruptions."""

import threading
import time

import pytest

from primo_scale.accumulation import thread_stream
from primo_scale.accumulation.plan import Order, RowTask, TileTask
from primo_scale.accumulation.thread_stream import run_on_threads
from primo_scale.errors import InputError, InterruptedRun


class Work:
    """Replacement of `compute_task` that records the order of tasks."""

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


@pytest.fixture
def compute(monkeypatch):
    def use(work: Work) -> Work:
        monkeypatch.setattr(thread_stream, "compute_task", work)
        return work

    return use


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_task_runs_once_and_at_most_one_per_thread_at_a_time(compute, threads):
    rows_ended, done = [], []

    def seconds(task) -> float:
        if task in bound:
            rows_ended.append(sum(isinstance(each, RowTask) for each in work.ended))
        return 0.002

    work = compute(Work(seconds))
    rows = [RowTask(i) for i in range(7)]
    free = [TileTask(0, 0, 0, i) for i in range(1, 6)]
    bound = [TileTask(0, 0, i, i) for i in range(20)]
    run_on_threads(None, Order(rows, free, bound), done.append, threads=threads)
    assert sorted(map(str, done)) == sorted(map(str, [*rows, *free, *bound]))
    assert sorted(map(str, work.began)) == sorted(map(str, done))
    assert 1 <= work.most_running <= threads
    assert rows_ended == [len(rows)] * len(bound), "tiles that need rows begin after all rows"


TILES = [TileTask(0, 0, i, i) for i in range(50)]


def test_a_failed_task_ends_the_run_and_stops_the_others_at_their_next_read(compute):
    def fails_when_another_runs(task) -> float:
        while task == TILES[0] and len(work.began) < 2:
            time.sleep(0.001)
        return 0 if task == TILES[0] else 3600

    work, done = compute(Work(fails_when_another_runs, fails=TILES[0])), []
    with pytest.raises(InputError, match="is damaged"):
        run_on_threads(None, Order([], TILES, []), done.append, threads=2)
    assert (done, work.ended, work.running) == ([], [], 0)
    assert work.began == TILES[:2] and work.stopped == [TILES[1]]


def test_a_signal_stops_the_tasks(compute, monkeypatch):
    work = compute(Work(lambda task: 3600))

    def came() -> None:
        if work.began:
            raise InterruptedRun("interrupted")

    monkeypatch.setattr(thread_stream.interruption, "check", came)
    with pytest.raises(InterruptedRun):
        run_on_threads(None, Order([], TILES, []), lambda task: None, threads=2)
    assert (work.ended, work.running) == ([], 0)


def test_an_error_of_the_caller_stops_the_tasks(compute):
    work = compute(Work(lambda task: 0 if task == TILES[0] else 3600))

    def fail(task) -> None:
        raise InputError("the disk is full")

    with pytest.raises(InputError, match="disk is full"):
        run_on_threads(None, Order([], TILES, []), fail, threads=2)
    assert (work.ended, work.running) == ([TILES[0]], 0)
    assert len(work.began) <= 3
