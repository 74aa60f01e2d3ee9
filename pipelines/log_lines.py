"""Lines of the log: how they are written, as text or as JSON, and how they are read back.

A JSON line is an object with ``time`` (ISO 8601), ``level``, ``stage`` (empty between stages),
``event`` (what kind of line it is), ``message`` (the text line) and ``fields``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

NOTE = "note"
"""The event of a line that says nothing but its message."""

_TEXT_TIME = "%Y-%m-%dT%H:%M:%S%z"
# What a text log says of the events that readers look for.
_EVENTS_IN_TEXT = (
    ("start", re.compile(r"primo_scale \S+: (?P<command>\w+) \(process (?P<pid>\d+) on (?P<host>\S+)\)$")),  # noqa: E501
    ("option", re.compile(r"  --(?P<name>\S+) (?P<value>.*)$")),
    ("stage begins", re.compile(r"stage (?P<stage>[\w ]+): begins$")),
    ("stage ends", re.compile(r"stage (?P<stage>[\w ]+): ended after (?P<seconds>[\d.]+) s$")),
    ("summed", re.compile(r"statistics sha256: (?P<sha256>[0-9a-f]{64})$")),
    ("published", re.compile(r"published (?P<out>.+)$")),
    ("error", re.compile(r"error: ")),
)  # fmt: skip
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


@dataclass(frozen=True)
class LogLine:
    """A line of a log that was read back; see this module for what the fields are."""

    time: datetime
    event: str
    message: str
    fields: Mapping[str, Any]


def read_log(path: Path) -> list[LogLine]:
    """The lines of a log, whatever formats its runs were asked for; empty where there is none.

    What is no line, such as one that a full disk cut off, is left out.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in map(_parsed, text.split("\n")) if line is not None]


def _parsed(text: str) -> LogLine | None:
    try:
        if text.startswith("{"):
            line = json.loads(text)
            time = datetime.fromisoformat(line["time"])
            return LogLine(time, line["event"], line["message"], line["fields"])
        stamp, _, message = text.partition(" ")
        time = datetime.strptime(stamp, _TEXT_TIME)
    except (ValueError, KeyError, TypeError):
        return None
    for event, pattern in _EVENTS_IN_TEXT:
        if match := pattern.match(message):
            return LogLine(time, event, message, match.groupdict())
    return LogLine(time, NOTE, message, {})
