"""Lines of the log, as text or as JSON.

A JSON line is an object with ``time`` (ISO 8601), ``level``, ``stage`` (empty between stages),
``event`` (what kind of line it is), ``message`` (the text line) and ``fields``.
"""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from primo_scale.errors import InterruptedRun, PrimoError
from primo_scale.interruption import check

LOGGER = logging.getLogger("primo_scale")
"""Logger of every run."""

COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("command line", default=())
"""Words of the command line that runs; empty in a program that calls the library."""
AS_JSON: ContextVar[bool] = ContextVar("log as JSON", default=False)
"""Whether the log is written as JSON lines."""
LOGGED_IN: ContextVar[Path | None] = ContextVar("logged in", default=None)
"""Log of the last run of this program, which explains its error; None before the first run."""

NOTE = "note"
"""The event of a line that says nothing but its message."""

_TEXT_TIME = "%Y-%m-%dT%H:%M:%S%z"
_stage: ContextVar[str] = ContextVar("stage", default="")


def about(event: str, fields: Mapping[str, object]) -> dict[str, object]:
    """What a call of the logger takes as ``extra``, for a line that is more than its message."""
    return {"event": event, "fields": dict(fields)}


def enter_stage(name: str) -> None:
    """Let the lines that follow belong to a stage."""
    _stage.set(name)


def leave_stage() -> None:
    """Let the lines that follow belong to none."""
    _stage.set("")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name what is under way in the log, with when it begins and ends; also decorates functions.

    The lines are for the log file and for machines.
    """
    check()
    enter_stage(name)
    start = time.monotonic()
    LOGGER.debug("stage %s: begins", name, extra=about("stage begins", {"stage": name}))
    yield
    # A stage that fails is not left: the error is a line of it.
    seconds = time.monotonic() - start
    extra = about("stage ends", {"stage": name, "seconds": round(seconds, 3)})
    LOGGER.debug("stage %s: ended after %.1f s", name, seconds, extra=extra)
    leave_stage()


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        time = datetime.fromtimestamp(record.created).astimezone()
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "stage": _stage.get(),
            "event": getattr(record, "event", NOTE),
            "message": record.getMessage(),
            "fields": getattr(record, "fields", {}),
        }
        return json.dumps(line, default=str)


def text_with_time() -> logging.Formatter:
    """Time and message."""
    return logging.Formatter("%(asctime)s %(message)s", _TEXT_TIME)


def error_record(error: PrimoError) -> logging.LogRecord:
    """Return the log record of an error, with the command that continues an interrupted run."""
    fields: dict[str, object] = {"exit_code": error.exit_code, "what": error.what, **error.facts}
    message = f"error: {error}"
    if isinstance(error, InterruptedRun) and COMMAND_LINE.get():
        fields["continue"] = shlex.join(COMMAND_LINE.get())
        message += f". To continue: {fields['continue']}"
    return new_record(logging.ERROR, message, "error", fields)


def new_record(
    level: int, message: str, event: str, fields: dict[str, object]
) -> logging.LogRecord:
    """Return a record of the project's logger, for handlers that it is given to directly."""
    return LOGGER.makeRecord(
        LOGGER.name, level, __file__, 0, message, (), None, extra=about(event, fields)
    )
