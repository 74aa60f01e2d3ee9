"""What an accumulation will need, said before it starts, and refused if it is not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from primo_scale.accumulate.reduction import reduction_bytes
from primo_scale.accumulate.speed import (
    STORE_RATE,
    Rates,
    bytes_read,
    core_seconds,
    predicted_seconds,
)
from primo_scale.accumulate.task_memory import (
    Workload,
    client_bytes,
    gram_itemsize,
    worker_bytes,
)
from primo_scale.errors import ResourceError
from primo_scale.in_words import bytes_in_words
from primo_scale.machine import (
    available_memory,
    free_disk,
    refuse_full_disk,
    resident_memory,
    usable_cpus,
)
from primo_scale.storage.block_matrices import stored_bytes

# Dask stops giving work to a worker that holds so much of its limit, and kills it soon after.
_PAUSED_AT = 0.8
_INT16, _INT32, _INT64 = 2, 4, 8
_CRC = 4


@dataclass(frozen=True)
class Where:
    """Where tasks are to run.

    Attributes
    ----------
    local_workers
        Worker processes on this machine; 0: a scheduler elsewhere has its own.
    worker_limit
        Bytes that each worker may have, here or elsewhere; None: not known.
    work_dir
        Where statistics go; need not exist yet.
    bytes_there
        What lies there already of what is counted as needed.
    """

    local_workers: int
    worker_limit: int | None
    work_dir: Path
    bytes_there: int = 0


@dataclass(frozen=True)
class Needs:
    """Resources of one accumulation, computed from public shapes and rates of this machine.

    Attributes
    ----------
    tasks
        Row and tile tasks in all.
    read_bytes
        What they read of the genotype store, much of it several times.
    disk_bytes
        Largest size of outcomes, partial sums and statistics in the work directory.
    worker_bytes
        Peak memory of one worker.
    client_bytes
        What this process takes on beyond what it holds.
    """

    tasks: int
    read_bytes: int
    disk_bytes: int
    worker_bytes: int
    client_bytes: int


def needs_of(work: Workload, *, kernel_bytes: int = 0) -> Needs:
    """Predict what `work` needs; no memory in it grows with the number of people.

    Parameters
    ----------
    work
        The accumulation.
    kernel_bytes
        Memory of the kernel's library, where workers load one: `speed.Rates`.
    """
    plan = work.plan
    tiles = sum(work.upper_tiles(block) for block in range(plan.layout.n_blocks))
    tasks = plan.n_stripes + plan.n_row_groups * tiles
    loaded = kernel_bytes if work.kernel in ("torch", "cuda") else 0
    return Needs(
        tasks=tasks,
        read_bytes=bytes_read(work),
        disk_bytes=disk_bytes(work),
        worker_bytes=worker_bytes(work, kernel_bytes=loaded),
        client_bytes=client_bytes(work, tasks=tasks, reduction=reduction_bytes(plan)),
    )


def disk_bytes(work: Workload) -> int:
    """What workers exchange, outcomes and partial sums, and the statistics that it becomes."""
    return _outcome_bytes(work) + partial_bytes(work) + stored_bytes(work.plan.layout)


def _outcome_bytes(work: Workload) -> int:
    plan, n, q = work.plan, work.plan.n_samples, work.plan.layout.n_outcomes
    people = -(-n // plan.rows_per_read) * plan.rows_per_read
    rows = n * q * _INT16 + people * (2 * q + work.multiplier_columns * _INT32)
    return rows + (n if work.subsampled else 0)


def partial_bytes(work: Workload) -> int:
    """Partial sums of all row groups, which are removed once statistics are finished.

    Chunks are stored whole, also where they reach over the edge of a matrix.
    """
    plan, layout = work.plan, work.plan.layout
    q, partial = layout.n_outcomes, 0
    for block, size in enumerate(layout.sizes):
        side = min(plan.tile, size)
        partial += work.upper_tiles(block) * (side**2 * gram_itemsize(work) + _CRC)
        partial += plan.n_tiles(block) * (side * q * _INT64 + _CRC)
    return plan.n_row_groups * partial + q * q * _INT64


def described(needs: Needs, work: Workload, rates: Rates, where: Where) -> tuple[str, str]:
    """Two lines for the terminal and the private log: they tell the number of people."""
    cores = min(usable_cpus(), where.local_workers)
    worker, here, there, read, disk, free = map(
        bytes_in_words,
        (
            needs.worker_bytes,
            _client_peak(needs),
            available_memory() + resident_memory(),
            needs.read_bytes,
            _missing(needs, where),
            free_disk(where.work_dir),
        ),
    )
    if where.local_workers:
        time = f"about {_time(predicted_seconds(work, rates, cores))} on {cores} cores"
        in_all = bytes_in_words(_total(needs, where))
        memory = f"{where.local_workers} x {worker} for workers and {here} here, {in_all} in all"
    else:
        time = (
            f"about {_time(core_seconds(work, rates))} of one core like this machine's, "
            "shared among the scheduler's"
        )
        memory = f"{worker} for a worker and {here} here"
    return (
        f"pre-flight: {needs.tasks} tasks read {read}; kernel {work.kernel}; "
        f"{time}, if stores give {STORE_RATE / 1e9:g} GB/s",
        f"pre-flight: memory {memory} ({there} there); disk {disk} more ({free} free)",
    )


def refuse_if_too_small(needs: Needs, where: Where) -> None:
    """Compare what is needed with what there is, before any work.

    Raises
    ------
    ResourceError
        Too little free disk, too little memory on this machine, or a limit under which every
        worker would be stopped.
    """
    refuse_full_disk(
        where.work_dir,
        _missing(needs, where),
        what="the statistics",
        remedy="Use smaller LD blocks (--ld-blocks window:N), or a --work-dir on a larger disk",
    )
    there = available_memory() + resident_memory()
    if _total(needs, where) > there:
        raise ResourceError(
            "not enough memory for the statistics",
            value=f"{bytes_in_words(there)} there",
            limit=f"{bytes_in_words(_total(needs, where))} needed by {where.local_workers} workers "
            "and this process",
            remedy="Use fewer --workers, or smaller LD blocks (--ld-blocks window:N)",
        )
    least = int(needs.worker_bytes / _PAUSED_AT)
    if where.worker_limit is not None and where.worker_limit < least:
        raise ResourceError(
            "a worker needs more memory than it may have",
            where="--memory-limit" if where.local_workers else "--cluster",
            value=bytes_in_words(where.worker_limit),
            limit=f"{bytes_in_words(least)}, since Dask stops a worker at {_PAUSED_AT:.0%}",
            remedy="Raise the limit, or use smaller LD blocks (--ld-blocks window:N)",
        )


def _client_peak(needs: Needs) -> int:
    """With the tables of people and variants, which it holds already."""
    return resident_memory() + needs.client_bytes


def _total(needs: Needs, where: Where) -> int:
    return where.local_workers * needs.worker_bytes + _client_peak(needs)


def _missing(needs: Needs, where: Where) -> int:
    return max(0, needs.disk_bytes - where.bytes_there)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
