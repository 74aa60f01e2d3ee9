"""Executors: they run tasks on threads of this process, or on the workers of a Dask cluster.

An executor is a function, which returns when all tasks are committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from concurrent.futures import Future as ThreadFuture
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from primo_scale import interruption
from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import Task
from primo_scale.accumulation.tasks import compute_task, run_task
from primo_scale.errors import InterruptedRun, ResourceError

if TYPE_CHECKING:
    from distributed import Client, Future

LOGGER = logging.getLogger("primo_scale")

# Interval between two checks of threads for an interruption, and between two counts of workers.
_CHECK_SECONDS, _LOOK_SECONDS = 0.5, 2.0
# Tasks that Dask knows at a time. Its scheduler keeps those in a queue that no worker can start.
_IN_FLIGHT = 1000
# Further attempts at a task that fails, for example by a file system that does not answer.
_RETRIES = 3


def run_on_threads(
    threads: int, partials: Partials, tasks: Sequence[Task], on_done: Callable[[Task], None]
) -> None:
    """Run as many tasks as threads of this process; it is the default on one machine.

    After an error, others end before their next read. Kernels, checksums and file reads release the
    interpreter lock, so that threads keep all cores busy. Without worker processes, a run starts
    some seconds earlier. On the other hand, if the memory is exhausted, the whole command is killed
    and not only a worker.
    """
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise InterruptedRun("interrupted")

    waiting = deque(tasks)
    running: dict[ThreadFuture[None], Task] = {}
    # One BLAS thread per task, because concurrent tasks already use all cores.
    with threadpool_limits(limits=1), ThreadPoolExecutor(threads, "task") as pool:
        try:
            while waiting or running:
                while waiting and len(running) < threads:
                    task = waiting.popleft()
                    running[pool.submit(compute_task, partials, task, check)] = task
                ended, _ = wait(running, _CHECK_SECONDS, FIRST_COMPLETED)
                interruption.check()
                for future in ended:
                    task = running.pop(future)
                    future.result()
                    on_done(task)
        finally:
            stopped.set()  # the pool then waits for at most one read of each task


def run_on_dask(
    client: Client, partials: Partials, tasks: Sequence[Task], on_done: Callable[[Task], None]
) -> None:
    """Run tasks on the workers of a Dask cluster, which may be lost and may join at any time.

    Without any worker, log a warning and wait for new ones. Dask runs the tasks of a lost worker
    again, and tries a failed task again. A task commits its own result, so that the death of a
    worker after a commit loses nothing.
    """
    from distributed import CancelledError, KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    waiting, connected, next_look = iter(tasks), True, 0.0
    in_flight: dict[object, tuple[Task, Future]] = {}
    ended: SimpleQueue[Future] = SimpleQueue()
    call = partial(run_task, partials.address)
    try:
        while True:
            if len(in_flight) <= _IN_FLIGHT // 2:
                batch = list(islice(waiting, _IN_FLIGHT - len(in_flight)))
                keys = [(f"sums-{partials.store_id}", task.key) for task in batch]
                futures = client.map(call, batch, key=keys, retries=_RETRIES)
                for task, future in zip(batch, futures, strict=True):
                    in_flight[future.key] = task, future
                    future.add_done_callback(ended.put)
            if not in_flight:
                return
            interruption.check()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + _LOOK_SECONDS
                threads = client.scheduler_info(n_workers=0).get("total_threads", 0)
                if connected and not threads:  # a line that is shown until there is progress
                    LOGGER.warning("no Dask workers: waiting for some", extra={"event": "waiting"})
                elif threads and not connected:
                    LOGGER.info("Dask workers are connected: the run continues")
                connected = bool(threads)
            for future in _all_of(ended):
                if future.status in ("error", "cancelled"):
                    future.result()  # raises; that of a success may be lost with its worker
                task, _ = in_flight.pop(future.key)
                future.release()
                on_done(task)
    except KilledWorker as error:
        raise ResourceError(
            "workers died repeatedly during one task, most likely for lack of memory",
            remedy="Give each worker more memory (memory_limit, or memory of the profile) or "
            "use fewer --workers; the same command continues",
        ) from error
    except (CancelledError, CommClosedError, ClosedClientError) as error:
        # The error is reported in one line; the closing client must not log it with tracebacks.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        raise InterruptedRun(
            "the connection to the Dask scheduler was lost",
            remedy="Start the scheduler again; committed sums are kept",
        ) from error
    finally:
        for _, future in in_flight.values():
            future.release()


def _all_of(ended: SimpleQueue[Future]) -> Iterator[Future]:
    """Yield all ended tasks; if there are none, wait up to `_LOOK_SECONDS` for the next one."""
    try:
        yield ended.get(timeout=_LOOK_SECONDS)
        while True:
            yield ended.get_nowait()
    except Empty:
        return
