"""A cluster of processes on this machine, and the replacement of its lost workers."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dask
from distributed import LocalCluster, Security
from distributed.core import Status

from primo_scale.cluster.dask_settings import NO_WEB_PAGES, SPARSE_PROFILER, WORKER_PROCESS
from primo_scale.cluster.profile import LocalProfile, worker_memory
from primo_scale.errors import ResourceError
from primo_scale.interruption import check
from primo_scale.machine import usable_cpus

LOGGER = logging.getLogger("primo_scale")

# Number of attempts to start a cluster if a worker dies during the start.
_TRIALS = 3
# Interval between two checks for lost workers.
_LOOK_SECONDS = 2.0
_GONE = (Status.closed, Status.failed)
_SET_BY_DASK = (*WORKER_PROCESS, "PYTHONHASHSEED", "__DASK_PARENT_PID")
_SETTINGS = {
    **NO_WEB_PAGES,
    **SPARSE_PROFILER,
    "distributed.nanny.pre-spawn-environ": WORKER_PROCESS,
    # Dask would restart a worker without a heartbeat for minutes, and all workers after a clock
    # change. On this machine the end of a process is detected at once without heartbeats.
    "distributed.scheduler.worker-ttl": None,
}


def local_cluster(profile: LocalProfile, security: Security, scratch: Path) -> LocalCluster:
    """Start worker processes that ignore Ctrl-C, which this process handles.

    A terminal sends SIGINT to every process of the job. Processes that start while SIGINT is
    ignored keep ignoring it, so that only this process stops and closes the workers in order. A
    Ctrl-C in the second or two of the start is lost. Blocking the signal instead has no lasting
    effect, because multiprocessing unblocks it.

    Dask gives up a cluster if a worker is killed during the start. Such a cluster is started again,
    up to `_TRIALS` times in total. TLS is needed because any user of a shared machine can connect
    to a loopback port, and every peer of a Dask cluster can run code as its owner.
    """
    for _ in range(_TRIALS):
        check()
        try:
            return _started(profile, security, scratch)
        except RuntimeError as error:  # "Nanny failed to start", because its process was killed
            LOGGER.debug("%s", error)
        LOGGER.warning("a worker died while it was starting: starting again")
    raise ResourceError(
        "workers died again and again while they were starting, most likely for lack of memory",
        remedy="Use fewer --workers; the same command continues. A script must make its calls "
        "below `if __name__ == '__main__':`, because workers import it",
    )


def _started(profile: LocalProfile, security: Security, scratch: Path) -> LocalCluster:
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        with dask.config.set(_SETTINGS):
            return LocalCluster(
                security=security,
                n_workers=profile.workers or usable_cpus(),
                threads_per_worker=1,
                processes=True,
                memory_limit=worker_memory(profile),
                local_directory=str(scratch),
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                # A failed task is reported once, by the error of this process.
                silence_logs=logging.CRITICAL,
            )
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


@contextmanager
def environment_restored() -> Iterator[None]:
    """Undo at the end what Dask sets in the environment of this process for the workers.

    Otherwise every program that this process starts later computes on one thread too.
    """
    before = {name: os.environ.get(name) for name in _SET_BY_DASK}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def workers_replaced(cluster: LocalCluster) -> Iterator[None]:
    """Keep the number of workers constant during the block.

    Dask restarts a dead worker only once. It gives up a worker that dies during the restart, or
    that takes longer than a quarter of a minute on a busy machine. After the loss of all workers a
    run would wait forever.
    """
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(cluster, len(cluster.worker_spec), ended))
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(cluster: LocalCluster, wanted: int, ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        lost = [name for name in list(cluster.worker_spec) if _is_lost(cluster, name)]
        if lost or len(cluster.worker_spec) < wanted:
            # A worker that dies during its start is found by the next check.
            with suppress(RuntimeError, OSError):
                cluster.sync(_replace, cluster, lost, wanted)


def _is_lost(cluster: LocalCluster, name: object) -> bool:
    # One lookup only, because Dask's own thread may remove the worker at any time.
    worker = cluster.workers.get(name)
    return worker is None or worker.status in _GONE


async def _replace(cluster: LocalCluster, lost: list[object], wanted: int) -> None:
    await cluster.scale_down(lost)
    cluster.scale(wanted)
    await cluster
