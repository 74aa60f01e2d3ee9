"""The one module that knows Dask: a cluster, and a bounded stream of tasks through it."""

from __future__ import annotations

import gc
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dask
from distributed import CancelledError, Client, KilledWorker, LocalCluster, as_completed
from distributed.comm import CommClosedError
from distributed.security import Security

from primo_scale.accumulate.partials import Address, Partials
from primo_scale.accumulate.plan import Task
from primo_scale.accumulate.task_memory import TASKS_PER_WORKER
from primo_scale.cluster.certificates import security_towards
from primo_scale.errors import InputError, InterruptedRun, ResourceError

# Enough to hide a task's round trip to the scheduler; few enough that no graph ever grows large.
_IN_FLIGHT_PER_WORKER = 8
_RETRIES = 3
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
    certificates, trusted_network
        How that scheduler is spoken to: `primo_scale.cluster.certificates.security_towards`.
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
    certificates: Path | None = None
    trusted_network: bool = False


@contextmanager
def dask_client(options: ClusterOptions) -> Iterator[Client]:
    """Connect to the scheduler asked for, or start a cluster on this machine and stop it after."""
    if options.scheduler is not None:
        security = security_towards(
            options.scheduler,
            options.certificates,
            trusted_network=options.trusted_network,
        )
        with _connected(options.scheduler, security) as client:
            yield client
        return
    with _local_cluster(options) as cluster, Client(cluster) as client:
        yield client


def _connected(address: str, security: Security | None) -> Client:
    """Connect to a running scheduler that has workers."""
    client = None
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT_SECONDS, security=security)
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
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def run_tasks(
    client: Client,
    function: Callable[[Address, Task], Task],
    partials: Partials,
    tasks: Sequence[Task],
    on_done: Callable[[Task], None],
) -> None:
    """Run `function(address, task)` for every task, a bounded number at a time.

    Parameters
    ----------
    client
        A connected client.
    function
        Importable on the workers; commits its result itself and returns its task.
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
    """
    waiting = iter(tasks)
    stream = as_completed()
    in_flight = 0

    def start_next() -> bool:
        nonlocal in_flight
        task = next(waiting, None)
        if task is None:
            return False
        key = f"{task.key}-{partials.store_id}"
        stream.add(client.submit(function, partials.address, task, key=key, retries=_RETRIES))
        in_flight += 1
        return True

    def fill() -> None:
        # Workers come and go: the depth is that of the workers there are now.
        while in_flight < _IN_FLIGHT_PER_WORKER * max(1, len(client.nthreads())):
            if not start_next():
                return

    fill()
    for future in stream:
        try:
            task = future.result()
        except (CancelledError, CommClosedError) as error:
            raise InterruptedRun(
                "the Dask scheduler went away",
                remedy="Start it again and run the same command, which continues",
            ) from error
        except KilledWorker as error:
            raise ResourceError(
                "workers died repeatedly while running one task, most likely for lack of memory",
                value=future.key,
                remedy="Use fewer --workers or a larger --memory-limit; the same command continues",
            ) from error
        in_flight -= 1
        on_done(task)
        fill()
