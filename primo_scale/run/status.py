"""State of a run and of its work directory, read from its log without disturbing the run."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from primo_scale.errors import InputError, InterruptedRun
from primo_scale.humanize import bytes_in_words, duration_in_words
from primo_scale.machine import disk_usage, free_disk
from primo_scale.run.run_log import DONE, EXIT_CODE, RUN_LOG
from primo_scale.run.work_directory import LOCK
from primo_scale.storage.files import lock_is_held

_REMARKS = {
    "running": "running",
    "finished": "finished",
    "stopped": "stopped; the same command continues it",
    "failed": "failed",
    "unknown": "runs on another machine, whose processes cannot be seen from here",
}
_START = re.compile(r"primo_scale \S+: (?P<command>\S+) \(process (?P<pid>\d+) on (?P<host>.+)\)")
_STAGE = re.compile(r"stage (.+): begins")


@dataclass(frozen=True)
class Status:
    """State of a run and of its work directory. PRIVATE: it counts tasks, hence people.

    Attributes
    ----------
    state
        ``running``: a living process holds the lock; ``finished``; ``failed``: it ended with an
        error; ``stopped``: it was interrupted or killed, and the same command continues it;
        ``unknown``: it is on another machine and has not logged its end.
    command, pid, host, started
        Command of the last run, its process, and when it started, in ISO 8601.
    stage
        Current or last stage; empty before the first.
    message, logged
        Last line of the log, such as the progress or an error, and its time.
    disk
        Bytes in use on the disk, by name in the work directory, largest first.
    disk_free
        Free bytes.
    """

    state: str
    command: str
    pid: int
    host: str
    started: str
    stage: str
    message: str
    logged: str
    disk: dict[str, int]
    disk_free: int


def read_status(work_dir: Path) -> Status:
    """Return the state of the run in a work directory, which a run must have started in."""
    if not work_dir.is_dir():
        raise InputError("no such work directory", where=work_dir)
    # The lock comes first: a run that ends after this line has logged its end before the next.
    held = lock_is_held(work_dir / LOCK)
    start, stage, lines = None, "", [("", "")]
    for time, message in _lines(work_dir / RUN_LOG):
        if found := _START.fullmatch(message):
            start, stage, lines = (time, found), "", []
        if entered := _STAGE.fullmatch(message):
            stage = entered[1]
        lines.append((time, message))
    if start is None:
        raise InputError(
            "holds no log of a run: none has started here, or its intermediates were purged",
            where=work_dir,
        )
    started, command = start
    state = "running" if held else _state(lines[-1][1], command["host"])
    is_end = lines[-1][1].startswith(EXIT_CODE) and len(lines) > 1
    logged, message = lines[-2 if is_end else -1]
    return Status(
        state, command["command"], int(command["pid"]), command["host"], started,
        stage, message, logged, disk_usage(work_dir), free_disk(work_dir),
    )  # fmt: skip


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the time and the message of each line of a log, text or JSON."""
    content = path.read_text(errors="replace") if path.is_file() else ""
    for line in content.splitlines():
        if re.match(r"\d{4}-\d\d-\d\dT\S+ ", line):
            time, _, message = line.partition(" ")
            yield time, message
        elif line.startswith("{"):
            try:
                record = json.loads(line)
                yield str(record["time"]), str(record["message"])
            except (ValueError, LookupError):  # a disk was full
                continue


def _state(last: str, host: str) -> str:
    """Return the state of a run that does not hold the lock, by the last line of its log."""
    if last == DONE:
        return "finished"
    if last == f"{EXIT_CODE}{InterruptedRun.exit_code}":
        return "stopped"
    if last.startswith(EXIT_CODE):
        return "failed"
    return "stopped" if host == socket.gethostname() else "unknown"


def status_lines(work_dir: Path, status: Status) -> Iterator[str]:
    """Yield the lines that describe a status to the operator."""
    who = f"{status.command}, process {status.pid} on {status.host}"
    since = f"started {_ago(status.started)} ago"
    yield f"{work_dir}: {status.stage or status.command}, {_REMARKS[status.state]} ({who}, {since})"
    if status.state != "failed":
        yield f"  {'log':<8}  {status.message} ({_ago(status.logged)} ago)"
    used = ", ".join(f"{name} {bytes_in_words(size)}" for name, size in [*status.disk.items()][:3])
    total = bytes_in_words(sum(status.disk.values()))
    yield f"  {'disk':<8}  {total} used ({used}), {bytes_in_words(status.disk_free)} free"


def _ago(time: str) -> str:
    seconds = (datetime.now().astimezone() - datetime.fromisoformat(time)).total_seconds()
    return duration_in_words(max(0.0, seconds))
