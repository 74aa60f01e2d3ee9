"""Log of a run, in the work directory and at the terminal.

A JSON line is an object with ``time`` (ISO 8601; not in public lines), ``level``, ``stage`` (empty
between stages), ``event`` (the kind of line), ``message`` (the text line) and ``fields``.
``primo-scale status`` reads the log.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import InterruptedRun, PrimoError, anticipated
from primo_scale.humanize import duration_in_words, rate_in_words
from primo_scale.interruption import check
from primo_scale.machine import return_freed_memory
from primo_scale.version import __version__

if TYPE_CHECKING:
    from attrs import AttrsInstance

LOGGER = logging.getLogger("primo_scale")
"""Logger of every run."""
RUN_LOG = "run.log"
"""Name of the log in the work directory."""
DONE, EXIT_CODE = "done", "exit code "
"""Last lines of the log of a run, the second followed by a number."""
NOTE = "note"
"""Event of a line that is no more than its message."""
SUMMED = "summed"
"""Event of the line with the digest of the statistics."""

COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("command line", default=())
"""Words of the command line; empty in a program that calls the library."""
LEVEL: ContextVar[int] = ContextVar("level of the terminal", default=logging.INFO)
"""Least level of what the terminal shows: DEBUG with --verbose, WARNING with --quiet."""
PLAN = "plan"
"""Stage in which everything public about a run is decided."""
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
    return_freed_memory()
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


@contextmanager
def run_logged(work_dir: Path, name: str, request: AttrsInstance) -> Iterator[None]:
    """Write everything that is logged during the block to the work directory as well.

    The files there are private, because they reveal the number of people. Afterwards the logger is
    as it was before.
    """
    path = work_dir / RUN_LOG
    LOGGED_IN.set(path)
    leave_stage()  # of an earlier run that failed
    log, level = logging.FileHandler(path, encoding="utf-8"), LOGGER.level
    # Errors are ignored: the run itself finds that the disk is full.
    log.handleError = lambda record: None  # type: ignore[method-assign]
    path.chmod(0o600)
    text = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    log.setFormatter(JsonLines() if AS_JSON.get() else text)
    least = LOGGER.getEffectiveLevel()

    def write(record: logging.LogRecord) -> bool:
        """Write a record, and return whether handlers get it, as they would without the file."""
        if getattr(record, "event", None) == SUMMED:  # confirms guesses of encrypted statistics
            from primo_scale.storage.stores import key_in_effect  # loads cryptography

            if key_in_effect() is not None:
                return record.levelno >= least
        log.handle(record)
        return record.levelno >= least

    # Without a handler, Python prints warnings on standard error, which others can often read in
    # the output file of a batch job.
    fallback = [] if LOGGER.hasHandlers() else [logging.NullHandler()]
    LOGGER.handlers += fallback
    LOGGER.setLevel(logging.DEBUG)
    LOGGER.addFilter(write)
    try:
        for record in _start_records(name, request):
            log.handle(record)
        yield
        LOGGER.debug(DONE, extra=about("end", {}))
    except BaseException as error:  # other handlers get it from the caller
        ended = _end_record(error)
        log.handle(ended)
        code: int = vars(ended)["fields"]["exit_code"]
        log.handle(_record(logging.DEBUG, f"{EXIT_CODE}{code}", "end", {}))
        raise
    finally:
        LOGGER.removeFilter(write)
        LOGGER.setLevel(level)
        for handler in fallback:
            LOGGER.removeHandler(handler)
        with suppress(OSError):
            log.close()
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


# The pace is that of a window, because workers come and go.
_WINDOW_SECONDS = 600.0
# Intervals between lines of the log grow from the first to the largest.
_FIRST_GAP_SECONDS, _LARGEST_GAP_SECONDS, _GAPS_GROW = 10.0, 60.0, 1.5


@contextmanager
def progress_bar(name: str, of_what: str = "tasks") -> Iterator[Callable[[int, int], None]]:
    """Show and log the progress of a stage, reported by calls of the result with (done, total)."""
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    as_json = any(isinstance(handler.formatter, JsonLines) for handler in LOGGER.handlers)
    is_shown = sys.stderr.isatty() and not as_json and LEVEL.get() <= logging.INFO
    bars = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=None, table_column=Column(ratio=1)),
        progress.TextColumn("{task.fields[count]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        get_time=lambda: time.monotonic(),
        speed_estimate_period=_WINDOW_SECONDS,
        transient=True,
        expand=True,
        disable=not is_shown,
    )
    # Rich takes the first report as the start, and the pace from those that follow.
    bars.add_task(name, total=None, count="")
    (bar,) = bars.tasks

    def log() -> None:
        # Standard error gets lines only where no bar is shown; the log file gets them in any case.
        level = logging.DEBUG if is_shown else logging.INFO
        pace, left = round(bar.speed or 0.0, 4), bar.time_remaining
        fields = {
            "done": int(bar.completed),
            "total": int(bar.total or 0),
            "of_what": of_what,
            "per_second": pace,
            "seconds_left": left,
        }
        line = f"{name}: {fields['done']} of {fields['total']} {of_what}"
        if pace:
            line += f", {rate_in_words(pace)} {of_what} a minute"
        if left:
            line += f", about {duration_in_words(left)} left"
        LOGGER.log(level, "%s", line, extra=about("progress", fields))

    gap, next_line, lines = _FIRST_GAP_SECONDS, None, 0

    def move(done: int, total: int) -> None:
        """Log and show the work that is done."""
        nonlocal gap, next_line, lines
        now = time.monotonic()
        count = f"{done} of {total} {of_what}"
        first = next_line is None  # the state of an earlier run is shown at once
        bars.update(bar.id, completed=done, total=total, count=count, refresh=first)
        if next_line is None:
            next_line = now + gap
        if now >= next_line:
            gap = min(_GAPS_GROW * gap, _LARGEST_GAP_SECONDS)
            next_line, lines = now + gap, lines + 1
            log()

    with bars:
        try:
            yield move
        finally:
            if lines:
                log()
