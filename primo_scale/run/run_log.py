"""The log of a run in its work directory, and the record of how the run began and ended."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import AttrsInstance

from primo_scale.errors import InterruptedRun, PrimoError, anticipated
from primo_scale.run.log_records import (
    AS_JSON,
    LOGGED_IN,
    LOGGER,
    JsonLines,
    about,
    error_record,
    leave_stage,
    new_record,
    text_with_time,
)
from primo_scale.run.progress_file import LIVE_PROGRESS, ProgressFile
from primo_scale.run.request import options_of
from primo_scale.version import __version__

RUN_LOG = "run.log"
"""Name in the work directory."""


@contextmanager
def run_logged(work_dir: Path, name: str, request: AttrsInstance) -> Iterator[None]:
    """Write what the project logs during the block to the work directory as well.

    The log opens with the options of the request. How the block ends is recorded. Afterwards the
    logger is as it was before.

    Parameters
    ----------
    work_dir
        Work directory, locked by this run. Its log and progress are private: they tell the number
        of people.
    name
        Name of the operation, such as ``release``.
    request
        Request of the run.
    """
    path = work_dir / RUN_LOG
    log = _RunLog(path, encoding="utf-8")
    path.chmod(0o600)
    log.setFormatter(JsonLines() if AS_JSON.get() else text_with_time())
    log.setLevel(logging.DEBUG)
    own = (log, ProgressFile(work_dir))
    LOGGED_IN.set(path)
    leave_stage()  # of an earlier run that failed in it
    with _also_handled_by(own):
        for record in _start_records(name, request):
            _handle(record, own)
        try:
            yield
        except (PrimoError, MemoryError, OSError, KeyboardInterrupt) as error:
            by_user = isinstance(error, KeyboardInterrupt)
            explained = InterruptedRun("interrupted") if by_user else anticipated(error)
            if explained is not None:  # whoever called the run gets the exception
                _handle(error_record(explained), own)
            raise
        LOGGER.debug("done", extra=about("end", {}))


def _start_records(name: str, request: AttrsInstance) -> Iterator[logging.LogRecord]:
    pid, host = os.getpid(), socket.gethostname()
    start = {"version": __version__, "command": name, "pid": pid, "host": host}
    message = f"primo_scale {__version__}: {name} (process {pid} on {host})"
    yield new_record(logging.INFO, message, "start", start)
    for option, value in options_of(request):
        if value is not None and value is not False and value != ():
            fields = {"name": option, "value": value}
            yield new_record(logging.INFO, f"  --{option} {value}", "option", fields)


def _handle(record: logging.LogRecord, handlers: tuple[logging.Handler, ...]) -> None:
    for handler in handlers:
        handler.handle(record)


class _RunLog(logging.FileHandler):
    """Log file that neither stops the run nor complains when its disk is full."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Leave it to the run to find that the disk is full."""

    def close(self) -> None:
        """Close the file, whatever becomes of its last line."""
        with suppress(OSError):
            super().close()


class _Parents(logging.Handler):
    """Handler that passes records to the parents of the project's logger, as propagation does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record to the parents, if a handler of the program awaits it.

        Without one, Python prints warnings on standard error, which others can often read in the
        output file of a batch job.
        """
        if LOGGER.parent is not None and LOGGER.parent.hasHandlers():
            LOGGER.parent.handle(record)


@contextmanager
def _also_handled_by(own: tuple[logging.Handler, ...]) -> Iterator[None]:
    """Give every record during the block to further handlers, and others what they got before."""
    level, propagate = LOGGER.level, LOGGER.propagate
    parents = (_Parents(LOGGER.getEffectiveLevel()),) if propagate else ()
    for handler in (*own, *parents):
        LOGGER.addHandler(handler)
    LOGGER.setLevel(LIVE_PROGRESS)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
        for handler in (*own, *parents):
            LOGGER.removeHandler(handler)
            handler.close()
