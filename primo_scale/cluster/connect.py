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
from primo_scale.cluster.local import local_cluster, workers_replaced
from primo_scale.cluster.profile import (
    ClusterProfile,
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    SchedulerProfile,
)
from primo_scale.errors import InputError

_CONNECT_TIMEOUT_SECONDS = 30
# Includes scheduling the pods, pulling their image and starting them.
_PODS_TIMEOUT_SECONDS = 1800


@contextmanager
def dask_client(profile: ClusterProfile, scratch: Path) -> Iterator[Client]:
    """Start or connect to the cluster of a profile, and stop at the end what was started.

    `scratch` is a private directory in the work directory, which job-queue workers must also be
    able to read.
    """
    with ExitStack() as started:
        if isinstance(profile, SchedulerProfile):
            security = security_towards(profile.address, profile.tls)
            client = _connected(profile.address, security, "--scheduler", wait_for_workers=True)
        elif isinstance(profile, LocalProfile):
            certificates = started.enter_context(throw_away_certificates(scratch))
            cluster = local_cluster(profile, security_of(certificates), scratch)
            started.enter_context(cluster)
            started.enter_context(workers_replaced(cluster))
            client = Client(cluster)
        elif isinstance(profile, JobQueueProfile):
            client = _job_queue_client(profile, scratch, started)
        else:
            client = _kubernetes_client(profile, started)
        with client:
            yield client


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


def _kubernetes_client(profile: KubernetesProfile, started: ExitStack) -> Client:
    from primo_scale.cluster.kubernetes import applied

    security = None
    if isinstance(profile.tls, str):
        security = security_of(read_mounted_certificates(Path(profile.tls)).directory)
    address = started.enter_context(applied(profile))
    return _connected(address, security, "--cluster", timeout=_PODS_TIMEOUT_SECONDS)


def _connected(
    address: str,
    security: Security | None,
    where: str,
    *,
    timeout: int = _CONNECT_TIMEOUT_SECONDS,
    wait_for_workers: bool = False,
) -> Client:
    """Connect to a running scheduler, and check that it has workers if they should be there."""
    client = None
    try:
        client = Client(address, security=security, timeout=timeout)
        if wait_for_workers:
            client.wait_for_workers(1, timeout=timeout)
        return client
    except (OSError, ValueError, TimeoutError):
        if client is not None:
            client.close()
    # An unconnected client closes itself when it is garbage-collected, under a lock of the event
    # loop. Collecting it here avoids that during the start of the next cluster.
    client = None
    gc.collect()
    raise InputError(
        "no Dask scheduler with workers answers",
        where=where,
        value=address,
        limit=f"{timeout} s",
        remedy="Start `dask scheduler` and `dask worker`, or leave the option out",
    )
