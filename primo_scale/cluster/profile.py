"""Profiles, which describe in a TOML file where tasks run.

The defaults are sufficient for a long unattended run, so that ``kind = "slurm"`` alone is a valid
profile. The keys of a profile are documented next to the examples in ``cluster/``.
"""

from __future__ import annotations

import re
from typing import Annotated, get_args

from msgspec import Meta, Struct, field

from primo_scale.cluster.queues import JOB_QUEUES, JobQueue
from primo_scale.machine import memory_limit, usable_cpus


def _text(pattern: str, description: str) -> Meta:
    return Meta(pattern=rf"\A{pattern}\Z", description=description)


# Names go into job scripts, so they must not contain characters that a shell or queue interprets.
Name = Annotated[str, _text(r"[A-Za-z0-9._@%:/+-]+", "letters, digits and ._@%:/+-")]
Line = Annotated[str, _text(r"[^\r\n]+", "one line")]
Size = Annotated[str, _text(r"[0-9]+(\.[0-9]+)?[KMGT]i?B", "a size such as 8GiB")]
Duration = Annotated[
    str, _text("[0-9]+:[0-5][0-9]:[0-5][0-9]", "hours:minutes:seconds, such as 04:00:00")
]
Host = Annotated[str, _text(r"[A-Za-z0-9.:-]+", "a host name or an address")]
Directory = Annotated[
    str,
    _text(
        r"[A-Za-z0-9._/${}:-]+",
        "a directory without blanks, in which the job's shell expands $NAMES",
    ),
]
Label = Annotated[
    str,
    _text(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", "at most 52 lower-case letters, digits and -"),
]
MountPath = Annotated[str, _text(r"/[A-Za-z0-9._/-]*", "an absolute path")]
Quantity = Annotated[str, _text(r"[0-9]+[KMGT]i", "a quantity such as 8Gi")]
Address = Annotated[
    str, _text(r"(tcp|tls)://[A-Za-z0-9.\[\]:-]+:[0-9]+", "tcp://HOST:PORT or tls://HOST:PORT")
]
TEXTS: tuple[Meta, ...] = tuple(
    get_args(text)[1]
    for text in (Name, Line, Size, Duration, Host, Directory, Label, MountPath, Quantity, Address)
)
"""Constraints of the texts in a profile: a pattern, and its description for a user."""

Count = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
SCHEDULER_PORT = 8786

Tls = str | bool
"""Directory of certificates made by ``primo-scale certificates``, or whether TLS is used."""


def seconds(duration: str) -> int:
    """Return the seconds of a duration ``hours:minutes:seconds``."""
    hours, minutes, rest = map(int, duration.split(":"))
    return 3600 * hours + 60 * minutes + rest


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """Table of a profile, in which an unknown key is an error."""


class ThreadsProfile(Struct, frozen=True):
    """Threads of the command's own process, the default.

    Attributes
    ----------
    threads : int
        Number of threads; by default one for each CPU that this process may use.
    """

    threads: int = field(default_factory=usable_cpus)


class LocalProfile(_Table, frozen=True, tag_field="kind", tag="local"):
    """Worker processes on this machine.

    Attributes
    ----------
    workers : int or None
        Number of processes; None stands for one per usable CPU.
    memory_limit : str or None
        Memory limit of each process, such as ``4GiB``; None stands for the share of one CPU (see
        `worker_memory`).
    """

    workers: Count | None = None
    memory_limit: Size | None = None


class SchedulerProfile(_Table, frozen=True, tag_field="kind", tag="scheduler"):
    """Running Dask scheduler with workers.

    Attributes
    ----------
    address : str
        Address that the scheduler prints.
    tls : Tls
        Certificates; False permits an address without encryption.
    """

    address: Address
    tls: Tls = True


class Jobs(_Table, frozen=True):
    """Resources of each job, and the number of jobs.

    Attributes
    ----------
    minimum : int
        Number of jobs that are kept without work.
    maximum : int
        Largest number of jobs.
    cores : int
        Cores of a job. Each core runs one worker process.
    memory : str
        Memory of a job, such as ``8GiB``.
    walltime : str
        Time limit of a job, as hours:minutes:seconds.
    queue, account : str or None
        Names at the site (in SLURM a queue is a partition).
    directives : tuple of str
        Further options of the submit command, each of which is a line in the header of the script.
    prologue : tuple of str
        Shell commands before the worker starts, such as ``module load``.
    resources : str or None
        Resource request that replaces cores and memory: PBS ``select``, SGE ``-l``.
    python : str or None
        Interpreter on the nodes; None stands for the path of the current interpreter.
    logs : str or None
        Directory of the jobs' output; None stands for a directory in the work directory.
    poll : str
        Interval between two listings of the queue, as hours:minutes:seconds.
    """

    minimum: NonNegative = 0
    maximum: Count = 10
    cores: Count = 4
    memory: Size = "8GiB"
    walltime: Duration = "04:00:00"
    queue: Name | None = None
    account: Name | None = None
    directives: tuple[Line, ...] = ()
    prologue: tuple[Line, ...] = ()
    resources: Line | None = None
    python: Directory | None = None
    logs: str | None = None
    poll: Duration = "00:00:30"

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")
        if seconds(self.walltime) < 60:
            raise ValueError(f"walltime {self.walltime} is below the limit of one minute")


class JobWorkers(_Table, frozen=True):
    """Settings of a worker process in its job.

    Attributes
    ----------
    scratch : str
        Directory on the node's own disk.
    interface : str or None
        Network interface that workers listen on, such as ``ib0``; None stands for Dask's choice.
    death_timeout : str
        Time after which a worker without a scheduler ends, and its job with it.
    lifetime, lifetime_stagger : str or None
        Time after which a worker closes, and its random variation; None stands for values that end
        the job shortly before its walltime.
    """

    scratch: Directory = "${TMPDIR:-/tmp}"
    interface: Name | None = None
    death_timeout: Duration = "00:02:00"
    lifetime: Duration | None = None
    lifetime_stagger: Duration | None = None


class Listener(_Table, frozen=True):
    """Address of the scheduler, which runs in the command's own process.

    Attributes
    ----------
    host, interface : str or None
        Address or network interface that the nodes can reach; at most one of the two. Without
        either, the scheduler listens on every interface, which requires TLS.
    port : int
        TCP port; 0 stands for any free port.
    """

    host: Host | None = None
    interface: Name | None = None
    port: NonNegative = 0

    def __post_init__(self) -> None:
        if self.host is not None and self.interface is not None:
            raise ValueError("host and interface exclude each other. Give one of them")

    @property
    def everywhere(self) -> bool:
        """Whether the scheduler listens on every network interface."""
        return self.interface is None and self.host in (None, "0.0.0.0", "::")


class JobQueueProfile(_Table, frozen=True):
    """Workers as jobs of a queue: SLURM, PBS, LSF or SGE.

    Attributes
    ----------
    kind : str
        Kind of queue, a key of `JOB_QUEUES`.
    jobs : Jobs
        Resources and number of the jobs.
    workers : JobWorkers
        Settings of the worker processes.
    scheduler : Listener
        Address of the scheduler.
    tls : Tls
        The user's own certificates. True stands for temporary certificates in the work directory,
        which the workers can read; False stands for no TLS, on a network where every machine is
        trusted.
    """

    kind: str
    jobs: Jobs = Jobs()
    workers: JobWorkers = JobWorkers()
    scheduler: Listener = Listener()
    tls: Tls = True

    def __post_init__(self) -> None:
        if self.jobs.resources is not None and not self.job_queue.has_resources:
            able = [kind.upper() for kind, queue in JOB_QUEUES.items() if queue.has_resources]
            raise ValueError(f"jobs.resources is for {' and '.join(able)}. Use jobs.directives")
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
    """Parameters of scheduler and worker pods.

    Attributes
    ----------
    image : str
        Container image with this version of primo_scale, from ``cluster/Containerfile``.
    workers : int
        Number of worker pods.
    cpus : int
        CPUs of a worker pod. Each CPU runs one worker process.
    memory : str
        Memory of a worker pod, such as ``8Gi``.
    tls_secret : str
        Name of the secret with ca.pem, cert.pem and key.pem, the files of ``tls``.
    volumes : tuple of Volume
        Volumes of the genotypes and the work directory, with the same paths as for the command.
    user : int
        Numeric id of the user that owns the work directory.
    node_selector : dict of str to str
        Labels of the nodes that may run the pods.
    service_account, image_pull_secret : str or None
        Names of the Kubernetes service account and image pull secret.
    lifetime, lifetime_stagger : str
        Time after which a worker restarts, and its random variation.
    death_timeout : str
        Time after which a worker without a scheduler restarts.
    """

    image: Name
    workers: Count = 10
    cpus: Count = 4
    memory: Quantity = "8Gi"
    tls_secret: Label = "primo-scale-tls"
    volumes: tuple[Volume, ...] = ()
    user: Count = 1000
    node_selector: dict[str, str] = {}
    service_account: Label | None = None
    image_pull_secret: Label | None = None
    lifetime: Duration = "24:00:00"
    lifetime_stagger: Duration = "01:00:00"
    death_timeout: Duration = "00:02:00"


class KubernetesProfile(_Table, frozen=True, tag_field="kind", tag="kubernetes"):
    """Workers as pods that the Dask operator creates from a DaskCluster resource.

    Attributes
    ----------
    pods : Pods
        Parameters of the pods.
    name : str
        Name of the resource, unique per run. A repeated run must use the same name.
    namespace : str
        Namespace of the resource.
    address : str or None
        Address of the scheduler for the command; None stands for `service_address`.
    context : str or None
        Context of kubectl; None stands for the current context.
    tls : Tls
        Certificates of the command; False stands for no TLS, if every pod is trusted.
    """

    pods: Pods
    name: Label
    namespace: Label = "default"
    address: Address | None = None
    context: Name | None = None
    tls: Tls = True

    def __post_init__(self) -> None:
        remedy = (
            'Write tls = "DIR" (primo-scale certificates new DIR), or tls = false where '
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


def is_size(text: str) -> bool:
    """Return whether `size_bytes` can parse a text: a number with a unit."""
    return re.match(get_args(Size)[1].pattern, text) is not None


def size_bytes(size: str) -> int:
    """Return the bytes of a size such as ``8GiB``."""
    number = size.rstrip("KMGTiB")
    step = 1024 if "i" in size else 1000
    return int(float(number) * step ** (1 + "KMGT".index(size[len(number)])))
