"""Log of a run: its lines, as text or as JSON, and the log file in the work directory.

A JSON line is an object with ``time`` (ISO 8601; not in public lines), ``level``, ``stage`` (empty
between stages), ``event`` (the kind of line), ``message`` (the text line) and ``fields``.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import InterruptedRun, PrimoError, anticipated
from primo_scale.interruption import check
from primo_scale.run.progress_file import LIVE_PROGRESS, ProgressFile
from primo_scale.version import __version__

if TYPE_CHECKING:
    from attrs import AttrsInstance

LOGGER = logging.getLogger("primo_scale")
"""Logger of every run."""
RUN_LOG = "run.log"
"""Name of the log in the work directory."""
NOTE = "note"
"""Event of a line that is no more than its message."""
SUMMED = "summed"
"""Event of the line with the digest of the statistics."""

COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("command line", default=())
"""Words of the command line; empty in a program that calls the library."""
AS_JSON: ContextVar[bool] = ContextVar("log as JSON", default=False)
"""Whether the log is written as JSON lines."""
LOGGED_IN: ContextVar[Path | None] = ContextVar("logged in", default=None)
"""Log that explains the error of the last run of this program; None before it and after success."""

_TEXT_TIME = "%Y-%m-%dT%H:%M:%S%z"
_stage: ContextVar[str] = ContextVar("stage", default="")


def about(event: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the argument ``extra`` of a logging call, for a line with an event and fields."""
    return {"event": event, "fields": dict(fields)}


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Log the begin and the end of a stage, which the lines between belong to."""
    check()
    _stage.set(name)
    LOGGER.debug("stage %s: begins", name, extra=about("stage begins", {"stage": name}))
    yield
    # A stage that fails is not left, because its error belongs to it.
    # Its duration may depend on noise, and a batch job prints this line.
    LOGGER.debug("stage %s: ends", name, extra=about("stage ends", {"stage": name}))
    leave_stage()


def leave_stage() -> None:
    """Let the lines that follow belong to no stage."""
    _stage.set("")


class JsonLines(logging.Formatter):
    """Formatter that writes each record as one JSON object on a line.

    Public lines are without ``time``, because the times of two lines show the duration of a stage.
    """

    def __init__(self, *, public: bool = False) -> None:
        super().__init__()
        self._public = public

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        time = datetime.fromtimestamp(record.created).astimezone()
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "stage": _stage.get(),
            "event": getattr(record, "event", NOTE),
            "message": record.getMessage(),
            "fields": getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["fields"] = {**line["fields"], "traceback": self.formatException(record.exc_info)}
        if self._public:
            del line["time"]
        return json.dumps(line, default=str)


def error_record(error: PrimoError) -> logging.LogRecord:
    """Return the log record of an error, with the command that continues an interrupted run."""
    fields: dict[str, object] = {"exit_code": error.exit_code, "what": error.what, **error.facts}
    message = f"error: {error}"
    if isinstance(error, InterruptedRun) and COMMAND_LINE.get():
        fields["continue"] = shlex.join(COMMAND_LINE.get())
        message += f". To continue: {fields['continue']}"
    return _record(logging.ERROR, message, "error", fields)


def _record(level: int, message: str, event: str, fields: dict[str, object]) -> logging.LogRecord:
    """Return a record of the project's logger, to be given to handlers directly."""
    return LOGGER.makeRecord(
        LOGGER.name, level, __file__, 0, message, (), None, extra=about(event, fields)
    )


@contextmanager
def run_logged(work_dir: Path, name: str, request: AttrsInstance) -> Iterator[None]:
    """Write everything that is logged during the block to the work directory as well.

    The log and the progress file are private, because they reveal the number of people. Afterwards
    the logger is as it was before.
    """
    path = work_dir / RUN_LOG
    log = _LogFile(path, encoding="utf-8")
    path.chmod(0o600)
    log.setFormatter(
        JsonLines() if AS_JSON.get() else logging.Formatter("%(asctime)s %(message)s", _TEXT_TIME)
    )
    log.setLevel(logging.DEBUG)
    own = (log, ProgressFile(work_dir))
    LOGGED_IN.set(path)
    leave_stage()  # of an earlier run that failed
    with _also_handled_by(own), ExitStack() as ends:
        ends.push(partial(_log_end, own))
        for record in _start_records(name, request):
            _handle(record, own)
        yield
        LOGGER.debug("done", extra=about("end", {}))
    LOGGED_IN.set(None)


