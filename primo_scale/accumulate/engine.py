"""The one module that knows Dask: a cluster, and a bounded stream of tasks through it."""

from __future__ import annotations

import gc
import logging
import math
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import dask
from distributed import CancelledError, Client, Future, KilledWorker, LocalCluster
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from primo_scale.accumulate.partials import Address, Partials
from primo_scale.accumulate.plan import Task
from primo_scale.accumulate.task_memory import TASKS_PER_WORKER
from primo_scale.cluster.lost_workers import workers_replaced
from primo_scale.errors import InputError, InterruptedRun, ResourceError

LOGGER = logging.getLogger("primo_scale")

# Enough to hide a task's round trip to the scheduler; few enough that no graph ever grows large.
_IN_FLIGHT_PER_WORKER = 8
_RETRIES = 3
# How often a task is submitted that workers die over; each time, it is four workers.
_TRIALS = 3
# How often workers are counted while tasks run.
_LOOK_SECONDS = 2.0
_CONNECT_TIMEOUT_SECONDS = 30
_NO_WEB_PAGES: dict[str, list[str]] = {
    f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
}


@dataclass(frozen=True)
class ClusterOptions:
    """Where tasks run.

    Attributes
    ----------
    scheduler
        Address of a running scheduler; None starts worker processes on this machine.
    workers
        Worker processes of the local cluster.
    memory_limit
        Of each local worker, as Dask writes it (``4GiB``); None leaves it to Dask.
    scratch
        Directory for the local workers' spill, inside the work directory.
    """

    scheduler: str | None
    workers: int
    memory_limit: str | None
    scratch: Path


@contextmanager
def dask_client(options: ClusterOptions) -> Iterator[Client]:
    """Connect to the scheduler asked for, or start a cluster on this machine and stop it after."""
    if options.scheduler is not None:
        with _connected(options.scheduler) as client:
            yield client
        return
    with (
        _local_cluster(options) as cluster,
        workers_replaced(cluster),
        Client(cluster) as client,
    ):
        yield client


def _connected(address: str) -> Client:
    """Connect to a running scheduler that has workers."""
    client = None
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT_SECONDS)
        client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT_SECONDS)
        return client
    except (OSError, ValueError, TimeoutError):
        if client is not None:
            client.close()
    # A client that never connected closes itself when it is collected, under a lock of the event
    # loop: let that happen here and not in the middle of starting whatever comes next.
    client = None
    gc.collect()
    raise InputError(
        "no Dask scheduler with workers answers",
        where="--scheduler",
        value=address,
        limit=f"{_CONNECT_TIMEOUT_SECONDS} s",
        remedy="Start `dask scheduler` and `dask worker`, or leave the option out",
    )


def _local_cluster(options: ClusterOptions) -> LocalCluster:
    """Start worker processes that leave Ctrl-C to this process.

    A terminal sends SIGINT to every process of the job. Processes started while it is ignored go
    on ignoring it, so that only this one stops, and closes them in order. A Ctrl-C in the second
    or two of starting is lost; blocking it instead does not last, since multiprocessing unblocks.
    """
    # Two threads a process: while one multiplies, the other reads, or writes what it summed. They
    # share memory for code, and a crash takes two tasks with it.
    # TLS under throw-away certificates: on a shared machine anyone may connect to a loopback port,
    # and whoever joins a Dask cluster runs code as its owner. The web pages of a cluster ask for no
    # certificate and show how many tasks there are, which tells the number of people: there are
    # none here.
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        with dask.config.set(_NO_WEB_PAGES):
            return LocalCluster(
                security=True,
                n_workers=options.workers,
                threads_per_worker=TASKS_PER_WORKER,
                processes=True,
                memory_limit=options.memory_limit or "auto",
                local_directory=str(options.scratch),
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                # A failed task is reported once, by the error of this process.
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError as error:  # "Nanny failed to start": its process was killed meanwhile
        raise InterruptedRun(
            "workers died while they were starting",
            remedy="If it happens again, see whether there is memory enough for --workers",
        ) from error
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def run_tasks(
    client: Client,
    function: Callable[[Address, Task], object],
    partials: Partials,
    tasks: Sequence[Task],
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
        The store of partial sums, at a path that the workers see.
    tasks
        In the order to start them.
    on_done
        Called in this process after each task.

    Raises
    ------
    ResourceError
        Workers died again and again over one task.
    InterruptedRun
        The scheduler went away; what was committed stays.
    PrimoError
        Of a task, after some retries.
    """
    call = partial(function, partials.address)
    waiting = deque((task, f"{task.key}-{partials.store_id}") for task in tasks)
    in_flight: dict[str, tuple[Task, Future]] = {}
    ended: SimpleQueue[Future] = SimpleQueue()
    murders: Counter[Task] = Counter()
    workers = _WorkerCount(client)

    def fill() -> None:
        # Workers come and go: the depth is that of the workers there are now. A batch at a time,
        # because a graph of one task costs as much as a graph of many.
        depth = _IN_FLIGHT_PER_WORKER * max(1, workers.count)
        if len(in_flight) > depth // 2 or not waiting:
            return
        batch = [waiting.popleft() for _ in range(min(len(waiting), depth - len(in_flight)))]
        chosen, keys = [task for task, _ in batch], [key for _, key in batch]
        futures = client.map(call, chosen, key=keys, retries=_RETRIES)
        for (task, key), future in zip(batch, futures, strict=True):
            in_flight[key] = (task, future)
            future.add_done_callback(ended.put)

    def settle(future: Future) -> None:
        task, _ = in_flight[future.key]
        try:
            _raise_failure(future)
        except KilledWorker as error:
            murders[task] += 1
            if murders[task] == _TRIALS:
                raise _murderous(task) from error
            # Dask suspects whatever a dead worker had in hand. Another name, for it knows this one.
            waiting.appendleft((task, f"{task.key}-{partials.store_id}-{murders[task]}"))
        else:
            on_done(task)
        del in_flight[future.key]
        future.release()

    try:
        with _scheduler_loss_explained():
            fill()
            while in_flight:
                workers.look()
                for future in _those_that_ended(ended):
                    settle(future)
                fill()
    finally:
        for _, future in in_flight.values():
            future.release()


class _WorkerCount:
    """How many workers there are, asked for now and then; says once when there are none left."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._missed = False
        self._asked = -math.inf
        self.count = 0
        self.look()

    def look(self) -> None:
        """Ask, unless it was asked a moment ago."""
        now = time.monotonic()
        if now - self._asked < _LOOK_SECONDS:
            return
        self._asked = now
        self.count = self._client.scheduler_info(n_workers=0).get("n_workers", 0)
        if not self.count and not self._missed:
            LOGGER.warning("no Dask workers are left: waiting for others to connect")
        if self.count and self._missed:
            LOGGER.info("there are Dask workers again: going on")
        self._missed = not self.count


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
