"""Reading and checking of profile files; profiles open to other users of a network are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from primo_scale.cluster.profile import (
    JOB_QUEUES,
    KINDS,
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    Profile,
    SchedulerProfile,
    seconds,
)
from primo_scale.cluster.toml_tables import load_toml, read_table
from primo_scale.errors import InputError


def read_profile(file: Path) -> Profile:
    """Read and check a profile.

    Parameters
    ----------
    file : Path
        TOML file with a key ``kind``.

    Returns
    -------
    Profile
        Checked profile.

    Raises
    ------
    InputError
        A key is unknown, or a value has a wrong type or is not allowed or not safe.
    """
    table = load_toml(file)
    kind = table.get("kind")
    if kind not in KINDS:
        raise InputError("kind is unknown", where=file, value=kind, limit=", ".join(KINDS))
    if kind in JOB_QUEUES:
        queue = read_table(JobQueueProfile, table, file)
        _check_job_queue(queue, file)
        return queue
    others = {key: value for key, value in table.items() if key != "kind"}
    if kind == "local":
        return read_table(LocalProfile, others, file)
    if kind == "scheduler":
        return read_table(SchedulerProfile, others, file)
    kubernetes = read_table(KubernetesProfile, others, file)
    return _checked_kubernetes(kubernetes, file)


def _check_job_queue(profile: JobQueueProfile, file: Path) -> None:
    jobs, listener = profile.jobs, profile.scheduler
    if jobs.minimum > jobs.maximum:
        raise InputError(
            "jobs.minimum is above jobs.maximum", where=file, value=jobs.minimum, limit=jobs.maximum
        )
    if seconds(jobs.walltime) < 60:
        raise InputError(
            "jobs.walltime is too short", where=file, value=jobs.walltime, limit="a minute"
        )
    if listener.host is not None and listener.interface is not None:
        raise InputError("give scheduler.host or scheduler.interface, not both", where=file)
    if profile.tls is False:
        _check_interfaces(profile, file)
    if jobs.resources is not None and profile.kind not in ("pbs", "sge"):
        raise InputError(
            "jobs.resources is for PBS and SGE", where=file, remedy="Use jobs.directives"
        )


def _check_interfaces(profile: JobQueueProfile, file: Path) -> None:
    """Refuse to listen on every interface, since a peer of an open Dask port can run any code."""
    listener = profile.scheduler
    everywhere = listener.interface is None and listener.host in (None, "0.0.0.0", "::")
    if everywhere or profile.workers.interface is None:
        raise InputError(
            "without TLS, scheduler and workers may not listen on every interface",
            where=file,
            value=listener.host,
            remedy="Give scheduler.interface and workers.interface, or leave tls = false out",
        )


def _checked_kubernetes(profile: KubernetesProfile, file: Path) -> KubernetesProfile:
    if profile.tls is True:
        raise _unsafe("pods need certificates", str(file), None)
    scheme = "tls" if profile.tls else "tcp"
    host = f"{profile.name}-scheduler.{profile.namespace}.svc"
    address = profile.address or f"{scheme}://{host}:8786"
    if not address.startswith(scheme):
        raise _unsafe(f"address is not {scheme}://, as tls asks for", str(file), address)
    return replace(profile, address=address)


def _unsafe(what: str, where: str, value: Any) -> InputError:
    return InputError(
        what,
        where=where,
        value=value,
        remedy='Write tls = "DIR" (python -m pipelines.certificates new DIR), or tls = false where '
        "every machine on the network is trusted",
    )
