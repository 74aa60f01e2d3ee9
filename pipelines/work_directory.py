"""What a work directory says of its run, without its lock, without a cluster, changing nothing.

Files are the truth: what is committed is there. The log adds who wrote them and when that began.
A run goes on meanwhile, so anything may appear or vanish between two looks.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pipelines.log_lines import LogLine, read_log
from pipelines.pace import Pace
from pipelines.release_place import charge_of
from pipelines.work_places import NOISE, PARTIALS, STATISTICS, STORE, last_claimed
from primo_scale.accumulate.amounts import Amount
from primo_scale.errors import InputError
from primo_scale.machine import free_disk
from primo_scale.storage.lock_owner import lock_owner, locks_are_visible

if TYPE_CHECKING:
    from primo_scale.accumulate.commits import Commits
    from primo_scale.genotypes.ingest_commits import IngestCommits

# A store is made in a few steps, and a look between two of them fails.
_LOOKS, _BETWEEN_LOOKS_SECONDS = 5, 0.1
_BLOCK_BYTES = 512  # of st_blocks
Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Owner:
    """Who works, or worked last, in the directory; None: not known."""

    command: str | None
    pid: int | None
    host: str | None
    since: float | None


@dataclass(frozen=True)
class Speed:
    """How fast the present stage goes: tasks a second, and seconds left at that rate."""

    per_second: float
    seconds_left: float | None


@dataclass(frozen=True)
class Status:
    """A run as its work directory shows it. PRIVATE: it counts tasks, hence people.

    Attributes
    ----------
    stage
        ingest, outcomes, accumulate, reduce (tasks are done, their sums are added up), summed,
        finalize or published.
    state
        running: a living process holds the lock; finished; stopped: the same command continues;
        unknown: the last run was on another machine, whose locks are not seen here.
    owner
        Of the lock if it is held, else of the last run.
    counts
        (done, in all) by what is counted in this stage.
    work_done
        Share of the stage's work, each task counted by what it weighs.
    speed
        Of the run under way, over the last minutes; of the last run, where none is.
    last_commit
        Seconds since the epoch.
    object_store
        URL of the prefix where outcomes and sums lie, if not in the directory. It is not
        looked into, so that `counts` and what follows from them stay empty.
    disk
        Bytes by name in the directory.
    disk_free
        Bytes.
    last_line
        Of the log.
    """

    stage: str
    state: str
    owner: Owner | None
    counts: dict[str, tuple[int, int]]
    work_done: float | None
    speed: Speed | None
    last_commit: float | None
    object_store: str | None
    disk: dict[str, int]
    disk_free: int
    last_line: LogLine | None


def read_status(work_dir: Path) -> Status:
    """Look at a work directory on this machine's file systems.

    Raises
    ------
    InputError
        There is none, or nothing of a run is in it.
    """
    if not work_dir.is_dir():
        raise InputError("no such work directory", where=work_dir)
    if not any((work_dir / name).exists() for name in ("lock", "run.log")):
        raise InputError("is no work directory: no run has begun in it", where=work_dir)
    log = read_log(work_dir / "run.log")
    held = lock_owner(work_dir / "lock")
    owner = _owner(log, None if held is None else held.pid, held is not None)
    stage, progress = _patiently(lambda: _stage(work_dir, log))
    summing = owner is not None and owner.command == "accumulate"
    if stage == "summed" and held is not None and not summing:
        stage = "finalize"
    state = _state(stage, log, owner, held is not None)
    return Status(
        stage=stage,
        state=state,
        owner=owner,
        counts=progress.counts,
        work_done=progress.share,
        speed=_speed(progress, _begun(log), None if state == "stopped" else time.time()),
        last_commit=max((at for at, _ in progress.commits), default=None),
        object_store=None if (work_dir / PARTIALS).is_dir() else last_claimed(work_dir),
        disk=disk_usage(work_dir),
        disk_free=free_disk(work_dir),
        last_line=log[-1] if log else None,
    )


@dataclass(frozen=True)
class _Progress:
    """What is committed of one stage."""

    counts: dict[str, tuple[int, int]]
    whole: Amount
    commits: Sequence[tuple[float, int]]

    @property
    def share(self) -> float | None:
        done = sum(weight for _, weight in self.commits)
        return done / self.whole.weight if self.whole.weight else None


_NOTHING = _Progress({}, Amount(0, 0), ())


def _stage(work_dir: Path, log: Sequence[LogLine]) -> tuple[str, _Progress]:
    charges = _charges(work_dir / NOISE)
    summed = _is_summed(work_dir, log)
    if _is_published(log, charges, summed):
        return "published", _NOTHING
    if summed:
        return "finalize" if charges else "summed", _NOTHING
    if (work_dir / PARTIALS).is_dir():
        from primo_scale.accumulate.commits import read_commits

        commits = read_commits(work_dir / PARTIALS)
        # Once all is summed partial sums are removed, perhaps while they were counted.
        if _is_summed(work_dir, log):
            return _stage(work_dir, log)
        if commits is not None:
            done = commits.done.tasks == commits.whole.tasks
            return "reduce" if done else "accumulate", _of_tasks(commits)
    if (work_dir / f"{STORE}.partial").is_dir():
        from primo_scale.genotypes.ingest_commits import read_ingest_commits

        ingest = read_ingest_commits(work_dir / STORE)
        if ingest is not None:
            return "ingest", _of_partitions(ingest)
    # Nothing is committed yet, or not on this disk: what is under way is as the log has it.
    begun = [line.fields["stage"] for line in log if line.event == "stage begins"]
    return begun[-1] if begun else "outcomes", _NOTHING


def _charges(noise: Path) -> frozenset[str]:
    if not noise.is_dir():
        return frozenset()
    from primo_scale.privacy.noise_at_hand import NoiseAtHand

    return NoiseAtHand(noise).charges()


def _is_summed(work_dir: Path, log: Iterable[LogLine]) -> bool:
    """Whether the statistics are finished; of those in a bucket as the log has it."""
    if (work_dir / STATISTICS).is_dir():
        from primo_scale.accumulate.statistics import finished_plan_digest

        return finished_plan_digest(work_dir / STATISTICS) is not None
    if last_claimed(work_dir) is None:
        return False
    said = [
        line.event
        for line in log
        if line.event == "summed"
        or (line.event == "stage begins" and line.fields["stage"] != "finalize")
    ]
    return said[-1:] == ["summed"]


def _of_tasks(commits: Commits) -> _Progress:
    kinds = {"row tasks": commits.rows, "tile tasks": commits.tiles}
    return _Progress(
        {name: (kind.done.tasks, kind.whole.tasks) for name, kind in kinds.items()},
        commits.whole,
        (*commits.rows.commits, *commits.tiles.commits),
    )


def _of_partitions(ingest: IngestCommits) -> _Progress:
    whole = Amount(ingest.partitions, ingest.partitions)
    counts = {"partitions": (len(ingest.times), ingest.partitions)}
    return _Progress(counts, whole, [(at, 1) for at in ingest.times])


def _is_published(log: Iterable[LogLine], charges: frozenset[str], summed: bool) -> bool:
    """Whether the release that was asked for last is there, and is of this work directory."""
    out, said = None, False
    for line in log:
        if line.event == "published":
            out, said = Path(line.fields["out"]), True
        elif line.event == "start":
            said = False
        elif line.event == "option" and line.fields["name"] == "out":
            out = Path(line.fields["value"])
    if out is None or not out.is_absolute() or not (out / "release.json").is_file():
        return False
    charge = charge_of(out)
    return said or charge in charges or (charge is None and summed)


def _owner(log: Sequence[LogLine], pid: int | None, held: bool) -> Owner | None:
    starts = [line for line in log if line.event == "start"]
    if starts:
        last, fields = starts[-1], starts[-1].fields
        if pid is None or pid == int(fields["pid"]):
            since = last.time.timestamp()
            return Owner(fields["command"], int(fields["pid"]), fields["host"], since)
    return Owner(None, pid, socket.gethostname() if pid else None, None) if held else None


def _state(stage: str, log: Sequence[LogLine], owner: Owner | None, held: bool) -> str:
    if held:
        return "running"
    summing = owner is not None and owner.command == "accumulate"
    if stage == "published" or (stage == "summed" and summing):
        return "finished"
    ended = bool(log) and log[-1].event == "error"
    elsewhere = owner is not None and owner.host not in (None, socket.gethostname())
    if not ended and (elsewhere or not locks_are_visible()):
        return "unknown"
    return "stopped"


def _begun(log: Iterable[LogLine]) -> float | None:
    """When the last run, or its last stage, began."""
    events = ("start", "stage begins")
    return max((line.time.timestamp() for line in log if line.event in events), default=None)


def _speed(progress: _Progress, begun: float | None, now: float | None) -> Speed | None:
    """Rate of the commits since `begun`, up to `now` or else to the last of them."""
    commits = sorted(progress.commits)
    if not commits:
        return None
    begun = commits[0][0] if begun is None else begun
    before = [weight for at, weight in commits if at <= begun]
    done = Amount(len(before), sum(before))
    pace = Pace()
    pace.note(begun, done)
    for at, weight in commits[len(before) :]:
        done += Amount(1, weight)
        pace.note(at, done)
    # The clock of a file server may be ahead of this machine's.
    until = max(commits[-1][0], now or 0.0)
    return Speed(pace.tasks_per_second(until), pace.seconds_left(until, progress.whole))


def disk_usage(work_dir: Path) -> dict[str, int]:
    """Return the bytes on the disk of everything in the directory, by name, largest first."""
    sizes: dict[str, int] = {}
    for directory, _, names in os.walk(work_dir):
        inside = Path(directory).relative_to(work_dir).parts
        for name in names:
            top = inside[0] if inside else name
            sizes[top] = sizes.get(top, 0) + _size(os.path.join(directory, name))
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * _BLOCK_BYTES
    except FileNotFoundError:  # a temporary name that has got its own meanwhile
        return 0


def _patiently(look: Callable[[], Seen]) -> Seen:
    """Look again where a store was seen between two steps of its making or removal."""
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except (InputError, FileNotFoundError):
            time.sleep(_BETWEEN_LOOKS_SECONDS)
    return look()
