"""Profiles: where tasks run, as a TOML file says it.

Every default that a cluster needs to survive a weekend is here, so that ``kind = "slurm"`` alone is
a profile that works. What a profile may say is documented beside the examples in ``cluster/``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from primo_scale.cluster.toml_tables import at_least, text
from primo_scale.machine import memory_limit, usable_cpus

JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")
KINDS = ("local", *JOB_QUEUES, "kubernetes", "scheduler")

# Names go into job scripts, which a shell and a queue read: nothing that either would interpret.
_NAME = r"[A-Za-z0-9._@%:/+-]+", "letters, digits and ._@%:/+-"
_LINE = r"[^\r\n]+", "one line"
_SIZE = r"[0-9]+(\.[0-9]+)?[KMGT]i?B", "a size such as 8GiB"
_DURATION = r"[0-9]+:[0-5][0-9]:[0-5][0-9]", "hours:minutes:seconds, such as 04:00:00"
_HOST = r"[A-Za-z0-9.:-]+", "a host name or address"
_DIRECTORY = r"[A-Za-z0-9._/${}:-]+", "a directory without blanks; the job's shell expands $NAMES"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", "at most 52 lower-case letters, digits and -"
_QUANTITY = r"[0-9]+[KMGT]i", "a quantity such as 8Gi"
_ADDRESS = r"(tcp|tls)://[A-Za-z0-9.\[\]:-]+:[0-9]+", "tcp://HOST:PORT or tls://HOST:PORT"


Tls = Path | bool
"""Directory of certificates, as ``pipelines.certificates`` makes it; or whether TLS is on."""


@dataclass(frozen=True)
class ThreadsProfile:
    """Threads of the command's own process: what runs where nothing is asked for.

    Attributes
    ----------
    threads : int
        Number of threads, one for each CPU that this process may use.
    """

    threads: int = field(default_factory=usable_cpus)


@dataclass(frozen=True)
class LocalProfile:
    """Worker processes on this machine.

    Attributes
    ----------
    workers
        Processes; None: one for each usable CPU.
    memory_limit
        Of each, such as ``4GiB``; None: the share of one CPU, see `worker_memory`.
    """

    workers: int | None = at_least(1, None)
    memory_limit: str | None = text(*_SIZE, None)


@dataclass(frozen=True)
class SchedulerProfile:
    """A Dask scheduler that runs already and has workers.

    Attributes
    ----------
    address
        As the scheduler prints it.
    tls
        Certificates; False: an address without encryption is meant.
    """

    address: str = text(*_ADDRESS)
    tls: Tls = True


@dataclass(frozen=True)
class Jobs:
    """What is asked of the queue for each job, and how many jobs there may be.

    Attributes
    ----------
    minimum, maximum
        Jobs that are kept although there is nothing to do, and at most.
    cores, memory
        Of one job; each is one worker process.
    walltime
        After which the queue ends a job.
    queue, account
        As the site calls them (SLURM: partition).
    directives
        Further options of the submit command, each a line of the script's head.
    prologue
        Shell commands before the worker starts, such as ``module load``.
    resources
        PBS ``select``, SGE ``-l``: in place of what is made of cores and memory.
    python
        Interpreter on the nodes; None: the path of the one that runs now.
    logs
        Directory for what jobs print; None: in the work directory.
    poll
        How often the queue is asked which jobs there still are.
    """

    minimum: int = at_least(0, 0)
    maximum: int = at_least(1, 10)
    cores: int = at_least(1, 4)
    memory: str = text(*_SIZE, "8GiB")
    walltime: str = text(*_DURATION, "04:00:00")
    queue: str | None = text(*_NAME, None)
    account: str | None = text(*_NAME, None)
    directives: tuple[str, ...] = text(*_LINE, ())
    prologue: tuple[str, ...] = text(*_LINE, ())
    resources: str | None = text(*_LINE, None)
    python: str | None = text(*_DIRECTORY, None)
    logs: Path | None = None
    poll: str = text(*_DURATION, "00:00:30")


@dataclass(frozen=True)
class JobWorkers:
    """How a worker process behaves in its job.

    Attributes
    ----------
    scratch
        Directory on the node's own disk.
    interface
        Network interface that workers listen on, such as ``ib0``; None: Dask's choice.
    death_timeout
        After which a worker without a scheduler ends, and with it its job.
    lifetime, lifetime_stagger
        After which a worker finishes and leaves, give or take; None: so that the job ends a little
        before its walltime.
    """

    scratch: str = text(*_DIRECTORY, "${TMPDIR:-/tmp}")
    interface: str | None = text(*_NAME, None)
    death_timeout: str = text(*_DURATION, "00:02:00")
    lifetime: str | None = text(*_DURATION, None)
    lifetime_stagger: str | None = text(*_DURATION, None)


@dataclass(frozen=True)
class Listener:
    """Where the scheduler, which runs in the command's own process, listens.

    Attributes
    ----------
    host, interface
        Address or network interface that the nodes reach; at most one of the two. Neither: every
        interface, which needs TLS.
    port
        0: any that is free.
    """

    host: str | None = text(*_HOST, None)
    interface: str | None = text(*_NAME, None)
    port: int = at_least(0, 0)


@dataclass(frozen=True)
class JobQueueProfile:
    """Workers as jobs of a queue: SLURM, PBS, LSF or SGE.

    Attributes
    ----------
    kind
        One of `JOB_QUEUES`.
    jobs, workers, scheduler
        See there.
    tls
        Certificates of your own; True: throw-away ones in the work directory, which the workers
        see; False: none, on a network where every machine is trusted.
    """

    kind: str
    jobs: Jobs = field(default_factory=Jobs)
    workers: JobWorkers = field(default_factory=JobWorkers)
    scheduler: Listener = field(default_factory=Listener)
    tls: Tls = True


@dataclass(frozen=True)
class Volume:
    """A persistent volume claim, and where scheduler and workers see it."""

    claim: str = text(*_LABEL)
    path: str = text(r"/[A-Za-z0-9._/-]*", "an absolute path")
    read_only: bool = False


@dataclass(frozen=True)
class Pods:
    """What scheduler and worker pods are made of.

    Attributes
    ----------
    image
        Container with this version of primo_scale: ``cluster/Containerfile``.
    workers
        Worker pods.
    cpus, memory
        Of a worker pod; each is one worker process.
    tls_secret
        Secret with ca.pem, cert.pem and key.pem: the files of ``tls``.
    volumes
        Where genotypes and the work directory are, under the same paths as for the command.
    user
        Number of the user that owns the work directory.
    node_selector, service_account, image_pull_secret
        As Kubernetes calls them.
    lifetime, lifetime_stagger
        After which a worker starts afresh, give or take.
    death_timeout
        After which a worker without a scheduler starts again.
    """

    image: str = text(*_NAME)
    workers: int = at_least(1, 10)
    cpus: int = at_least(1, 4)
    memory: str = text(*_QUANTITY, "8Gi")
    tls_secret: str = text(*_LABEL, "primo-scale-tls")
    volumes: tuple[Volume, ...] = ()
    user: int = at_least(1, 1000)
    node_selector: dict[str, str] = field(default_factory=dict)
    service_account: str | None = text(*_LABEL, None)
    image_pull_secret: str | None = text(*_LABEL, None)
    lifetime: str = text(*_DURATION, "24:00:00")
    lifetime_stagger: str = text(*_DURATION, "01:00:00")
    death_timeout: str = text(*_DURATION, "00:02:00")


@dataclass(frozen=True)
class KubernetesProfile:
    """Workers as pods that the Dask operator makes of a DaskCluster resource.

    Attributes
    ----------
    pods
        See there.
    name
        Of the resource: one for each run, and the same when it is run again.
    namespace
        Where it is made.
    address
        Of the scheduler as the command sees it; None: the service's name inside the cluster.
    context
        Of kubectl; None: the current one.
    tls
        Certificates of the command; False: none, where every pod is trusted.
    """

    pods: Pods
    name: str = text(*_LABEL)
    namespace: str = text(*_LABEL, "default")
    address: str | None = text(*_ADDRESS, None)
    context: str | None = text(*_NAME, None)
    tls: Tls = True


ClusterProfile = LocalProfile | SchedulerProfile | JobQueueProfile | KubernetesProfile
Profile = ThreadsProfile | ClusterProfile


def seconds(duration: str) -> int:
    """Seconds of ``hours:minutes:seconds``."""
    hours, minutes, rest = map(int, duration.split(":"))
    return 3600 * hours + 60 * minutes + rest


def worker_memory(profile: Profile) -> int | None:
    """Bytes that each worker process may have; None: known by the scheduler elsewhere alone.

    On this machine one number for whoever starts workers and for whoever says what they need: Dask
    would take ``0.5`` for a share, and its own share of the machine knows of few control groups.
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
    """Whether `size_bytes` reads it: a number with a unit."""
    return re.fullmatch(_SIZE[0], text) is not None


def size_bytes(size: str) -> int:
    """Bytes of ``8GiB`` and the like."""
    number = size.rstrip("KMGTiB")
    step = 1024 if "i" in size else 1000
    return int(float(number) * step ** (1 + "KMGT".index(size[len(number)])))
