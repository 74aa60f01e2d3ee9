"""Locations of the stores of a run: the work directory, or a bucket for the large ones."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from primo_scale.errors import InputError, InterruptedRun
from primo_scale.humanize import bytes_in_words, duration_in_words
from primo_scale.machine import disk_usage, free_disk
from primo_scale.outcomes.store import KEY_BYTES
from primo_scale.run.run_log import DONE, EXIT_CODE, LOGGER, RUN_LOG
from primo_scale.storage import files, stores
from primo_scale.storage.locations import Location, ObjectUrl, parse_location
from primo_scale.storage.stores import HEADER, decrypt_file, encrypt_file_content, store_at

GENOTYPES, OUTCOMES, PARTIALS = "genotypes.zarr", "outcomes.zarr", "partials.zarr"
UNADJUSTED = "unadjusted_outcomes.zarr"
STATISTICS, NOISE = "statistics.zarr", "private_statistics"
CLAIMS = "object_store.claim"
DESIGN, LOCK = "design.json", "lock"
HOLD_OUT_KEY = "hold_out.key"
PANEL, COMPONENTS = "ld_panel.json", "ld_components.zarr"
DIRECTIONS, OWN_SUMS = "own_directions.zarr", "own_sums.zarr"
SECOND_PARTIALS = "second_partials.zarr"
PRINCIPAL_COMPONENTS, ANCESTRY = "principal_components.zarr", "ancestry.npy"
SCORE_FEATURES = "score_features.zarr"
"""Names in the work directory."""
INTERMEDIATES = (
    OUTCOMES, PARTIALS, STATISTICS, NOISE, COMPONENTS, PANEL, PRINCIPAL_COMPONENTS, "scratch",
    DESIGN, HOLD_OUT_KEY, UNADJUSTED, "adjustment.json", RUN_LOG, ANCESTRY,
    "progress.json", CLAIMS, "published.json", DIRECTIONS, OWN_SUMS, SECOND_PARTIALS,
    SCORE_FEATURES,
)  # fmt: skip
"""Private files and directories of a run besides its genotypes, all that a purge may delete.

A user may keep a ledger, a key or other results in the same directory.
"""
_CLAIM = "claim"  # in a bucket
SUMS = PARTIALS, STATISTICS, SECOND_PARTIALS, OWN_SUMS
_IN_BUCKET = (*SUMS, OUTCOMES, UNADJUSTED, COMPONENTS, DIRECTIONS, SCORE_FEATURES)


@contextmanager
def locked(work_dir: Path) -> Iterator[None]:
    """Make a private work directory and hold its lock; only the owner can read new files."""
    with files.files_private():
        files.make_private_directory(work_dir)
        with files.exclusive_lock(work_dir / LOCK):
            yield


def store_root(work_dir: Path, object_store: str | ObjectUrl | None) -> Location:
    """Return the location of the stores whose sizes grow with the cohort: the bucket, if any.

    Everything else is in the work directory. The record of paid noise, and that noise, must be
    there, because they must be durable before anything is drawn, and under its lock.
    """
    return work_dir if object_store is None else parse_location(object_store)


def hold_out_key(work_dir: Path) -> bytes:
    """Return the key that chooses the people to hold out, drawn once and stored durably."""
    path = work_dir / HOLD_OUT_KEY
    if not path.is_file():
        files.write_atomically(path, encrypt_file_content(os.urandom(KEY_BYTES), HOLD_OUT_KEY))
    return decrypt_file(path, HOLD_OUT_KEY)


@dataclass(frozen=True)
class _Claims:
    """Record of the prefixes that a work directory has claimed."""

    name: str  # random name of the work directory, which every prefix that it uses contains
    urls: tuple[str, ...]  # prefixes that it uses or was refused, the last one at the end

    @classmethod
    def of(cls, work_dir: Path) -> _Claims | None:
        """Return the record of a work directory, or None if no run asked for an object store."""
        path = work_dir / CLAIMS
        if not path.is_file():
            return None
        remedy = "Use another --work-dir, and empty the prefix of the object store by hand"
        return files.read_fields(path, cls, remedy=remedy)


def claim(object_store: Location, work_dir: Path) -> None:
    """Claim a prefix for one work directory, whose lock then separates two runs there as well.

    The first run writes the random name of its work directory by conditional put. Before anything
    is written there, the work directory records the prefix, so that a purge finds it.

    Sums below the prefix are then this work directory's own. Only the work directory of other sums
    records which charge paid for them.
    """
    before = _Claims.of(work_dir) or _Claims(secrets.token_hex(16), ())
    others = (url for url in before.urls if url != str(object_store))
    claims = _Claims(before.name, (*others, str(object_store)))
    if claims != before:
        files.write_atomically(work_dir / CLAIMS, files.canonical_json(asdict(claims)))
    name, store = claims.name.encode(), store_at(object_store)
    if not store.holds(_CLAIM):
        sums = [each for each in SUMS if store.holds(f"{each}/{HEADER}")]
        if sums:
            raise InputError(
                "the object store holds sums of a work directory whose claim on them is gone",
                where=str(object_store),
                remedy=f"Choose another --object-store, or delete {' and '.join(sums)} there",
            )
    if store.put_if_absent(_CLAIM, name):
        # Some services accept the condition and ignore it: this second put must fail.
        if store.put_if_absent(_CLAIM, name):
            raise stores.no_conditional_put(object_store)
    elif store.read(_CLAIM) != name:
        raise InputError(
            "another work directory keeps its sums there",
            where=str(object_store),
            remedy="Choose another --object-store; or, if that run is given up, delete "
            f"{', '.join(_IN_BUCKET)} and then {_CLAIM} there",
        )
    LOGGER.debug("outcomes and sums: %s", object_store)


def last_claimed(work_dir: Path) -> str | None:
    """Return the prefix that a work directory used last, or None, without asking a service."""
    claims = _Claims.of(work_dir)
    return None if claims is None else claims.urls[-1]


def empty_claimed(work_dir: Path, *, genotypes: bool) -> None:
    """Delete the stores of this locked work directory in buckets, then its claim on each prefix."""
    claims = _Claims.of(work_dir)
    if claims is None:
        return
    for url in claims.urls:
        store = store_at(parse_location(url))
        if not store.holds(_CLAIM) or store.read(_CLAIM) != claims.name.encode():
            continue  # claimed by another, or emptied by a run that was then interrupted
        for name in (*_IN_BUCKET, GENOTYPES) if genotypes else _IN_BUCKET:
            store.remove_below(name)
        store.remove(_CLAIM)
        left = sorted({key.partition("/")[0] for key in store.all_keys()})
        LOGGER.info("purged %s%s", url, f"; left there: {', '.join(left)}" if left else "")


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
    held = files.lock_is_held(work_dir / LOCK)
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
