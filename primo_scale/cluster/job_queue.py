"""Workers as jobs of SLURM, PBS, LSF or SGE, through dask-jobqueue.

The scheduler runs in the process of the command. dask-jobqueue writes the job scripts and submits
them. `JobKeeper` keeps as many jobs as the profile allows while there is work.
"""

from __future__ import annotations

import logging
import pkgutil
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
from distributed.deploy import Cluster

from primo_scale.cluster.certificates import security_of
from primo_scale.cluster.dask_settings import (
    ALLOWED_FAILURES,
    ENCRYPTED_ENVIRONMENT,
    NO_WEB_PAGES,
    WORKER_ENVIRONMENT,
)
from primo_scale.cluster.early_checks import unusable_logs
from primo_scale.cluster.job_keeper import JobKeeper, forget_unsubmitted, last_line, submit_jobs
from primo_scale.cluster.profile import JobQueueProfile, seconds
from primo_scale.errors import InputError
from primo_scale.storage.files import make_private_directory

# Share of the walltime reserved for a last task to finish and a worker to close. The same time
# again is reserved for workers to close one after another.
_MARGIN, _LARGEST_MARGIN_SECONDS = 0.1, 300
_SETTINGS = {
    "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
    # Time after which Dask ends the job of a lost worker. `JobKeeper` tracks jobs instead, so that
    # a requeued job keeps its place, and so does a job with the name of a lost one.
    "distributed.deploy.lost-worker-timeout": "365 days",
}


def job_script(profile: JobQueueProfile, certificates: Path | None, logs: str) -> str:
    """Return the job script with placeholders for the addresses of scheduler and job.

    `certificates` is the directory of the workers' certificates, or None without TLS, and `logs`
    that of the job's output.
    """
    job_class = pkgutil.resolve_name(profile.job_queue.cluster).job_cls
    scheme, tls = "tcp", {}
    if certificates is not None:
        scheme, tls = "tls", {"security": security_of(certificates), "protocol": "tls://"}
    with TemporaryDirectory() as somewhere:  # dask-jobqueue creates its log directory
        options = _job_options(profile, somewhere)
        job = job_class(f"{scheme}://SCHEDULER:PORT", name="NAME", **options, **tls)
        return str(job.job_script()).replace(somewhere, logs)


@contextmanager
def job_queue_cluster(
    profile: JobQueueProfile, certificates: Path | None, scratch: Path
) -> Iterator[Cluster]:
    """Start a scheduler in this process, submit a first job, and keep jobs in the queue.

    The workers must be able to read the directory of the certificates, which is None without TLS,
    and the private directory `scratch`.
    """
    logs = _log_directory(profile, scratch)
    cluster_class = pkgutil.resolve_name(profile.job_queue.cluster)
    listener = profile.scheduler
    place = {"host": listener.host, "interface": listener.interface}
    with dask.config.set({**_SETTINGS, **NO_WEB_PAGES}):
        start = partial(
            cluster_class,
            security=None if certificates is None else security_of(certificates),
            scheduler_options={
                "dashboard": False,
                "dashboard_address": "127.0.0.1:0",  # the server has no pages but needs a port
                "port": listener.port,
                # If neither is given, the scheduler uses the workers' interface, or all.
                **{name: value for name, value in place.items() if value is not None},
            },
            silence_logs=logging.CRITICAL,
            **_job_options(profile, str(logs)),
        )
        with _started(start) as cluster:
            _submit_first_job(cluster, profile)
            cluster.adapt(
                Adaptive=partial(JobKeeper, profile=profile, logs=logs),
                minimum_jobs=profile.jobs.minimum,
                maximum_jobs=profile.jobs.maximum,
            )
            yield cluster


def _log_directory(profile: JobQueueProfile, scratch: Path) -> Path:
    """Return the directory of the jobs' output, which is made unless it exists."""
    if profile.jobs.logs is None:
        return make_private_directory(scratch / "logs")
    logs = Path(profile.jobs.logs)
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable_logs(logs, error.strerror or str(error)) from error
    return logs


