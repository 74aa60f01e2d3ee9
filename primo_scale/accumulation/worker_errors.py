"""Errors of tasks on workers: refusal of other versions of primo_scale."""

from __future__ import annotations

import socket

from primo_scale.errors import OtherVersion
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
