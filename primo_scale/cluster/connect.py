"""Dask clients connected to the cluster of a profile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client, Security

from primo_scale.cluster.certificates import (
    read_certificates,
    read_mounted_certificates,
    security_of,
    security_towards,
    throw_away_certificates,
)
from primo_scale.cluster.connection_faults import no_connection, no_workers, without_frames
from primo_scale.cluster.kubernetes import applied, refuse_missing_kubectl
from primo_scale.cluster.local import local_cluster, workers_replaced
from primo_scale.cluster.profile import (
    ClusterProfile,
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    Profile,
    SchedulerProfile,
)

_CONNECT_TIMEOUT_SECONDS = 30
# Includes scheduling the pods, pulling their image and starting them.
_PODS_TIMEOUT_SECONDS = 1800


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
    address: str,
    security: Security | None,
    where: str,
    *,
    timeout: int,
    remedy: str | None = None,
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
        raise no_workers(address, where=where, seconds=seconds) from error
    except OSError as error:  # the scheduler ended meanwhile
        raise no_connection(error, address, where=where, seconds=seconds) from error
