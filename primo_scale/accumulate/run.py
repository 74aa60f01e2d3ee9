"""Accumulation from end to end: what remains, run it, sum it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from distributed import Client

from primo_scale.accumulate.amounts import Amount, Scales
from primo_scale.accumulate.engine import run_tasks
from primo_scale.accumulate.partials import Partials
from primo_scale.accumulate.plan import Task, remaining
from primo_scale.accumulate.statistics import RawStatistics, reduce_partials
from primo_scale.accumulate.tasks import run_task

Progress = Callable[[Amount, Amount], None]


def accumulate(
    client: Client, partials: Partials, destination: Path, on_progress: Progress
) -> RawStatistics:
    """Run every task that is not committed yet, then sum the row groups.

    Parameters
    ----------
    client
        A Dask client; its workers must see the paths in `partials`.
    partials
        The checkpoint, empty or half filled.
    destination
        Where the finished statistics go.
    on_progress
        Called with (done, in all), also for what was committed before.

    Returns
    -------
    RawStatistics
        The same integers whatever the workers, the order and the interruptions.
    """
    plan = partials.plan
    committed = partials.committed()
    rows = remaining(plan.row_tasks(), committed)
    # A tile sums clipped rows, so a row group that had to be clipped again voids nothing: the
    # clipping is a function of the inputs alone and gives the same rows.
    tiles = plan.longest_first(remaining(plan.tile_tasks(), committed))
    scales = Scales.of(partials)
    done = scales.amount(committed)
    total = done + scales.amount([*rows, *tiles])
    on_progress(done, total)

    def count(task: Task) -> None:
        nonlocal done
        done += scales.amount([task])
        on_progress(done, total)

    for tasks in (rows, tiles):
        run_tasks(client, run_task, partials, tasks, count)
    return reduce_partials(partials, destination)
