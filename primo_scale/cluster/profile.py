"""Profiles, which describe in a TOML file where tasks run.

The defaults are sufficient for a long unattended run, so that ``kind = "slurm"`` alone is a valid
profile. ``cluster/README.md`` documents the keys, beside the examples. A profile that is open to
other users of a network is an error.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, field
from msgspec.inspect import is_struct_type

from primo_scale.errors import InputError
from primo_scale.machine import memory_limit, usable_cpus
from primo_scale.storage.files import converted, refuse_missing_file

TEXTS: list[Meta] = []
"""Constraints of the texts in a profile: a pattern, and its description for a user."""


def _text(pattern: str, description: str) -> Meta:
    """Add a constraint to `TEXTS` and return it."""
    TEXTS.append(Meta(pattern=rf"\A{pattern}\Z", description=description))
    return TEXTS[-1]


# Names go into job scripts, so they must not contain characters that a shell or queue interprets.
Name = Annotated[str, _text(r"[A-Za-z0-9._@%:/+-]+", "letters, digits and ._@%:/+-")]
Line = Annotated[str, _text(r"[^\r\n]+", "one line")]
Size = Annotated[
    str, _text(r"(?=[0.]*[1-9])[0-9]+(\.[0-9]+)?[KMGT]i?B", "a size above zero, such as 8GiB")
]
Duration = Annotated[
    str, _text("[0-9]+:[0-5][0-9]:[0-5][0-9]", "hours:minutes:seconds, such as 04:00:00")
]
Host = Annotated[str, _text(r"[A-Za-z0-9.:-]+", "a host name or an address")]
Directory = Annotated[
    str,
    _text(
        r"[A-Za-z0-9._/${}:-]+",
        "a path without blanks, in which the job's shell expands $NAMES",
    ),
]
# Job scripts quote nothing, and no shell or queue interprets these characters.
SharedPath = Annotated[str, _text(r"[\w./+@=-]+", "a path of letters, digits and _./+@=-")]
Label = Annotated[
    str, _text(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", "at most 52 lower-case letters, digits and -")
]
MountPath = Annotated[str, _text(r"/[A-Za-z0-9._/-]*", "an absolute path")]
Quantity = Annotated[str, _text(r"0*[1-9][0-9]*[KMGT]i", "a quantity such as 8Gi")]
Address = Annotated[
    str, _text(r"(tcp|tls)://[A-Za-z0-9.\[\]:-]+:[0-9]+", "tcp://HOST:PORT or tls://HOST:PORT")
]

Count = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
SCHEDULER_PORT = 8786

Tls = str | bool
"""Directory of certificates made by ``cluster certificates``, or whether TLS is used."""


def seconds(duration: str) -> int:
    """Return the seconds of a duration ``hours:minutes:seconds``."""
    hours, minutes, rest = map(int, duration.split(":"))
    return 3600 * hours + 60 * minutes + rest


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """Table of a profile, in which an unknown key is an error."""


class ThreadsProfile(Struct, frozen=True):
    """Threads of the command's own process, the default: one for each CPU that it may use."""

    threads: int = field(default_factory=usable_cpus)


class LocalProfile(_Table, frozen=True, tag_field="kind", tag="local"):
    """Worker processes on this machine."""

    workers: Count | None = None  # by default one for each usable CPU
    memory_limit: Size | None = None  # of each process; by default see `worker_memory`


class SchedulerProfile(_Table, frozen=True, tag_field="kind", tag="scheduler"):
    """Running Dask scheduler with workers; without TLS, its address is not encrypted."""

    address: Address
    tls: Tls = True


class Jobs(_Table, frozen=True):
    """Resources of each job, and the number of jobs."""

    minimum: NonNegative = 0  # number of jobs that are kept without work
    maximum: Count = 10
    cores: Count = 4  # of a job; each core runs one worker process
    memory: Size = "8GiB"  # of a job
    walltime: Duration = "04:00:00"
    queue: Name | None = None  # in SLURM, a partition
    account: Name | None = None
    directives: tuple[Line, ...] = ()  # further lines in the header of the job script
    prologue: tuple[Line, ...] = ()  # shell commands before the worker starts
    resources: Line | None = None  # request that replaces cores and memory
    python: Directory | None = None  # interpreter on the nodes; by default the current one
    logs: SharedPath | None = None  # of the jobs; by default a directory in the work directory
    poll: Duration = "00:00:30"  # interval between two listings of the queue

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")
        if seconds(self.walltime) < 60:
            raise ValueError(f"walltime {self.walltime} is below the limit of one minute")


class JobWorkers(_Table, frozen=True):
    """Settings of a worker process in its job."""

    scratch: Directory = "${TMPDIR:-/tmp}"  # on the node's own disk
    interface: Name | None = None  # network interface, such as ib0; by default Dask's choice
    death_timeout: Duration = "00:02:00"  # after which a worker without a scheduler ends
    lifetime: Duration | None = None  # by default the job ends shortly before its walltime
    lifetime_stagger: Duration | None = None


