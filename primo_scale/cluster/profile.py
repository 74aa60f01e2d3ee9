"""Profiles, which describe in a TOML file where tasks run.

The defaults are sufficient for a long unattended run, so that ``kind = "slurm"`` alone is a valid
profile. The keys of a profile are documented next to the examples in ``cluster/``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from primo_scale.cluster.toml_tables import at_least, text
from primo_scale.machine import memory_limit, usable_cpus

JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")
KINDS = ("local", *JOB_QUEUES, "kubernetes", "scheduler")

# Names go into job scripts, so they must not contain characters that a shell or queue interprets.
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
"""Directory of certificates made by ``pipelines.certificates``, or whether TLS is used."""


@dataclass(frozen=True)
class ThreadsProfile:
    """Threads of the command's own process, the default.

    Attributes
    ----------
    threads : int
        Number of threads; by default one for each CPU that this process may use.
    """

    threads: int = field(default_factory=usable_cpus)


@dataclass(frozen=True)
class LocalProfile:
    """Worker processes on this machine.

    Attributes
    ----------
    workers : int or None
        Number of processes; None stands for one per usable CPU.
    memory_limit : str or None
        Memory limit of each process, such as ``4GiB``; None stands for the share of one CPU (see
        `worker_memory`).
    """

    workers: int | None = at_least(1, None)
    memory_limit: str | None = text(*_SIZE, None)


@dataclass(frozen=True)
class SchedulerProfile:
    """Running Dask scheduler with workers.

    Attributes
    ----------
    address : str
        Address that the scheduler prints.
    tls : Tls
        Certificates; False permits an address without encryption.
    """

    address: str = text(*_ADDRESS)
    tls: Tls = True


@dataclass(frozen=True)
class Jobs:
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
    logs : Path or None
        Directory of the jobs' output; None stands for a directory in the work directory.
    poll : str
        Interval between two listings of the queue, as hours:minutes:seconds.
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

    scratch: str = text(*_DIRECTORY, "${TMPDIR:-/tmp}")
    interface: str | None = text(*_NAME, None)
    death_timeout: str = text(*_DURATION, "00:02:00")
    lifetime: str | None = text(*_DURATION, None)
    lifetime_stagger: str | None = text(*_DURATION, None)


@dataclass(frozen=True)
class Listener:
    """Address of the scheduler, which runs in the command's own process.

    Attributes
    ----------
    host, interface : str or None
        Address or network interface that the nodes can reach; at most one of the two. Without
        either, the scheduler listens on every interface, which requires TLS.
    port : int
        TCP port; 0 stands for any free port.
    """

    host: str | None = text(*_HOST, None)
    interface: str | None = text(*_NAME, None)
    port: int = at_least(0, 0)


@dataclass(frozen=True)
class JobQueueProfile:
    """Workers as jobs of a queue: SLURM, PBS, LSF or SGE.

    Attributes
    ----------
    kind : str
        Kind of queue, one of `JOB_QUEUES`.
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
    jobs: Jobs = field(default_factory=Jobs)
    workers: JobWorkers = field(default_factory=JobWorkers)
    scheduler: Listener = field(default_factory=Listener)
    tls: Tls = True


@dataclass(frozen=True)
class Volume:
    """Persistent volume claim, and its mount path in scheduler and worker pods."""

    claim: str = text(*_LABEL)
    path: str = text(r"/[A-Za-z0-9._/-]*", "an absolute path")
    read_only: bool = False


@dataclass(frozen=True)
class Pods:
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
        Address of the scheduler for the command; None stands for the name of the service inside the
        cluster.
    context : str or None
        Context of kubectl; None stands for the current context.
    tls : Tls
        Certificates of the command; False stands for no TLS, if every pod is trusted.
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
    """Return the seconds of a duration ``hours:minutes:seconds``."""
    hours, minutes, rest = map(int, duration.split(":"))
    return 3600 * hours + 60 * minutes + rest


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
    return re.fullmatch(_SIZE[0], text) is not None


def size_bytes(size: str) -> int:
    """Return the bytes of a size such as ``8GiB``."""
    number = size.rstrip("KMGTiB")
    step = 1024 if "i" in size else 1000
    return int(float(number) * step ** (1 + "KMGT".index(size[len(number)])))
