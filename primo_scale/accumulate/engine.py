"""The one module that knows Dask: a cluster, and a bounded stream of tasks through it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from distributed import Client, KilledWorker, LocalCluster, as_completed

from primo_scale.accumulate.partials import Partials
from primo_scale.accumulate.plan import Task
from primo_scale.errors import InputError, ResourceError

# Enough to hide a task's round trip to the scheduler; few enough that no graph ever grows large.
_IN_FLIGHT_PER_WORKER = 8
_RETRIES = 3
_CONNECT_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class ClusterOptions:
    """Where tasks run.

    Attributes
    ----------
    scheduler
        Address of a running scheduler; None starts worker processes on this machine.
    workers
        Worker processes of the local cluster; None: one for each CPU.
    memory_limit
        Of each local worker, as Dask writes it (``4GiB``); None leaves it to Dask.
    scratch
        Directory for the local workers' spill, inside the work directory.
    """

    scheduler: str | None
    workers: int | None
    memory_limit: str | None
    scratch: Path


@contextmanager
def dask_client(options: ClusterOptions) -> Iterator[Client]:
    """Connect to the scheduler asked for, or start a cluster on this machine and stop it after."""
    if options.scheduler is not None:
        try:
            client = Client(options.scheduler, timeout=_CONNECT_TIMEOUT_SECONDS)
        except (OSError, ValueError) as error:
            raise InputError(
                "no Dask scheduler answers",
                where="--scheduler",
                value=options.scheduler,
                limit=f"{_CONNECT_TIMEOUT_SECONDS} s",
                remedy="Start one (`dask scheduler`) or leave the option out to run here",
            ) from error
        with client:
            yield client
        return
    # One thread a process: numpy holds a BLAS thread each, and a crash takes one task with it.
    # The dashboard shows plan indices only, but still binds to this machine alone.
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=options.memory_limit or "auto",
            local_directory=str(options.scratch),
            dashboard_address="127.0.0.1:0",
            # A failed task is reported once, by the error of this process.
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def run_tasks(
    client: Client,
    function: Callable[[str, str, Task], Task],
    partials: Partials,
    tasks: Sequence[Task],
    on_done: Callable[[Task], None],
) -> None:
    """Run `function(path, store_id, task)` for every task, a bounded number at a time.

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
    """
    waiting = iter(tasks)
    stream = as_completed()

    def start_next() -> None:
        task = next(waiting, None)
        if task is not None:
            arguments = (str(partials.path), partials.store_id, task)
            stream.add(
                client.submit(
                    function, *arguments, key=f"{task.key}-{partials.store_id}", retries=_RETRIES
                )
            )

    n_workers = max(1, len(client.scheduler_info()["workers"]))
    for _ in range(_IN_FLIGHT_PER_WORKER * n_workers):
        start_next()
    for future in stream:
        try:
            task = future.result()
        except KilledWorker as error:
            raise ResourceError(
                "workers died repeatedly while running one task, most likely for lack of memory",
                value=future.key,
                remedy="Use fewer --workers or a larger --memory-limit; the same command continues",
            ) from error
        on_done(task)
        start_next()
