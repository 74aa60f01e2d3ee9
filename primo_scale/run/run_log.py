"""Log of a run, and its state for ``primo-scale status``, in the work directory.

A JSON line is an object with ``time`` (ISO 8601; not in public lines), ``level``, ``stage`` (empty
between stages), ``event`` (the kind of line), ``message`` (the text line) and ``fields``. Reading
the state opens no store, asks no cluster and needs no key.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import InterruptedRun, PrimoError, anticipated
from primo_scale.interruption import check
from primo_scale.version import __version__

if TYPE_CHECKING:
    from attrs import AttrsInstance

LOGGER = logging.getLogger("primo_scale")
"""Logger of every run."""
RUN_LOG, PROGRESS_FILE = "run.log", "progress.json"
"""Names of the log and of the state in the work directory."""
NOTE = "note"
"""Event of a line that is no more than its message."""
SUMMED = "summed"
"""Event of the line with the digest of the statistics."""
LIVE_PROGRESS = 5
"""Log level, below DEBUG, of progress for `PROGRESS_FILE` alone."""

COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("command line", default=())
"""Words of the command line; empty in a program that calls the library."""
AS_JSON: ContextVar[bool] = ContextVar("log as JSON", default=False)
"""Whether the log is written as JSON lines."""
LOGGED_IN: ContextVar[Path | None] = ContextVar("logged in", default=None)
"""Log that explains the error of the last run of this program; None before it and after success."""

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
    extra = about(event, fields)
    return LOGGER.makeRecord(LOGGER.name, level, __file__, 0, message, (), None, extra=extra)


@dataclass(frozen=True)
class RunProgress:
    """State of a run. PRIVATE: the number of tasks reveals the number of people.

    Attributes
    ----------
    command, pid, host
        Command, such as ``release``, and its process.
    started, updated
        Times in ISO 8601.
    stage
        Current or last stage; empty before the first.
    outcome
        ``finished``, ``interrupted`` or ``failed``; None during the run.
    message
        Error that ended the run, or what it waits for; None while it makes progress.
    out
        Release directory, once it is published.
    of_what, done, total, work_done, per_second, seconds_left
        What is counted in the stage, the counts (0 where nothing is counted), the share of its work
        in [0, 1], the rate over the last minutes, and the time left at this rate, or None.
    """

    command: str
    pid: int
    host: str
    started: str
    updated: str
    stage: str = ""
    outcome: str | None = None
    message: str | None = None
    out: str | None = None
    of_what: str = ""
    done: int = 0
    total: int = 0
    work_done: float | None = None
    per_second: float = 0.0
    seconds_left: float | None = None


class RunFiles(logging.Filter):
    """Filter of the logger that writes each record to the files of a run, which has the lock.

    It passes on the records of a level that the logger passes on without it.
    """

    def __init__(self, work_dir: Path) -> None:
        super().__init__()
        self._level = LOGGER.getEffectiveLevel()
        self._path = work_dir / PROGRESS_FILE
        self._run: RunProgress | None = None
        self._log = _LogFile(work_dir / RUN_LOG, encoding="utf-8")
        (work_dir / RUN_LOG).chmod(0o600)
        text = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
        self._log.setFormatter(JsonLines() if AS_JSON.get() else text)
        self.close = self._log.close

    def filter(self, record: logging.LogRecord) -> bool:
        """Write a record, and return whether others get it."""
        if record.levelno >= logging.DEBUG and not _is_protected(record):
            self._log.handle(record)
        changes = _changes(record)
        if changes is not None:
            self._update(record, changes)
        return record.levelno >= self._level

    def _update(self, record: logging.LogRecord, changes: dict[str, Any]) -> None:
        now = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="seconds")
        if "command" in changes:
            self._run = RunProgress(started=now, updated=now, **changes)
        elif self._run is not None:
            self._run = replace(self._run, updated=now, **changes)
        # A purge deletes the file, and a full disk must not end the run here.
        if self._run is not None and (self._run.outcome is None or self._path.exists()):
            temporary = self._path.with_name(f".{self._path.name}")
            with suppress(OSError):
                temporary.write_text(json.dumps(asdict(self._run)))
                os.replace(temporary, self._path)


def _changes(record: logging.LogRecord) -> dict[str, Any] | None:
    """Return the state that a record changes, or None if it is about something else."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    match getattr(record, "event", None):
        case "start":
            return {name: fields[name] for name in ("command", "pid", "host")}
        case "stage begins":
            counts = {"of_what": "", "done": 0, "total": 0, "work_done": None, "per_second": 0.0}
            return {**fields, "message": None, "seconds_left": None, **counts}
        case "progress":
            return {"message": None, **fields}
        case "waiting":
            return {"message": record.getMessage()}
        case "published":
            return {"out": str(fields["out"])}
        case "error":
            interrupted = fields["exit_code"] == InterruptedRun.exit_code
            outcome = "interrupted" if interrupted else "failed"
            return {"outcome": outcome, "message": record.getMessage()}
        case "end":
            return {"outcome": "finished"}
    return None


def _is_protected(record: logging.LogRecord) -> bool:
    """Return whether a record has a digest that confirms guesses of encrypted statistics."""
    if getattr(record, "event", None) != SUMMED:
        return False
    from primo_scale.storage.encryption import key_in_effect  # loads cryptography

    return key_in_effect() is not None


class _LogFile(logging.FileHandler):
    """Log file whose errors are ignored: the run itself finds that the disk is full."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def run_logged(work_dir: Path, name: str, request: AttrsInstance) -> Iterator[None]:
    """Write everything that is logged during the block to the work directory as well.

    The files there are private, because they reveal the number of people. Afterwards the logger is
    as it was before.
    """
    LOGGED_IN.set(work_dir / RUN_LOG)
    leave_stage()  # of an earlier run that failed
    files, level = RunFiles(work_dir), LOGGER.level
    # Without a handler, Python prints warnings on standard error, which others can often read in
    # the output file of a batch job.
    fallback = [] if LOGGER.hasHandlers() else [logging.NullHandler()]
    LOGGER.handlers += fallback
    LOGGER.setLevel(LIVE_PROGRESS)
    LOGGER.addFilter(files)
    try:
        for record in _start_records(name, request):
            files.filter(record)
        yield
        LOGGER.debug("done", extra=about("end", {}))
    except BaseException as error:  # other handlers get it from the caller
        files.filter(_end_record(error))
        raise
    finally:
        LOGGER.removeFilter(files)
        LOGGER.setLevel(level)
        for handler in fallback:
            LOGGER.removeHandler(handler)
        files.close()
    LOGGED_IN.set(None)


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
    from primo_scale.run.typed_fields import options_of

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


@contextmanager
def warnings_collected() -> Iterator[list[str]]:
    """Collect the warnings of the block, besides the handlers of the program."""
    messages: list[str] = []
    collector = logging.Handler(logging.WARNING)
    collector.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    LOGGER.addHandler(collector)
    try:
        yield messages
    finally:
        LOGGER.removeHandler(collector)
