"""Errors of connections to a Dask scheduler, each with its own cause and remedy."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from distributed.comm import CommClosedError

from primo_scale.errors import InputError

_ADDRESS = re.compile(r"((tls|tcp)://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+):[0-9]+")

_PROBE_SECONDS = 5


@dataclass(frozen=True)
class _Fault:
    """Cause and remedy, and whether the command kept trying for the whole time that it waits."""

    what: str
    remedy: str
    waits: bool = False


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
    "cluster again after primo-scale certificates renew",
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
    fault = _fault(error, address)
    shown = remedy if fault.waits and remedy is not None else fault.remedy
    return InputError(
        fault.what,
        where=where,
        value=address,
        limit=f"{seconds} s" if fault.waits else None,
        remedy=shown,
    )


def no_workers(address: str, *, where: str, seconds: int) -> InputError:
    """Return the error of a scheduler that answers and got no worker within some seconds."""
    return InputError(
        _NO_WORKERS.what,
        where=where,
        value=address,
        limit=f"{seconds} s",
        remedy=_NO_WORKERS.remedy,
    )


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
