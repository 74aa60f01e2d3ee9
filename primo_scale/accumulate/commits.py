"""What a running accumulation has committed, seen from another process: names and times alone.

`Partials.committed` is for the process that holds the lock: every chunk of a task counts, wherever
the store lies. This is for onlookers, on a disk: the last chunk that a task writes is there, or it
is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from primo_scale.accumulate.amounts import Amount, Scales
from primo_scale.accumulate.partials import KIND, Partials
from primo_scale.accumulate.plan import RowTask, Task
from primo_scale.storage.chunk_times import Index, chunk_times
from primo_scale.storage.chunks import chunk_path
from primo_scale.storage.groups import attributes_of, is_complete, open_group


@dataclass(frozen=True)
class Kind:
    """Tasks of one kind.

    Attributes
    ----------
    whole
        All that the plan has.
    commits
        (seconds since the epoch, weight) of those that are committed, in no order.
    """

    whole: Amount
    commits: tuple[tuple[float, int], ...]

    @property
    def done(self) -> Amount:
        """Those that are committed."""
        return Amount(len(self.commits), sum(weight for _, weight in self.commits))


@dataclass(frozen=True)
class Commits:
    """Row tasks and tile tasks of one plan, and which of them are committed."""

    rows: Kind
    tiles: Kind

    @property
    def whole(self) -> Amount:
        """The plan."""
        return self.rows.whole + self.tiles.whole

    @property
    def done(self) -> Amount:
        """What is committed of it."""
        return self.rows.done + self.tiles.done


def read_commits(path: Path) -> Commits | None:
    """Look at a store of partial sums without opening it for writing, or None if there is none.

    Parameters
    ----------
    path
        The store, on a file system of this machine.
    """
    if not is_complete(path, KIND):
        return None
    partials = Partials(path, str(attributes_of(open_group(path, KIND))["store_id"]))
    plan, scales = partials.plan, Scales.of(partials)
    arrays = chunk_path(partials.array("outcome_gram"), ()).parent.parent
    written: dict[str, dict[Index, float]] = {}

    def time_of(task: Task) -> float | None:
        array, index = _last_chunk(task)
        if array not in written:
            written[array] = chunk_times(arrays, array)
        return written[array].get(index)

    def kind(tasks: list[Task]) -> Kind:
        times = ((task, time_of(task)) for task in tasks)
        commits = ((time, scales.weight(task)) for task, time in times if time is not None)
        return Kind(scales.amount(tasks), tuple(commits))

    return Commits(kind([*plan.row_tasks()]), kind([*plan.tile_tasks()]))


def _last_chunk(task: Task) -> tuple[str, Index]:
    """Array and grid position of what a task commits after all else."""
    if isinstance(task, RowTask):
        return "outcome_gram", (task.stripe, 0, 0)
    return f"gram/{task.block}", (task.row_group, task.row_tile, task.column_tile)