def _log_end(
    own: tuple[logging.Handler, ...], _kind: object, error: BaseException | None, _trace: object
) -> None:
    """Log the exception that ends a run; other handlers get it from the caller."""
    if error is not None:
        _handle(_end_record(error), own)


def _end_record(error: BaseException) -> logging.LogRecord:
    """Return the log record of what ended a run, with the traceback of a bug in the program."""
    by_user = isinstance(error, KeyboardInterrupt)
    explained = InterruptedRun("interrupted") if by_user else anticipated(error)
    if explained is not None:
        return error_record(explained)
    what = f"a bug in the program: {type(error).__name__}: {error}"
    record = error_record(PrimoError(what, remedy="Report it with the traceback in run.log"))
    record.exc_info = (type(error), error, error.__traceback__)
    return record


def _start_records(name: str, request: AttrsInstance) -> Iterator[logging.LogRecord]:
    from primo_scale.run.fields import options_of

    pid, host = os.getpid(), socket.gethostname()
    start = {"version": __version__, "command": name, "pid": pid, "host": host}
    message = f"primo_scale {__version__}: {name} (process {pid} on {host})"
    yield _record(logging.INFO, message, "start", start)
    for option, value in options_of(request):
        is_empty = isinstance(value, tuple) and not value
        if value is not None and value is not False and not is_empty:
            fields = {"name": option, "value": value}
            words = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            yield _record(logging.INFO, f"  --{option} {words}", "option", fields)


def _handle(record: logging.LogRecord, handlers: tuple[logging.Handler, ...]) -> None:
    for handler in handlers:
        handler.handle(record)


class _LogFile(logging.FileHandler):
    """Log file that neither stops the run nor complains when its disk is full.

    With an encryption key it lacks the digest of the statistics, which confirms guesses of them.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, unless it discloses what the key protects."""
        if getattr(record, "event", None) == SUMMED:
            from primo_scale.storage.encryption import key_in_effect  # loads cryptography

            if key_in_effect() is not None:
                return
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore the error: the run itself finds that the disk is full."""

    def close(self) -> None:
        """Close the file, even if its last line cannot be written."""
        with suppress(OSError):
            super().close()


class _Parents(logging.Handler):
    """Handler that passes records to the parents of the project's logger, as propagation does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record to the parents, if the program has configured a handler.

        Otherwise Python would print warnings on standard error, which others can often read in the
        output file of a batch job.
        """
        if LOGGER.parent is not None and LOGGER.parent.hasHandlers():
            LOGGER.parent.handle(record)


@contextmanager
def warnings_collected() -> Iterator[list[str]]:
    """Collect the warnings of the block, which reach no handler but those of the program."""
    messages: list[str] = []
    with _also_handled_by((_Collector(messages),)):
        yield messages


class _Collector(logging.Handler):
    """Handler that appends the text of warnings to a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        """Append the text of a record."""
        self._messages.append(record.getMessage())


@contextmanager
def _also_handled_by(own: tuple[logging.Handler, ...]) -> Iterator[None]:
    """Add handlers for the block; the others get the same records as before."""
    level, propagate, others = LOGGER.level, LOGGER.propagate, LOGGER.handlers[:]
    least = LOGGER.getEffectiveLevel()
    parents = (_Parents(least),) if propagate else ()

    def is_asked_for(record: logging.LogRecord) -> bool:
        return record.levelno >= least

    for handler in others:
        handler.addFilter(is_asked_for)
    for handler in (*own, *parents):
        LOGGER.addHandler(handler)
    LOGGER.setLevel(LIVE_PROGRESS)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
        for handler in others:
            handler.removeFilter(is_asked_for)
        for handler in (*own, *parents):
            LOGGER.removeHandler(handler)
            handler.close()
