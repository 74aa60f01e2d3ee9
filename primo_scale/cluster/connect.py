"""Dask clients connected to the cluster of a profile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, Security

from primo_scale.cluster.certificates import (
    read_certificates,
    read_mounted_certificates,
    security_of,
    security_towards,
    throw_away_certificates,
)
from primo_scale.cluster.local import local_cluster
from primo_scale.cluster.lost_workers import workers_replaced
from primo_scale.cluster.profile import (
    ClusterProfile,
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    SchedulerProfile,
    Tls,
)
from primo_scale.errors import InputError

_CONNECT_TIMEOUT_SECONDS = 30
# Includes scheduling the pods, pulling their image and starting them.
_PODS_TIMEOUT_SECONDS = 1800


@contextmanager
def dask_client(profile: ClusterProfile, scratch: Path) -> Iterator[Client]:
    """Start or connect to the cluster of a profile, and stop at the end what was started.

    Parameters
    ----------
    profile : ClusterProfile
        Profile of the cluster.
    scratch : Path
        Private directory in the work directory, which job-queue workers must also be able to read.

    Raises
    ------
    InputError
        No scheduler answers, the queue refuses the first job, or kubectl fails.
    """
    if isinstance(profile, SchedulerProfile):
        with _scheduler_client(profile) as client:
            yield client
    elif isinstance(profile, LocalProfile):
        with (
            throw_away_certificates(scratch) as certificates,
            local_cluster(profile, security_of(certificates), scratch) as cluster,
            workers_replaced(cluster),
            Client(cluster) as client,
        ):
            yield client
    elif isinstance(profile, JobQueueProfile):
        with _job_queue_client(profile, scratch) as client:
            yield client
    else:
        with _kubernetes_client(profile) as client:
            yield client


def _scheduler_client(profile: SchedulerProfile) -> Client:
    security = security_towards(profile.address, profile.tls)
    return _connected(profile.address, security, "--scheduler", wait_for_workers=True)


@contextmanager
def _job_queue_client(profile: JobQueueProfile, scratch: Path) -> Iterator[Client]:
    # Imported only here, because dask-jobqueue reads its configuration files on import.
    from primo_scale.cluster.job_queue import job_queue_cluster

    with (
        _certificates(profile.tls, scratch) as certificates,
        job_queue_cluster(profile, certificates, scratch) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def _certificates(tls: Tls, scratch: Path) -> Iterator[Path | None]:
    """Yield the directory of the certificates, which are made for this run if none are named."""
    if isinstance(tls, str):
        yield read_certificates(Path(tls)).directory
    elif not tls:
        yield None
    else:
        with throw_away_certificates(scratch) as directory:
            yield directory


@contextmanager
def _kubernetes_client(profile: KubernetesProfile) -> Iterator[Client]:
    from primo_scale.cluster.kubernetes import applied

    security = None
    if isinstance(profile.tls, str):
        security = security_of(read_mounted_certificates(Path(profile.tls)).directory)
    with (
        applied(profile) as address,
        _connected(address, security, "--cluster", timeout=_PODS_TIMEOUT_SECONDS) as client,
    ):
        yield client


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
