"""Dask clients connected to the cluster of a profile, and why a scheduler is not reached."""

from __future__ import annotations

import gc
import importlib.util
import re
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Client, Security, performance_report
from distributed.comm import CommClosedError

from primo_scale.cluster.certificates import (
    read_certificates,
    read_mounted_certificates,
    security_of,
    security_towards,
    throw_away_certificates,
)
from primo_scale.cluster.kubernetes import applied, refuse_missing_kubectl
from primo_scale.cluster.local import environment_restored, local_cluster, workers_replaced
from primo_scale.cluster.profile import (
    ClusterProfile,
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    Profile,
    SchedulerProfile,
)
from primo_scale.errors import InputError
from primo_scale.storage.files import write_atomically

_CONNECT_TIMEOUT_SECONDS = 30
# Includes scheduling the pods, pulling their image and starting them.
_PODS_TIMEOUT_SECONDS = 1800
_ADDRESS = re.compile(r"((tls|tcp)://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+):[0-9]+")

_PROBE_SECONDS = 5
# Dask's template loads the icon from its web site, which could log every view of the report.
_ICON = re.compile(rb'<link rel="shortcut icon"[^>]*>')


@contextmanager
def dask_client(
    profile: ClusterProfile, scratch: Path, *, where: str = "--cluster"
) -> Iterator[Client]:
    """Start or connect to the cluster of a profile, and stop at the end what was started.

    `scratch` is a private directory in the work directory, which job-queue workers must also be
    able to read. `where` is the option that gave the profile, for errors of connections.
    """
    with ExitStack() as started:
        if isinstance(profile, SchedulerProfile):
            security = security_towards(profile.address, profile.tls, where=where)
            timeout = _CONNECT_TIMEOUT_SECONDS
            client = _connected(profile.address, security, where, timeout=timeout)
        elif isinstance(profile, LocalProfile):
            started.enter_context(environment_restored())
            certificates = started.enter_context(throw_away_certificates(scratch))
            cluster = local_cluster(profile, security_of(certificates), scratch)
            started.enter_context(cluster)
            started.enter_context(workers_replaced(cluster))
            client = Client(cluster)
        elif isinstance(profile, JobQueueProfile):
            client = _job_queue_client(profile, scratch, started)
        else:
            client = _kubernetes_client(profile, where, started)
        with client:
            if isinstance(profile, SchedulerProfile):
                _wait_for_worker(client, profile.address, where)
            yield client


def check_reachable(profile: Profile, *, where: str) -> None:
    """Refuse a cluster that cannot be used, as far as a moment shows; start nothing.

    A running scheduler is connected to, and has to have a worker. The command that submits jobs or
    pods has to be installed.
    """
    if isinstance(profile, SchedulerProfile):
        with dask_client(profile, Path(), where=where):
            return
    if isinstance(profile, JobQueueProfile):
        from primo_scale.cluster.job_queue import refuse_missing_submit_command

        refuse_missing_submit_command(profile)
    if isinstance(profile, KubernetesProfile):
        refuse_missing_kubectl()


def _job_queue_client(profile: JobQueueProfile, scratch: Path, started: ExitStack) -> Client:
    """Start a cluster with the profile's certificates, or with those of this run if it has none."""
    # Imported only here, because dask-jobqueue reads its configuration files on import.
    from primo_scale.cluster.job_queue import job_queue_cluster

    certificates = None
    if isinstance(profile.tls, str):
        certificates = read_certificates(Path(profile.tls)).directory
    elif profile.tls:
        certificates = started.enter_context(throw_away_certificates(scratch))
    return Client(started.enter_context(job_queue_cluster(profile, certificates, scratch)))


def _kubernetes_client(profile: KubernetesProfile, where: str, started: ExitStack) -> Client:
    security = None
    if isinstance(profile.tls, str):
        security = security_of(read_mounted_certificates(Path(profile.tls)).directory)
    address = started.enter_context(applied(profile))
    remedy = "Look at the pod of the scheduler with kubectl, or correct address of the profile"
    return _connected(address, security, where, timeout=_PODS_TIMEOUT_SECONDS, remedy=remedy)


def _connected(
    address: str, security: Security | None, where: str, *, timeout: int, remedy: str | None = None
) -> Client:
    """Connect to a running scheduler; see `no_connection` for `remedy`."""
    try:
        return Client(address, security=security, timeout=timeout)
    except (OSError, ValueError, MemoryError) as error:  # MemoryError: the peer is not Dask
        cause = without_frames(error)
    # An unconnected client closes itself when it is garbage-collected, under a lock of the event
    # loop. Collecting it here avoids that during the start of the next cluster.
    gc.collect()
    raise no_connection(cause, address, where=where, seconds=timeout, remedy=remedy) from cause