class Listener(_Table, frozen=True):
    """Address of the scheduler in the command's own process, which the nodes can reach.

    Without a host or an interface, the scheduler listens on every interface, which requires TLS.
    """

    host: Host | None = None
    interface: Name | None = None
    port: Port = 0  # 0 stands for any free port

    def __post_init__(self) -> None:
        if self.host is not None and self.interface is not None:
            raise ValueError("host and interface exclude each other. Give one of them")

    @property
    def everywhere(self) -> bool:
        """Whether the scheduler listens on every network interface."""
        return self.interface is None and self.host in (None, "0.0.0.0", "::")


@dataclass(frozen=True)
class JobQueue:
    """Job queue that dask-jobqueue can submit to."""

    cluster: str  # ``module:class`` of the `dask_jobqueue.JobQueueCluster`
    # Command that lists the jobs of the user whose name is appended, one job per line with the job
    # number first.
    listing: tuple[str, ...]
    account: str  # option of the class for the account at the site
    # Whether the class has the option ``resource_spec``, which replaces cores and memory.
    has_resources: bool = False
    counts_minutes: bool = False  # whether the walltime is hours:minutes, without seconds


JOB_QUEUES = {
    "slurm": JobQueue(
        "dask_jobqueue:SLURMCluster", ("squeue", "--noheader", "--format=%i", "--user"), "account"
    ),
    "pbs": JobQueue("dask_jobqueue:PBSCluster", ("qselect", "-u"), "account", has_resources=True),
    "lsf": JobQueue(
        "dask_jobqueue:LSFCluster",
        ("bjobs", "-noheader", "-o", "jobid", "-u"),
        "project",
        counts_minutes=True,
    ),
    "sge": JobQueue("dask_jobqueue:SGECluster", ("qstat", "-u"), "project", has_resources=True),
}
"""Job queues by the ``kind`` of a profile."""


class JobQueueProfile(_Table, frozen=True):
    """Workers as jobs of a queue: SLURM, PBS, LSF or SGE.

    By default the certificates are temporary, in the work directory, which the workers can read.
    """

    kind: str  # a key of `JOB_QUEUES`
    jobs: Jobs = Jobs()
    workers: JobWorkers = JobWorkers()
    scheduler: Listener = Listener()
    tls: SharedPath | bool = True

    def __post_init__(self) -> None:
        if self.jobs.resources is not None and not self.job_queue.has_resources:
            able = [kind.upper() for kind, queue in JOB_QUEUES.items() if queue.has_resources]
            raise ValueError(f"jobs.resources is for {' and '.join(able)}. Use jobs.directives")
        lifetime, walltime = self.workers.lifetime, self.jobs.walltime
        if lifetime is not None and seconds(lifetime) >= seconds(walltime):
            raise ValueError(f"workers.lifetime {lifetime} is not below jobs.walltime {walltime}")
        # A peer of an open Dask port can run any code.
        open_to_all = self.scheduler.everywhere or self.workers.interface is None
        if self.tls is False and open_to_all:
            raise ValueError(
                "without TLS, scheduler and workers may not listen on every interface (got "
                f"scheduler.host {self.scheduler.host}, workers.interface "
                f"{self.workers.interface}). Give scheduler.interface and workers.interface, or "
                "leave tls = false out"
            )

    @property
    def job_queue(self) -> JobQueue:
        """Job queue of this kind."""
        return JOB_QUEUES[self.kind]


class Volume(_Table, frozen=True):
    """Persistent volume claim, and its mount path in scheduler and worker pods."""

    claim: Label
    path: MountPath
    read_only: bool = False


class Pods(_Table, frozen=True):
    """Parameters of scheduler and worker pods."""

    image: Name  # with this version of primo_scale, from cluster/Containerfile
    workers: Count = 10  # number of worker pods
    cpus: Count = 4  # of a worker pod; each CPU runs one worker process
    memory: Quantity = "8Gi"  # of a worker pod
    tls_secret: Label = "primo-scale-tls"  # with ca.pem, cert.pem and key.pem, the files of `tls`
    volumes: tuple[Volume, ...] = ()  # of genotypes and work directory, at the command's paths
    user: Count = 1000  # numeric id of the user that owns the work directory
    node_selector: dict[str, str] = {}  # labels of the nodes that may run the pods
    service_account: Label | None = None
    image_pull_secret: Label | None = None
    lifetime: Duration = "24:00:00"  # after which a worker restarts
    lifetime_stagger: Duration = "01:00:00"
    death_timeout: Duration = "00:02:00"  # after which a worker without a scheduler restarts


