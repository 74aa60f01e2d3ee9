"""Errors of tasks on workers: refusal of other versions of primo_scale, and the worker's host.

A path in the error of a task is one on the worker's machine, which may lack what the command sees.
The worker records its host and whether the path exists there, and the command names both.
"""

from __future__ import annotations

import os
import socket

from primo_scale.errors import OnWorker, OtherVersion, PrimoError
from primo_scale.version import __version__


def refuse_other_version(command: str) -> None:
    """Refuse to compute if this worker has another version of primo_scale than the command.

    Sums of another version could have another sensitivity than the proved one. The message names
    the host of the worker and both versions, and nothing private.
    """
    if command != __version__:
        raise OtherVersion(
            f"primo_scale is {__version__} there, and {command} where the command runs",
            where=f"worker on {socket.gethostname()}",
            remedy=f"Install primo_scale {command} for every worker, and start the workers again; "
            "the same command continues",
        )


def with_worker(error: PrimoError) -> PrimoError:
    """Record on an error of a task this worker's host, and whether the error's path exists here."""
    path = str(error.where)
    lacks_path = os.path.isabs(path) and not os.path.exists(path)
    error.on_worker = OnWorker(socket.gethostname(), lacks_path)
    return error


def naming_worker(error: PrimoError) -> PrimoError:
    """Return an error of a task that names the worker's host, unless that is this machine.

    The remedy for a path that exists for this process alone is to share it.
    """
    worker = error.on_worker
    if worker is None or isinstance(error, OtherVersion):  # which names the host itself
        return error
    facts = error.facts
    if worker.lacks_path and os.path.exists(str(error.where)):
        facts["remedy"] = (
            "The path exists for the command, and not for the worker. Workers need the same paths: "
            "mount the file system there, or use --object-store (cluster/README.md)"
        )
    elif worker.host == socket.gethostname():
        return error
    return type(error)(f"{error.what} on worker {worker.host}", **facts)
