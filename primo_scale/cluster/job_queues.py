"""Machines that run the tasks: threads, processes, a running Dask scheduler, or a job queue.

A TOML file describes a job queue. Its table ``[options]`` has the keywords of the class of
dask-jobqueue, so that ``kind = "slurm"`` alone is a valid profile.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from primo_scale.errors import InputError
from primo_scale.machine import memory_limit, usable_cpus
from primo_scale.storage.files import converted, refuse_missing_file

Count = Annotated[int, msgspec.Meta(ge=1)]
_SIZE = re.compile(r"(?=[0.]*[1-9])([0-9]+(?:\.[0-9]+)?)([KMGT])(i?)B?", re.IGNORECASE)


JOB_QUEUES = {
    "slurm": ("dask_jobqueue:SLURMCluster", ("squeue", "--noheader", "--format=%i", "--user")),
    "pbs": ("dask_jobqueue:PBSCluster", ("qselect", "-u")),
    "lsf": ("dask_jobqueue:LSFCluster", ("bjobs", "-noheader", "-o", "jobid", "-u")),
    "sge": ("dask_jobqueue:SGECluster", ("qstat", "-u")),
}
"""Class of dask-jobqueue by the ``kind`` of a profile, and the command that lists the jobs of the
user whose name is appended, one job a line with the job number first."""

_DEFAULT_OPTIONS = {
    "cores": 4,
    "memory": "8GiB",
    "walltime": "04:00",
    "job_name": "primo-scale",
    "local_directory": "${TMPDIR:-/tmp}",
    "death_timeout": 120,
}


@dataclass(frozen=True)
class LocalProfile:
    """Worker processes on this machine, by default one for each usable CPU."""

    workers: int | None = None
    memory_limit: str | None = None


@dataclass(frozen=True)
class SchedulerProfile:
    """Running Dask scheduler.

    `tls` is the directory of the cluster's certificates, or whether TLS is used.
    """

    address: str
    tls: str | bool = True


class JobQueueProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Workers as jobs of a queue.

    At most `jobs` jobs run or wait, and the queue is listed every `poll` seconds. `options` are
    keywords of the class of dask-jobqueue.
    """

    kind: str
    jobs: Count = 10
    poll: Count = 30
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        try:
            if worker_memory(self) is None or self.walltime_seconds < 60:
                raise ValueError
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise ValueError(
                "options need whole numbers of cores and processes, a memory such as 8GiB, and a "
                "walltime of a minute or more, such as 04:00:00"
            ) from error

    @property
    def all_options(self) -> dict[str, Any]:
        """Options with their defaults; by default each core runs one worker process."""
        options = {**_DEFAULT_OPTIONS, **self.options}
        if "walltime" not in self.options and self.kind != "lsf":
            options["walltime"] += ":00"  # LSF counts minutes
        return {"processes": options["cores"], **options}

    @property
    def walltime_seconds(self) -> int:
        """Walltime of a job, in the form ``days-hours:minutes:seconds`` without optional parts."""
        days, _, clock = str(self.all_options["walltime"]).rpartition("-")
        hours, minutes, seconds = [*map(int, clock.split(":")), 0, 0][:3]
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


Profile = LocalProfile | SchedulerProfile | JobQueueProfile
"""Processes that run the tasks, in place of threads of the command's own process."""


def worker_memory(profile: Profile | None) -> int | None:
    """Return the memory limit of each worker process in bytes, or None if no limit is known.

    The start of local workers and the pre-flight check use this same number, because Dask's own
    share of the machine ignores most control groups.
    """
    if isinstance(profile, LocalProfile):
        whole = memory_limit()
        if profile.memory_limit is None:
            return whole // usable_cpus()
        return min(whole, size_bytes(profile.memory_limit))
    if isinstance(profile, JobQueueProfile):
        options = profile.all_options
        return size_bytes(str(options["memory"])) // int(options["processes"])
    return None


def size_bytes(size: str) -> int:
    """Return the bytes of a size such as ``8GiB``; another text is a ValueError."""
    matched = _SIZE.fullmatch(size.replace(" ", ""))
    if matched is None:
        raise ValueError(f"not a size: {size}")
    number, unit, binary = matched.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper()))


def read_profile(file: Path) -> JobQueueProfile:
    """Read and check the profile of a job queue."""
    refuse_missing_file(file)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: also thousands of digits
        raise InputError(f"is not TOML: {error}", where=file) from error
    if table.get("kind") not in list(JOB_QUEUES):
        raise InputError(
            "kind is unknown",
            where=file,
            value=table.get("kind"),
            limit=", ".join(JOB_QUEUES),
            remedy="Use --workers on this machine, and --scheduler with a running scheduler",
        )
    try:
        return converted(table, JobQueueProfile)
    except msgspec.ValidationError as error:
        raise InputError(
            str(error).replace("Object contains", "contains"),
            where=file,
            limit=f"keys {', '.join(JobQueueProfile.__struct_fields__)}",
            remedy="Keywords of dask-jobqueue belong in [options] (cluster/README.md)",
        ) from error