class KubernetesProfile(_Table, frozen=True, tag_field="kind", tag="kubernetes"):
    """Workers as pods that the Dask operator creates from a DaskCluster resource."""

    pods: Pods
    name: Label  # of the resource, unique per run; a repeated run must use the same name
    namespace: Label = "default"
    address: Address | None = None  # of the scheduler; by default `service_address`
    context: Name | None = None  # of kubectl; by default the current one
    tls: Tls = True

    def __post_init__(self) -> None:
        remedy = (
            'Write tls = "DIR" (primo-scale cluster certificates new DIR), or tls = false where '
            "every machine on the network is trusted"
        )
        if self.tls is True:
            raise ValueError(f"pods need certificates. {remedy}")
        if self.address is not None and not self.address.startswith(self.scheme):
            raise ValueError(
                f"address is not {self.scheme}://, as tls requires (got {self.address}). {remedy}"
            )

    @property
    def scheme(self) -> str:
        """Protocol of the scheduler in Dask's notation, ``tls`` or ``tcp``."""
        return "tls" if self.tls else "tcp"

    @property
    def service_address(self) -> str:
        """Address of the scheduler inside the Kubernetes cluster."""
        return f"{self.scheme}://{self.name}-scheduler.{self.namespace}.svc:{SCHEDULER_PORT}"


ClusterProfile = LocalProfile | SchedulerProfile | JobQueueProfile | KubernetesProfile
Profile = ThreadsProfile | ClusterProfile

PROFILES: dict[str, type[ClusterProfile]] = {
    "local": LocalProfile,
    **dict.fromkeys(JOB_QUEUES, JobQueueProfile),
    "kubernetes": KubernetesProfile,
    "scheduler": SchedulerProfile,
}
"""Type of the profile of every kind."""


def worker_memory(profile: Profile) -> int | None:
    """Return the memory limit of each worker process in bytes, or None for a running scheduler.

    On this machine the start of workers and the pre-flight check use this same number. Dask would
    read ``0.5`` as a share, and its own default share of the machine ignores most control groups.
    """
    if isinstance(profile, LocalProfile):
        whole = memory_limit()
        if profile.memory_limit is None:
            return whole // usable_cpus()
        return min(whole, size_bytes(profile.memory_limit))
    if isinstance(profile, JobQueueProfile):
        return size_bytes(profile.jobs.memory) // profile.jobs.cores
    if isinstance(profile, KubernetesProfile):
        return size_bytes(f"{profile.pods.memory}B") // profile.pods.cpus
    return None


def fits(text: str, kind: object) -> bool:
    """Return whether a text follows the pattern of a kind such as `Size` or `SharedPath`."""
    return re.match(get_args(kind)[1].pattern, text) is not None


def size_bytes(size: str) -> int:
    """Return the bytes of a size such as ``8GiB``."""
    number = size.rstrip("KMGTiB")
    step = 1024 if "i" in size else 1000
    return int(float(number) * step ** (1 + "KMGT".index(size[len(number)])))


# Words of msgspec, and the words for the user of a TOML file.
_WORDS = {f"`str` matching regex {text.pattern!r}": str(text.description) for text in TEXTS} | {
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
    "Expected": "expected",
    "`object`": "a table",
}


def read_profile(file: Path) -> Profile:
    """Read and check a profile, whose directories are relative to the directory of the file."""
    refuse_missing_file(file)
    table = _load_toml(file)
    kind = table.get("kind")
    if kind not in list(PROFILES):
        raise InputError("kind is unknown", where=file, value=kind, limit=", ".join(PROFILES))
    for place, key in ((table, "tls"), (table.get("jobs"), "logs")):
        if isinstance(place, dict) and isinstance(place.get(key), str):
            place[key] = str(file.absolute().parent / os.path.expanduser(place[key]))
    try:
        return converted(table, PROFILES[kind])
    except msgspec.ValidationError as error:
        raise _refusal(str(error), table, file) from error


def _load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also of a number with thousands of digits
        raise InputError(f"is not TOML: {error}", where=path) from error
    except RecursionError as error:
        raise InputError(
            "is not TOML: tables or lists are nested too deeply", where=path
        ) from error


def _refusal(message: str, table: dict[str, Any], file: Path) -> InputError:
    """Return the error for a message of msgspec, such as ``Expected `int` - at `$.jobs.cores```."""
    problem, _, place = message.partition(" - at `$.")
    place, value, limit = place.rstrip("`"), None, None
    if problem.startswith("Expected"):
        value = repr(_value_at(place, table))
    elif "unknown field" in problem:
        limit = f"one of {', '.join(_keys_at(place, PROFILES[table['kind']]))}"
    for theirs, ours in _WORDS.items():
        problem = problem.replace(theirs, ours)
    what = f"{place}: {problem}" if place else problem
    return InputError(what, where=file, value=value, limit=limit)


def _value_at(place: str, table: dict[str, Any]) -> Any:
    value: Any = table
    for step in re.findall(r"\w+", place):
        value = value[int(step) if isinstance(value, list) else step]
    return value


def _keys_at(place: str, table: type[Struct]) -> tuple[str, ...]:
    """Return the keys that the table at a place such as ``pods.volumes[0]`` may contain."""
    for step in re.findall(r"[a-z_]+", place):
        hint = get_type_hints(table)[step]
        table = next(kind for kind in (hint, *get_args(hint)) if is_struct_type(kind))
    return table.__struct_fields__
