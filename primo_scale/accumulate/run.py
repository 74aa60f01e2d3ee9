"""Accumulation from end to end: what remains, run it, and meanwhile sum what is done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from primo_scale.accumulate.amounts import Amount, Scales
from primo_scale.accumulate.partials import Partials
from primo_scale.accumulate.plan import Order, Task, remaining
from primo_scale.accumulate.reduction import Reduction
from primo_scale.accumulate.statistics import RawStatistics
from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.places import Place

LOGGER = logging.getLogger("primo_scale")
# A disk that goes on tearing what is written to it is not worked around.
_ROUNDS = 3
Progress = Callable[[Amount, Amount], None]
RunTasks = Callable[[Partials, Order, Callable[[Task], None]], None]
"""Runs tasks and calls back after each: on threads of this process or through a Dask client."""


def accumulate(
    run_tasks: RunTasks, partials: Partials, destination: Place, on_progress: Progress
) -> RawStatistics:
    """Run every task that is not committed yet, and sum the row groups.

    Parameters
    ----------
    run_tasks : callable
        `thread_stream.run_on_threads` or `engine.run_tasks`, with their other arguments given.
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

    Raises
    ------
    InputError
        What is committed is damaged, computed again and damaged again.
    """
    for _ in range(_ROUNDS):
        try:
            with Reduction(partials, destination) as reduction:
                _run_what_remains(run_tasks, partials, reduction, on_progress)
                return reduction.finish()
        except DamagedChunk:
            # What is committed was listed, not read. Reading it all takes a while, so it is for
            # the day when a disk was full, or the power went.
            damaged = partials.drop_damaged()
            if not damaged:
                raise
            LOGGER.warning("%d damaged partial sums are computed again", damaged)
    raise InputError(
        "partial sums are damaged again and again",
        where=str(partials.path),
        remedy="Check the disk, or choose another --work-dir",
    )


def _run_what_remains(
    run_tasks: RunTasks, partials: Partials, reduction: Reduction, on_progress: Progress
) -> None:
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
    for task in committed:
        reduction.add(task)

    def count(task: Task) -> None:
        nonlocal done
        done += scales.amount([task])
        on_progress(done, total)
        reduction.add(task)

    # Beside the diagonal a tile needs nothing of the row tasks, unless they scale people back.
    free = [] if partials.may_clip else [task for task in tiles if not task.on_diagonal]
    bound = tiles if partials.may_clip else [task for task in tiles if task.on_diagonal]
    run_tasks(partials, Order(rows, free, bound), count)
