"""How a run is doing, from another terminal: ``python -m pipelines.status WORK_DIR``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.command_line import (
    CONTEXT,
    DIRECTORY,
    ContractCommand,
    debug_option,
    explain_errors,
)
from pipelines.options import encryption_option
from primo_scale.errors import InterruptedRun
from primo_scale.in_words import bytes_in_words

if TYPE_CHECKING:
    from pipelines.work_directory import Owner, Status

_REMARKS = {
    "running": "running",
    "finished": "finished",
    "stopped": "stopped; the same command continues it",
    "unknown": "not seen from this machine",
}


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.argument("work_dir", metavar="WORK_DIR", type=DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for machines.")
@encryption_option
@debug_option
@explain_errors
def main(work_dir: Path, as_json: bool, encryption_key: Path | None) -> None:
    """Say which stage the run in WORK_DIR is in, what is left, and how long that takes.

    Takes no lock and asks no cluster: the run does not notice. PRIVATE: what this prints counts
    tasks, and so tells the number of people; it is for the operator's terminal alone.

    Exit code 0: running or finished; 5: stopped, and the same command continues; 3: WORK_DIR is
    no work directory.
    """
    from pipelines.work_directory import read_status
    from primo_scale.storage.encryption import use_key_file

    use_key_file(encryption_key)
    status = read_status(work_dir)
    if as_json:
        click.echo(json.dumps({"work_dir": str(work_dir), **_as_json(status)}))
    else:
        for line in _as_text(work_dir, status, time.time()):
            click.echo(line)
    if status.state == "stopped":
        sys.exit(InterruptedRun.exit_code)


def _as_text(work_dir: Path, status: Status, now: float) -> Iterator[str]:
    who = _who(status.owner, now) if status.state in ("running", "unknown") else ""
    yield f"{work_dir}: {status.stage}, {_REMARKS[status.state]}{who}"
    for what, (done, total) in status.counts.items():
        yield f"  {what:<10}  {done} of {total}, {total - done} left"
    if status.object_store is not None:
        yield f"  {'tasks':<10}  not counted: what is in {status.object_store} is not looked at"
    if status.work_done is not None:
        yield f"  {'work':<10}  {_pace(status, now)}"
    used = ", ".join(f"{name} {bytes_in_words(size)}" for name, size in [*status.disk.items()][:3])
    used_in_all = bytes_in_words(sum(status.disk.values()))
    yield f"  {'disk':<10}  {used_in_all} used ({used}), {bytes_in_words(status.disk_free)} free"
    if status.last_line is not None:
        yield f"  {'log':<10}  {status.last_line.time:%Y-%m-%d %H:%M:%S} {status.last_line.message}"


def _who(owner: Owner | None, now: float) -> str:
    from pipelines.pace import duration

    if owner is None:
        return ""
    process = f"process {owner.pid}" if owner.pid else "a process"
    host = f" on {owner.host}" if owner.host else " on another machine or of another user"
    since = f" for {duration(max(0.0, now - owner.since))}" if owner.since else ""
    return f" ({owner.command or 'a command'}, {process}{host}{since})"


def _pace(status: Status, now: float) -> str:
    from pipelines.pace import duration

    words = [f"{status.work_done:.1%}"]
    if status.speed is not None:
        if status.speed.per_second > 0:
            words.append(f"{60 * status.speed.per_second:.3g} a minute")
        if status.speed.seconds_left is not None:
            at_rate = " at the last rate" if status.state == "stopped" else ""
            words.append(f"about {duration(status.speed.seconds_left)} left{at_rate}")
    if status.last_commit is not None:
        words.append(f"last commit {duration(max(0.0, now - status.last_commit))} ago")
    return ", ".join(words)


def _as_json(status: Status) -> dict[str, Any]:
    owner, speed, line = status.owner, status.speed, status.last_line
    return {
        "stage": status.stage,
        "state": status.state,
        "process": None
        if owner is None
        else {
            "command": owner.command,
            "pid": owner.pid,
            "host": owner.host,
            "since": _time(owner.since),
        },
        "counts": {
            what: {"done": done, "total": total, "left": total - done}
            for what, (done, total) in status.counts.items()
        },
        "work_done": status.work_done,
        "per_second": None if speed is None else speed.per_second,
        "seconds_left": None if speed is None else speed.seconds_left,
        "last_commit": _time(status.last_commit),
        "object_store": status.object_store,
        "disk_bytes": status.disk,
        "disk_free_bytes": status.disk_free,
        "last_log_line": None
        if line is None
        else {"time": line.time.isoformat(), "event": line.event, "message": line.message},
    }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


if __name__ == "__main__":
    main()
