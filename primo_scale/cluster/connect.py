"""Dask clients of the workers that a profile describes."""

from __future__ import annotations

import gc
import importlib.util
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client, performance_report

from primo_scale.cluster.profile import JobQueueProfile, LocalProfile, SchedulerProfile
from primo_scale.cluster.security import security_towards
from primo_scale.cluster.workers import (
    check_job_queue,
    first_cause,
    job_queue_cluster,
    local_cluster,
)
from primo_scale.errors import InputError
from primo_scale.storage.files import write_atomically

_CONNECT_TIMEOUT_SECONDS = 30
# Dask's template loads the icon from its web site, which could log every view of the report.
_ICON = re.compile(rb'<link rel="shortcut icon"[^>]*>')


@contextmanager
def dask_client(
    profile: LocalProfile | SchedulerProfile | JobQueueProfile, scratch: Path
) -> Iterator[Client]:
    """Start or connect to the workers of a profile, and stop at the end what was started.

    `scratch` is a private directory in the work directory, which the workers of job queues must
    also be able to read.
    """
    with ExitStack() as started:
        if isinstance(profile, SchedulerProfile):
            client = _connected(profile)
        elif isinstance(profile, LocalProfile):
            client = Client(started.enter_context(local_cluster(profile, scratch)))
        else:
            client = Client(started.enter_context(job_queue_cluster(profile, scratch)))
        yield started.enter_context(client)


def check_reachable(profile: SchedulerProfile | JobQueueProfile, scratch: Path) -> None:
    """Refuse a cluster that cannot be used, as far as a moment shows; submit no job."""
    if isinstance(profile, JobQueueProfile):
        check_job_queue(profile, scratch)
    else:
        with dask_client(profile, scratch):
            pass


def _connected(profile: SchedulerProfile) -> Client:
    """Connect to a running scheduler, and wait until it has a worker."""
    security = security_towards(profile.address, profile.tls)
    try:
        client = Client(profile.address, security=security, timeout=_CONNECT_TIMEOUT_SECONDS)
    except (OSError, ValueError, MemoryError) as error:  # MemoryError: the peer is not Dask
        what = f"no connection to a Dask scheduler: {first_cause(error)}"
    else:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT_SECONDS)
            return client
        except OSError:  # also a TimeoutError
            client.close()
            what = "the scheduler has no workers"
    # An unconnected client closes itself when it is garbage-collected, under a lock of the event
    # loop. Collecting it here avoids that during the start of the next cluster. No variable may
    # hold the error, whose frames hold the client.
    gc.collect()
    raise InputError(
        what,
        where="--scheduler",
        value=profile.address,
        limit=f"{_CONNECT_TIMEOUT_SECONDS} s",
        remedy="Start `dask scheduler` and `dask worker` with the same certificates (--tls DIR), "
        "and correct host and port",
    )


@contextmanager
def performance_reported(client: Client, path: Path) -> Iterator[None]:
    """Write a report of the cluster's activity during the block to an HTML file, mode 0600.

    The page contains its scripts and loads no other resources. It shows at most the last 100,000
    tasks (Dask's ``distributed.scheduler.dashboard.tasks.task-stream-length``). If the block fails,
    no report is written. The client must be the current one.
    """
    if client.run_on_scheduler(importlib.util.find_spec, "bokeh") is None:
        raise InputError(
            "the scheduler lacks Bokeh, which draws performance reports",
            where="--performance-report",
            remedy="Install it where the scheduler runs: pip install bokeh",
        )
    with tempfile.TemporaryDirectory() as private:
        draft = Path(private) / "report.html"
        report = performance_report(str(draft), mode="inline")
        report.__enter__()
        yield
        # Not called after a failure, because it queries the scheduler, which may have failed.
        report.__exit__(None, None, None)
        write_atomically(path, _ICON.sub(b"", draft.read_bytes()))
