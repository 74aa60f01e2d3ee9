"""A bounded stream of tasks through a Dask cluster."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue

from distributed import CancelledError, Client, Future, KilledWorker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from primo_scale.accumulate.partials import Address, Partials
from primo_scale.accumulate.plan import Order, Task
from primo_scale.errors import InterruptedRun, ResourceError
from primo_scale.interruption import check

LOGGER = logging.getLogger("primo_scale")

# Enough to hide a task's round trip to the scheduler; few enough that no graph ever grows large.
_IN_FLIGHT_PER_THREAD = 8
_RETRIES = 3
# How often a task is submitted that workers die over. Dask gives it up each time once more of them
# died than its scheduler allows: with its default of three after four, in a queue or Kubernetes
# after eleven (`cluster.dask_settings`).
_TRIALS = 3
# How often workers are counted while tasks run.
_LOOK_SECONDS = 2.0


def run_tasks(
    client: Client,
    function: Callable[[Address, Task], object],
    partials: Partials,
    order: Order,
    on_done: Callable[[Task], None],
) -> None:
    """Run `function(address, task)` for every task, a bounded number at a time.

    Workers may come and go, and all of them at once: what they were at is run again, and where
    there are none the stream waits and says so.

    Parameters
    ----------
    client
        A connected client.
    function
        Importable on the workers; commits its result itself. What it returns stays there: a worker
        that dies after it committed takes nothing with it.
    partials
        The store of partial sums, at a place that the workers see.
    order
        Which tasks, and what they wait for.
    on_done
        Called in this process after each task.

    Raises
    ------
    ResourceError
        Workers died again and again over one task.
    InterruptedRun
        The scheduler went away, or a signal asked to stop; what was committed stays.
    PrimoError
        Of a task, after some retries.
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
    """Tasks on their way: those that wait, those that may not begin yet, those in flight."""

    def __init__(
        self, client: Client, call: Callable[[Task], object], store_id: str, order: Order
    ) -> None:
        self._client, self._call, self._store_id = client, call, store_id
        self._waiting = deque(self._named([*order.first, *order.beside]))
        self._awaited, self._held_back = set(order.first), self._named(order.after)
        self._ended: SimpleQueue[Future] = SimpleQueue()
        self._murders: Counter[Task] = Counter()
        self.in_flight: dict[str, tuple[Task, Future]] = {}

    def fill(self, threads: int) -> None:
        """Submit what may begin, for so many threads: workers come and go."""
        if not self._awaited:
            self._waiting.extend(self._held_back)
            self._held_back.clear()
        busy = max(1, threads)
        depth = _depth(busy, len(self._waiting) + len(self._held_back))
        # A batch at a time: a graph of one task costs as much as a graph of many.
        if len(self.in_flight) > max(busy, depth // 2):
            return
        room = min(len(self._waiting), depth - len(self.in_flight))
        batch = [self._waiting.popleft() for _ in range(room)]
        if not batch:
            return
        tasks, keys = [task for task, _ in batch], [key for _, key in batch]
        futures = self._client.map(self._call, tasks, key=keys, retries=_RETRIES)
        for (task, key), future in zip(batch, futures, strict=True):
            self.in_flight[key] = (task, future)
            future.add_done_callback(self._ended.put)

    def settle(self) -> Iterator[Task]:
        """Tasks that ended well since; those that workers died over wait again."""
        for future in _those_that_ended(self._ended):
            task, _ = self.in_flight[future.key]
            try:
                _raise_failure(future)
            except KilledWorker as error:
                self._begin_again(task, error)
            else:
                self._awaited.discard(task)
                yield task
            del self.in_flight[future.key]
            future.release()

    def release(self) -> None:
        """Let the cluster forget what is in flight."""
        for _, future in self.in_flight.values():
            future.release()

    def _begin_again(self, task: Task, error: KilledWorker) -> None:
        self._murders[task] += 1
        if self._murders[task] == _TRIALS:
            raise _murderous(task) from error
        # Dask suspects whatever a dead worker had in hand. Another name, for it knows this one.
        name = f"{task.key}-{self._store_id}-{self._murders[task]}"
        self._waiting.appendleft((task, name))

    def _named(self, tasks: Sequence[Task]) -> list[tuple[Task, str]]:
        return [(task, f"{task.key}-{self._store_id}") for task in tasks]


def _depth(threads: int, waiting: int) -> int:
    """How many tasks to have in flight.

    Dask gives a task to a worker when it is submitted, not when one is free. So the last ones are
    held back until one can begin: all workers then end within one task of each other.
    """
    return max(threads, min(_IN_FLIGHT_PER_THREAD * threads, waiting // 2))


class _WorkerThreads:
    """Threads of all workers, asked for now and then; says once when there are none left."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._missed = False
        self._asked = -math.inf
        self.threads = 0
        self.look()

    def look(self) -> None:
        """Ask, unless it was asked a moment ago."""
        now = time.monotonic()
        if now - self._asked < _LOOK_SECONDS:
            return
        self._asked = now
        self.threads = self._client.scheduler_info(n_workers=0).get("total_threads", 0)
        if not self.threads and not self._missed:
            LOGGER.warning("no Dask workers are left: waiting for others to connect")
        if self.threads and self._missed:
            LOGGER.info("there are Dask workers again: going on")
        self._missed = not self.threads


def _those_that_ended(ended: SimpleQueue[Future]) -> Iterator[Future]:
    """All tasks that ended by now; where there are none, the next to end within a while."""
    try:
        yield ended.get(timeout=_LOOK_SECONDS)
        while True:
            yield ended.get_nowait()
    except Empty:
        return


def _raise_failure(future: Future) -> None:
    """Raise what a task ended with, unless it ended well.

    Its result is not asked for, and may have died with a worker since.
    """
    if future.status in ("error", "cancelled"):
        future.result()


def _murderous(task: Task) -> ResourceError:
    return ResourceError(
        "workers died again and again over one task, most likely for lack of memory",
        value=task.key,
        remedy="Use fewer --workers or a larger --memory-limit; the same command continues",
    )


@contextmanager
def _scheduler_loss_explained() -> Iterator[None]:
    try:
        yield
    except (CancelledError, CommClosedError, ClosedClientError) as error:
        # Said once, in one line: not again, with tracebacks, by a client that is being closed.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        raise InterruptedRun(
            "the Dask scheduler went away", remedy="Start it again; what was summed is kept"
        ) from error