def _wait_for_worker(client: Client, address: str, where: str) -> None:
    """Wait until a running scheduler has a worker."""
    seconds = _CONNECT_TIMEOUT_SECONDS
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        raise _NO_WORKERS.refusal(address, where=where, seconds=seconds) from error
    except OSError as error:  # the scheduler ended meanwhile
        raise no_connection(error, address, where=where, seconds=seconds) from error


@dataclass(frozen=True)
class _Fault:
    """Cause and remedy, and whether the command kept trying for the whole time that it waits."""

    what: str
    remedy: str
    waits: bool = False

    def refusal(
        self, address: str, *, where: str, seconds: int, remedy: str | None = None
    ) -> InputError:
        """Return the error; `remedy` replaces that of a scheduler that is not reached."""
        return InputError(
            self.what,
            where=where,
            value=address,
            limit=f"{seconds} s" if self.waits else None,
            remedy=remedy if self.waits and remedy is not None else self.remedy,
        )


_NO_ADDRESS = _Fault(
    "not an address of a Dask scheduler", "Write tls://HOST:PORT or tcp://HOST:PORT"
)
_NO_SUCH_HOST = _Fault(
    "the host name of the scheduler does not resolve",
    "Correct the name, or write an IP address",
    waits=True,
)
_NOTHING_LISTENS = _Fault(
    "nothing listens at the scheduler's address",
    "Start `dask scheduler` there, or correct host and port",
    waits=True,
)
_NO_ANSWER = _Fault(
    "the scheduler does not answer",
    "Start `dask scheduler` there, correct host and port, or open the port in the firewall",
    waits=True,
)
_NOT_DASK = _Fault(
    "what listens at this address is no Dask scheduler, or one with TLS",
    "Correct host and port, or write tls:// and give --tls DIR (in a profile tls)",
)
_OTHER_AUTHORITY = _Fault(
    "the certificates of the scheduler and of this command are not of one authority",
    "Give both and the workers the same certificates (--tls DIR, in a profile tls), and start the "
    "cluster again after primo-scale cluster certificates renew",
)
_PLAIN_TEXT = _Fault(
    "the scheduler does not use TLS", "Start it with --protocol tls and the certificates of --tls"
)
_CLOSED_TLS = _Fault(
    "the other end closed the TLS connection: it refuses this certificate, or does not use TLS",
    "Start the scheduler with --protocol tls and the certificates of this command (--tls DIR, in a "
    "profile tls), or correct host and port",
)
_CLOSED = _Fault(
    "the other end closed the connection without TLS",
    "If the scheduler uses TLS, write tls:// and give --tls DIR (in a profile tls)",
)
_NO_WORKERS = _Fault(
    "the scheduler answers, and has no workers",
    "Start `dask worker` with this address and the same certificates; the log of a worker tells "
    "why it does not join",
    waits=True,
)


def no_connection(
    error: Exception, address: str, *, where: str, seconds: int, remedy: str | None = None
) -> InputError:
    """Return the error of a connection to a scheduler that failed with an error of Dask.

    `seconds` is the time for which the command tried. `remedy` replaces the remedies of a scheduler
    that is not reached, if it was not started with Dask's command.
    """
    return _fault(error, address).refusal(address, where=where, seconds=seconds, remedy=remedy)


def without_frames(error: Exception) -> Exception:
    """Return an error whose tracebacks, and so the objects of their frames, are released."""
    for cause in _causes(error):
        cause.__traceback__ = None
    return error


def _fault(error: Exception, address: str) -> _Fault:
    if isinstance(error, ValueError) and _ADDRESS.fullmatch(address) is None:
        return _NO_ADDRESS
    causes = [*_causes(error), *_causes(_tried_once(address))]
    encrypted = address.startswith("tls://")
    for cause in causes:
        if isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return _CLOSED_TLS
        if isinstance(cause, ssl.SSLError):
            return _PLAIN_TEXT if cause.reason == "WRONG_VERSION_NUMBER" else _OTHER_AUTHORITY
        if isinstance(cause, socket.gaierror):
            return _NO_SUCH_HOST
        if isinstance(cause, ConnectionRefusedError):
            return _NOTHING_LISTENS
        if isinstance(cause, ConnectionError):  # reset, or a broken pipe
            return _CLOSED_TLS if encrypted else _CLOSED
    if isinstance(error, CommClosedError):  # after the connection was made
        return _CLOSED_TLS if encrypted else _CLOSED
    if isinstance(error, ValueError):  # "IOStream is not idle": closed before the handshake
        return _CLOSED_TLS if encrypted else _NOT_DASK
    return _NOT_DASK if isinstance(error, MemoryError) else _NO_ANSWER


def _tried_once(address: str) -> OSError | None:
    """Return the error of one plain connection; the time limit may have cut off Dask's last one."""
    parts = urlsplit(f"//{address.rpartition('://')[2]}")
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=_PROBE_SECONDS).close()
    except OSError as error:
        return error
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, also those that Tornado keeps in an attribute."""
    found = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__ or getattr(found, "real_error", None)


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
