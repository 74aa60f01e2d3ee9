"""State of a run and of its work directory, read without disturbing the run."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.humanize import bytes_in_words, duration_in_words
from primo_scale.machine import disk_usage, free_disk
from primo_scale.run.progress import progress_in_words
from primo_scale.run.run_log import PROGRESS_FILE, RunProgress
from primo_scale.run.work_directory import LOCK
from primo_scale.storage.documents import read_fields
from primo_scale.storage.files import lock_is_held

_REMARKS = {
    "running": "running",
    "finished": "finished",
    "stopped": "stopped; the same command continues it",
    "failed": "failed",
    "unknown": "runs on another machine, whose processes cannot be seen from here",
}


@dataclass(frozen=True)
class Status:
    """State of a run and of its work directory. PRIVATE: it counts tasks, hence people.

    Attributes
    ----------
    state
        ``running``: a living process holds the lock; ``finished``; ``failed``: it ended with an
        error; ``stopped``: it was interrupted or killed, and the same command continues it;
        ``unknown``: it is on another machine and has not recorded its end.
    run
        Record of the run; None if it has not begun to record.
    disk
        Bytes in use on the disk, by name in the work directory, largest first.
    disk_free
        Free bytes.
    """

    state: str
    run: RunProgress | None
    disk: dict[str, int]
    disk_free: int


def read_status(work_dir: Path) -> Status:
    """Return the state of the run in a work directory, which a run must have started in."""
    if not work_dir.is_dir():
        raise InputError("no such work directory", where=work_dir)
    # The lock comes first: a run that ends after this line has recorded its end before the next.
    held = lock_is_held(work_dir / LOCK)
    run = read_progress(work_dir)
    if run is None and not held:
        raise InputError(
            "holds no record of a run: none has started here, or its intermediates were purged",
            where=work_dir,
        )
    return Status(_state(run, held), run, disk_usage(work_dir), free_disk(work_dir))


def read_progress(work_dir: Path) -> RunProgress | None:
    """Return what the last run in `work_dir` recorded, or None if no run started there."""
    path = work_dir / PROGRESS_FILE
    if not path.is_file():
        return None
    remedy = "The next run replaces it; the run is not harmed"
    return read_fields(path, RunProgress, remedy=remedy)


def _state(run: RunProgress | None, held: bool) -> str:
    if held or run is None:
        return "running"
    if run.outcome in ("finished", "failed"):
        return run.outcome
    if run.outcome is None and run.host != socket.gethostname():
        return "unknown"
    return "stopped"


def status_lines(work_dir: Path, status: Status) -> Iterator[str]:
    """Yield the lines that describe a status to the operator."""
    run = status.run
    if run is None:
        yield f"{work_dir}: starting"
    else:
        since = _ago(run.started)
        who = f" ({run.command}, process {run.pid} on {run.host}, started {since} ago)"
        yield f"{work_dir}: {run.stage or run.command}, {_REMARKS[status.state]}{who}"
        if run.total:
            done = progress_in_words(asdict(run))
            yield f"  {'done':<8}  {done}, recorded {_ago(run.updated)} ago"
        if run.out is not None:
            yield f"  {'release':<8}  {run.out}"
        if run.message is not None and status.state != "failed":
            yield f"  {'message':<8}  {run.message}"
    used = ", ".join(f"{name} {bytes_in_words(size)}" for name, size in [*status.disk.items()][:3])
    total = bytes_in_words(sum(status.disk.values()))
    yield f"  {'disk':<8}  {total} used ({used}), {bytes_in_words(status.disk_free)} free"


def _ago(time: str) -> str:
    seconds = (datetime.now().astimezone() - datetime.fromisoformat(time)).total_seconds()
    return duration_in_words(max(0.0, seconds))
