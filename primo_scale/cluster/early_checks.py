"""Checks of a profile before hours of work, as far as they need no cluster."""

from __future__ import annotations

import errno
import os
import resource
import sys
from pathlib import Path

from primo_scale.cluster.profile import JobQueueProfile, LocalProfile, Profile, SharedPath, fits
from primo_scale.errors import InputError, ResourceError
from primo_scale.machine import usable_cpus

# Files and sockets that this process opens in all and for each worker (measured: 22 and 10).
_OPEN_FILES, _OPEN_FILES_PER_WORKER = 64, 12


def check_cluster(profile: Profile, work_dir: Path) -> None:
    """Refuse a profile whose cluster cannot start on this machine; change nothing."""
    if isinstance(profile, LocalProfile):
        _refuse_few_open_files(profile.workers or usable_cpus())
    if isinstance(profile, JobQueueProfile):
        _refuse_other_characters("the work directory", str(work_dir.absolute()), "--work-dir")
        if profile.jobs.python is None:
            _refuse_other_characters("the interpreter", sys.executable, "jobs.python")
        if profile.jobs.logs is not None:
            logs = Path(profile.jobs.logs)
            there = next(path for path in (logs, *logs.parents) if path.exists())
            if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
                raise unusable_logs(logs, f"{there} is not a directory that you may write to")
        _refuse_unusable_listener(profile)


def _refuse_few_open_files(workers: int) -> None:
    """Refuse a limit of open files at which workers would die while they start."""
    needed = _OPEN_FILES + _OPEN_FILES_PER_WORKER * workers
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise ResourceError(
            f"this process may open too few files for {workers} workers",
            value=allowed,
            limit=f"at least {needed}",
            remedy=f"Run ulimit -n {needed}, or use fewer --workers",
        )


def _refuse_other_characters(what: str, path: str, key: str) -> None:
    """Refuse a path that a job script cannot contain, because the script quotes nothing."""
    if not fits(path, SharedPath):
        raise InputError(
            f"the path of {what} has characters that a job script cannot contain",
            where="--cluster",
            value=path,
            limit="letters, digits and _./+@=-",
            remedy=f"Choose another {key}",
        )


def unusable_logs(logs: Path, why: str) -> InputError:
    """Return the refusal of a directory of ``jobs.logs`` that cannot be made or written."""
    remedy = "Correct jobs.logs of the profile"
    return InputError(f"jobs.logs: {why}", where="--cluster", value=logs, remedy=remedy)


def _refuse_unusable_listener(profile: JobQueueProfile) -> None:
    """Refuse an address at which the scheduler cannot listen, by listening there for a moment."""
    from distributed.utils import get_ip_interface
    from tornado.netutil import bind_sockets

    listener = profile.scheduler
    host, interface, port = listener.host, listener.interface, listener.port
    key = "scheduler.host" if interface is None else "scheduler.interface"
    if host is None and interface is None and profile.workers.interface is not None:
        key, interface = "workers.interface", profile.workers.interface  # as Dask does
    try:
        if interface is not None:
            host = get_ip_interface(interface)
        for socket in bind_sockets(port, host or ""):
            socket.close()
    except (OSError, ValueError) as error:  # ValueError: no such interface, or one without IPv4
        if getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES):
            key = "scheduler.port"
        values = {"scheduler.host": host, "scheduler.port": port}
        raise InputError(
            f"the scheduler cannot listen at {key}: {getattr(error, 'strerror', None) or error}",
            where="--cluster",
            value=values.get(key, interface),
            remedy="Correct [scheduler] of the profile",
        ) from error
