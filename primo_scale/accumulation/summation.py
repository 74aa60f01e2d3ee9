"""Accumulation from end to end: run the remaining tasks, and sum finished tiles concurrently."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from primo_scale.accumulation.own_sums import OwnReduction, RawOwnSums
from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import Order, Task
from primo_scale.accumulation.reduction import Reduction
from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.accumulation.workload import Amount, Workload
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.locations import Location

_Result_co = TypeVar("_Result_co", covariant=True)

LOGGER = logging.getLogger("primo_scale")
# Number of attempts with damaged partial sums; a disk that keeps damaging data is an error.
_ROUNDS = 3
Progress = Callable[[Amount, Amount], None]
RunTasks = Callable[[Partials, Order, Callable[[Task], None]], None]
"""Function that runs tasks on threads or a Dask cluster, and calls back after each task."""


def accumulate(
    run_tasks: RunTasks, partials: Partials, destination: Location, on_progress: Progress
) -> RawStatistics:
    """Run all tasks that are not committed yet, and sum the row groups.

    The statistics do not depend on workers, order or interruptions. `run_tasks` is
    `thread_stream.run_on_threads` or `engine.run_tasks`, with the other arguments bound.
    `on_progress` is called with (done, total), which include tasks committed earlier.
    """
    return _reduced(Reduction, run_tasks, partials, destination, on_progress)


def accumulate_own(
    run_tasks: RunTasks, partials: Partials, destination: Location, on_progress: Progress
) -> RawOwnSums:
    """Do what `accumulate` does for a second round."""
    return _reduced(OwnReduction, run_tasks, partials, destination, on_progress)


class _Reducer(Protocol[_Result_co]):
    """What sums the results of tasks."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def add(self, task: Task) -> None: ...

    def finish(self) -> _Result_co: ...


def _reduced(
    reducer: Callable[[Partials, Location], _Reducer[_Result_co]],
    run_tasks: RunTasks,
    partials: Partials,
    destination: Location,
    on_progress: Progress,
) -> _Result_co:
    for _ in range(_ROUNDS):
        try:
            with reducer(partials, destination) as reduction:
                _run_remaining(run_tasks, partials, reduction, on_progress)
                return reduction.finish()
        except DamagedChunk:
            # Committed results are only listed at the start. Reading them all takes a while, so it
            # is done only after damage, for example by a full disk or a power failure.
            damaged = partials.drop_damaged()
            if not damaged:
                raise
            LOGGER.warning("%d damaged partial sums are computed again", damaged)
    raise InputError(
        "partial sums were damaged repeatedly",
        where=str(partials.path),
        remedy="Check the disk, or choose another --work-dir",
    )


def _run_remaining(
    run_tasks: RunTasks, partials: Partials, reduction: _Reducer[object], on_progress: Progress
) -> None:
    plan, committed = partials.plan, partials.committed()
    rows = [task for task in plan.row_tasks() if task not in committed]
    work = Workload.of(partials)
    # Clipping is a function of the inputs alone and gives the same rows again, so committed tiles
    # remain valid if a stripe must be clipped again. Large tiles start first, so that workers end
    # at about the same time.
    tiles = [task for task in plan.tile_tasks() if task not in committed]
    tiles.sort(key=work.weight, reverse=True)
    done = work.amount(committed)
    total = done + work.amount([*rows, *tiles])
    on_progress(done, total)
    for task in committed:
        reduction.add(task)

    def count(task: Task) -> None:
        nonlocal done
        done += work.amount([task])
        on_progress(done, total)
        reduction.add(task)

    # Off-diagonal tiles do not depend on row tasks, unless row tasks scale genotype rows.
    free = [] if partials.scales_rows else [task for task in tiles if not task.on_diagonal]
    bound = tiles if partials.scales_rows else [task for task in tiles if task.on_diagonal]
    run_tasks(partials, Order(rows, free, bound), count)
