"""A bounded stream of tasks through a Dask cluster."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue

from distributed import CancelledError, Client, Future, KilledWorker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from primo_scale.accumulation.partials import Address, Partials
from primo_scale.accumulation.plan import Order, Task
from primo_scale.accumulation.tasks import naming_worker
from primo_scale.cluster.job_keeper import WAITING
from primo_scale.errors import InterruptedRun, OtherVersion, PrimoError, ResourceError
from primo_scale.interruption import check

LOGGER = logging.getLogger("primo_scale")

# Enough to hide the round trip of a task to the scheduler, and few enough to keep graphs small.
_IN_FLIGHT_PER_THREAD = 8
# Further attempts at a task that fails, for example by a file system that does not answer.
_RETRIES = 3
# Number of times that a task is submitted if its workers die. Dask gives up a submission when more
# workers died than its scheduler allows: after four with the default of three, and after eleven in
# a queue or Kubernetes (`cluster.dask_settings`).
_TRIALS = 3
# Interval between two counts of the workers while tasks run.
_LOOK_SECONDS = 2.0


def run_tasks(
    client: Client,
    function: Callable[[Address, Task], object],
    partials: Partials,
    order: Order,
    on_done: Callable[[Task], None],
) -> None:
    """Run `function(address, task)` for every task, with a bounded number of tasks in flight.

    Workers may be lost and may join at any time. The tasks of a lost worker are run again. If no
    worker is left, the stream logs a warning and waits for new workers.

    The function commits its own result, and its return value is not transferred, so that the death
    of a worker after a commit loses no result. `on_done` is called in this process after each task.
    A task that fails several times, or during which workers repeatedly die, ends the run. So does,
    at its first task, a worker with another version of primo_scale.
    """
    stream = _Stream(client, partial(function, partials.address), partials.store_id, order)
    workers = _WorkerThreads(client)
    try:
        with _scheduler_loss_explained():
            stream.fill(workers.threads)
            while stream.in_flight:
                check()
                workers.look()
                for task in stream.settle():
                    on_done(task)
                stream.fill(workers.threads)
    finally:
        stream.release()


class _Stream:
    """Stream of tasks: ready to submit, held back until others are done, or in flight."""

    def __init__(
        self, client: Client, call: Callable[[Task], object], store_id: str, order: Order
    ) -> None:
        self._client, self._call, self._store_id = client, call, store_id
        self._waiting = deque([*order.first, *order.beside])
        self._awaited, self._held_back = set(order.first), list(order.after)
        self._ended: SimpleQueue[Future] = SimpleQueue()
        self._lost_workers: Counter[Task] = Counter()
        self._failures: Counter[Task] = Counter()
        self.in_flight: dict[str, tuple[Task, Future]] = {}

    def fill(self, threads: int) -> None:
        """Submit the tasks that may start, for the current number of worker threads."""
        if not self._awaited:
            self._waiting.extend(self._held_back)
            self._held_back.clear()
        busy = max(1, threads)
        depth = _depth(busy, len(self._waiting) + len(self._held_back))
        # Tasks are submitted in batches, because a graph of one task costs as much as a large one.
        if len(self.in_flight) > max(busy, depth // 2):
            return
        room = min(len(self._waiting), depth - len(self.in_flight))
        tasks = [self._waiting.popleft() for _ in range(room)]
        if not tasks:
            return
        keys = list(map(self._name, tasks))
        # Dask's own retries would move the tasks of a worker of another version to other workers.
        futures = self._client.map(self._call, tasks, key=keys, retries=0)
        for task, future in zip(tasks, futures, strict=True):
            self.in_flight[future.key] = (task, future)
            future.add_done_callback(self._ended.put)

    def settle(self) -> Iterator[Task]:
        """Yield the tasks that succeeded since the last call, and requeue those that did not."""
        for future in _ended_tasks(self._ended):
            task, _ = self.in_flight[future.key]
            try:
                if future.status in ("error", "cancelled"):
                    future.result()  # raises; that of a success may have been lost with its worker
            except KilledWorker as error:
                self._count_lost_worker(task, error)
                self._waiting.appendleft(task)
            except PrimoError as error:
                self._count_failure(task, error)
                self._waiting.appendleft(task)
            else:
                self._awaited.discard(task)
                yield task
            del self.in_flight[future.key]
            future.release()

    def release(self) -> None:
        """Release the futures of all tasks in flight."""
        for _, future in self.in_flight.values():
            future.release()

    def _count_lost_worker(self, task: Task, error: KilledWorker) -> None:
        self._lost_workers[task] += 1
        if self._lost_workers[task] == _TRIALS:
            raise ResourceError(
                "workers died repeatedly during one task, most likely for lack of memory",
                value=task.key,
                remedy="Give each worker more memory (--memory-limit, or memory of the profile) or "
                "use fewer --workers; the same command continues",
            ) from error

    def _count_failure(self, task: Task, error: PrimoError) -> None:
        self._failures[task] += 1
        error = naming_worker(error)
        if isinstance(error, OtherVersion) or self._failures[task] > _RETRIES:
            raise error from None
        LOGGER.debug("a task failed and is tried again: %s", error)

    def _name(self, task: Task) -> str:
        # Dask blames every task that a dead worker held, so every attempt has a name of its own.
        attempt = self._lost_workers[task] + self._failures[task]
        return f"{task.key}-{self._store_id}-{attempt}"


def _depth(threads: int, waiting: int) -> int:
    """Return the number of tasks to keep in flight.

    Dask assigns a task to a worker at submission, not when a worker is free. The last tasks are
    therefore held back until they can start, so that all workers end within one task of each other.
    """
    return max(threads, min(_IN_FLIGHT_PER_THREAD * threads, waiting // 2))


class _WorkerThreads:
    """Number of threads of all workers, refreshed at intervals; logs whether a run has workers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._missed = self._had_any = False
        self._asked = -math.inf
        self.threads = 0
        self.look()

    def look(self) -> None:
        """Refresh the number of threads, unless it was refreshed less than `_LOOK_SECONDS` ago."""
        now = time.monotonic()
        if now - self._asked < _LOOK_SECONDS:
            return
        self._asked = now
        self.threads = self._client.scheduler_info(n_workers=0).get("total_threads", 0)
        if not self.threads and not self._missed:
            if self._had_any:
                LOGGER.warning("no Dask workers are left: waiting for new workers", extra=WAITING)
            else:
                LOGGER.info("waiting for the first Dask worker", extra=WAITING)
        if self.threads and self._missed:
            again = "again: the run continues" if self._had_any else "now: the run begins"
            LOGGER.info("Dask workers are connected %s", again)
        self._missed = not self.threads
        self._had_any = self._had_any or not self._missed


def _ended_tasks(ended: SimpleQueue[Future]) -> Iterator[Future]:
    """Yield all ended tasks; if there are none, wait up to `_LOOK_SECONDS` for the next one."""
    try:
        yield ended.get(timeout=_LOOK_SECONDS)
        while True:
            yield ended.get_nowait()
    except Empty:
        return


@contextmanager
def _scheduler_loss_explained() -> Iterator[None]:
    try:
        yield
    except (CancelledError, CommClosedError, ClosedClientError) as error:
        # The error is reported in one line; the closing client must not log it with tracebacks.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        raise InterruptedRun(
            "the connection to the Dask scheduler was lost",
            remedy="Start the scheduler again; committed sums are kept",
        ) from error
