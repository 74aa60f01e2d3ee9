"""A cluster of processes on this machine."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import suppress
from pathlib import Path

import dask
from distributed import LocalCluster, Security

from primo_scale.cluster.dask_settings import NO_WEB_PAGES, SELDOM_INTERRUPTED, WORKER_PROCESS
from primo_scale.cluster.profile import LocalProfile, worker_memory
from primo_scale.errors import ResourceError
from primo_scale.interruption import check
from primo_scale.machine import usable_cpus

LOGGER = logging.getLogger("primo_scale")

# How often a cluster is started of which a worker dies meanwhile.
_TRIALS = 3
_SETTINGS = {
    **NO_WEB_PAGES,
    **SELDOM_INTERRUPTED,
    "distributed.nanny.pre-spawn-environ": WORKER_PROCESS,
    # A worker whose last word is minutes old would be started again, and all of them if somebody
    # sets the clock. Here the end of a process is seen at once, and a busy one is left alone.
    "distributed.scheduler.worker-ttl": None,
}


def local_cluster(profile: LocalProfile, security: Security, scratch: Path) -> LocalCluster:
    """Start worker processes that leave Ctrl-C to this process.

    A terminal sends SIGINT to every process of the job. Processes started while it is ignored go
    on ignoring it, so that only this one stops, and closes them in order. A Ctrl-C in the second
    or two of starting is lost; blocking it instead does not last, since multiprocessing unblocks.

    Dask gives up a cluster of which a worker is killed while it starts. Such a cluster is started
    anew, a few times.

    Parameters
    ----------
    profile
        How many, and how much memory each may have.
    security
        On a shared machine anyone may connect to a loopback port, and whoever joins a Dask cluster
        runs code as its owner.
    scratch
        Directory for their spill, inside the work directory.

    Raises
    ------
    ResourceError
        Workers died again and again while they were starting.
    InterruptedRun
        A signal asked to stop.
    """
    for _ in range(_TRIALS):
        check()
        with suppress(_WorkerDied):
            return _started(profile, security, scratch)
        LOGGER.warning("a worker died while it was starting: starting again")
    raise ResourceError(
        "workers died again and again while they were starting, most likely for lack of memory",
        remedy="Use fewer --workers; the same command continues",
    )


class _WorkerDied(Exception):
    """A worker process ended before it had joined the cluster."""


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
    except RuntimeError as error:  # "Nanny failed to start": its process was killed meanwhile
        raise _WorkerDied from error
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)