def _started(start: Callable[[], Cluster]) -> Cluster:
    """Start a cluster, whose address may have become unusable since it was checked."""
    try:
        return start()
    except (RuntimeError, ValueError) as error:
        cause: BaseException = error
        while (earlier := cause.__cause__ or cause.__context__) is not None:
            cause = earlier
        raise InputError(
            "the scheduler does not start",
            where="--cluster",
            value=last_line(cause),
            remedy="Correct [scheduler] of the profile",
        ) from error


def _submit_first_job(cluster: Any, profile: JobQueueProfile) -> None:
    """Submit the first job, so that a wrong queue or account is an error at the start."""
    try:
        cluster.sync(submit_jobs, cluster, max(1, profile.jobs.minimum))
    except FileNotFoundError as error:
        forget_unsubmitted(cluster)
        raise _no_submit_command(profile, str(error.filename)) from error
    except RuntimeError as error:
        forget_unsubmitted(cluster)
        raise InputError(
            "the queue refused the first job",
            where="--cluster",
            value=last_line(error),
            remedy="Correct [jobs] of the profile",
        ) from error


def refuse_missing_submit_command(profile: JobQueueProfile) -> None:
    """Refuse to run where the submit command of the queue is not installed."""
    job_class = pkgutil.resolve_name(profile.job_queue.cluster).job_cls
    command = job_class.submit_command.split()[0]
    if shutil.which(command) is None:
        raise _no_submit_command(profile, command)


def _no_submit_command(profile: JobQueueProfile, command: str) -> InputError:
    return InputError(
        f"the submit command of {profile.kind.upper()} is not installed",
        where="--cluster",
        value=command,
        remedy="Run the command on a machine of the queue, or add its directory to PATH",
    )


def _job_options(profile: JobQueueProfile, logs: str) -> dict[str, Any]:
    """Return all options of dask-jobqueue, so that its configuration files have no effect."""
    jobs, workers = profile.jobs, profile.workers
    lifetime, stagger = (f"{duration}s" for duration in _lifetime(profile))
    closing = ["--lifetime", lifetime, "--lifetime-stagger", stagger]
    options: dict[str, Any] = {
        "cores": jobs.cores,
        "processes": jobs.cores,
        "memory": jobs.memory,
        "job_name": "primo-scale",
        "queue": jobs.queue,
        "walltime": _walltime(profile),
        "python": jobs.python,
        "interface": workers.interface,
        "local_directory": workers.scratch,
        "death_timeout": seconds(workers.death_timeout),
        "worker_extra_args": ["--no-dashboard", *closing],
        "job_extra_directives": list(jobs.directives),
        "job_script_prologue": _prologue(profile),
        "log_directory": logs,
        "shebang": "#!/usr/bin/env bash",
    }
    options[profile.job_queue.account] = jobs.account
    if profile.job_queue.has_resources:
        options["resource_spec"] = jobs.resources
    return options


def _lifetime(profile: JobQueueProfile) -> tuple[int, int]:
    """Return the lifetime of a worker and its random variation, in seconds."""
    walltime = seconds(profile.jobs.walltime)
    margin = min(int(_MARGIN * walltime), _LARGEST_MARGIN_SECONDS)
    workers = profile.workers
    stagger = margin if workers.lifetime_stagger is None else seconds(workers.lifetime_stagger)
    if workers.lifetime is not None:
        return seconds(workers.lifetime), stagger
    return max(1, walltime - margin - stagger), stagger


def _walltime(profile: JobQueueProfile) -> str:
    """Return the walltime in the format of the queue."""
    walltime = profile.jobs.walltime
    if not profile.job_queue.counts_minutes:
        return walltime
    minutes = -(-seconds(walltime) // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _prologue(profile: JobQueueProfile) -> list[str]:
    """Return the shell lines before the worker starts; umask keeps spilled data private."""
    encrypted = {} if profile.tls is False else ENCRYPTED_ENVIRONMENT
    settings = {**WORKER_ENVIRONMENT, **encrypted}
    exported = [f"export {name}={value}" for name, value in settings.items()]
    return ["umask 077", *exported, *profile.jobs.prologue]
