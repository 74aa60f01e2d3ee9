"""File in which a run records its progress, for ``primo-scale status``.

The reader opens no store, asks no cluster and needs no key. The writer is a log handler, which
records what the run logs about its start, its stages, its progress and its end.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from primo_scale.errors import InputError, InterruptedRun

PROGRESS_FILE = "progress.json"
LIVE_PROGRESS = 5
"""Log level, below DEBUG, of progress for this file alone: about one record per second."""


@dataclass(frozen=True)
class RunProgress:
    """Record of a run. PRIVATE: the number of tasks reveals the number of people."""

    command: str  # such as ``release``
    pid: int
    host: str
    started: str  # times in ISO 8601
    updated: str
    stage: str = ""  # current or last stage; empty before the first
    outcome: str | None = None  # ``finished``, ``interrupted`` or ``failed``; None during the run
    # Error that ended the run, in one line, or what it waits for; None while it makes progress.
    message: str | None = None
    out: str | None = None  # release directory, once it is published
    of_what: str = ""  # what `done` and `total` count: tasks, partitions or pieces
    done: int = 0  # earlier runs included, as in `total`
    total: int = 0  # of the stage; 0 where nothing is counted
    work_done: float | None = None  # share of the stage's work, in [0, 1]
    per_second: float = 0.0  # rate over the last minutes
    # Time left in the stage at this rate; None while it is too early to tell.
    seconds_left: float | None = None


class ProgressFile(logging.Handler):
    """Log handler that updates `PROGRESS_FILE` in a work directory, which this run has locked."""

    def __init__(self, work_dir: Path) -> None:
        super().__init__(LIVE_PROGRESS)
        self._path = work_dir / PROGRESS_FILE
        self._run: RunProgress | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Update the file, if the log record is about the state of the run."""
        now = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="seconds")
        facts: dict[str, Any] = getattr(record, "fields", {})
        event = getattr(record, "event", None)
        if event == "start":
            self._run = RunProgress(
                facts["command"], facts["pid"], facts["host"], started=now, updated=now
            )
        elif self._run is None or (changes := _changes(event, facts, record)) is None:
            return
        else:
            self._run = replace(self._run, updated=now, **changes)
        # After the end, the lock may be another run's or the file purged: neither is overwritten.
        if self._run.outcome is None or _is_of(self._path, self._run):
            _replace(self._path, json.dumps(asdict(self._run)))


def read_progress(work_dir: Path) -> RunProgress | None:
    """Return what the last run in `work_dir` recorded, or None if no run started there."""
    import msgspec  # not needed to verify a release, which imports this module

    path = work_dir / PROGRESS_FILE
    try:
        run = msgspec.json.decode(path.read_bytes(), type=RunProgress)
        datetime.fromisoformat(run.started)
        datetime.fromisoformat(run.updated)
        return run
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:  # of msgspec, or of a date
        raise InputError(
            "is damaged", where=path, remedy="The next run replaces it; the run is not harmed"
        ) from error


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically, if the disk has room: a full disk must not end the run here."""
    temporary = path.with_name(f".{path.name}")
    with suppress(OSError):
        temporary.write_text(text)
        os.replace(temporary, path)


def _is_of(path: Path, run: RunProgress) -> bool:
    """Return whether the file is still that of `run`."""
    try:
        found = read_progress(path.parent)
    except InputError:
        return True
    return found is not None and (found.host, found.pid, found.started) == (
        run.host, run.pid, run.started,
    )  # fmt: skip


def _changes(
    event: str | None, facts: dict[str, Any], record: logging.LogRecord
) -> dict[str, Any] | None:
    """Return the fields that a log record changes; None for a record about something else."""
    match event:
        case "stage begins":
            counts = ("of_what", "done", "total", "work_done", "per_second", "seconds_left")
            defaults = {f.name: f.default for f in fields(RunProgress) if f.name in counts}
            return {"stage": facts["stage"], "message": None, **defaults}
        case "progress":
            return {"message": None, **facts}
        case "waiting":
            return {"message": record.getMessage()}
        case "published":
            return {"out": str(facts["out"])}
        case "error":
            interrupted = facts["exit_code"] == InterruptedRun.exit_code
            outcome = "interrupted" if interrupted else "failed"
            return {"outcome": outcome, "message": record.getMessage()}
        case "end":
            return {"outcome": "finished"}
    return None
