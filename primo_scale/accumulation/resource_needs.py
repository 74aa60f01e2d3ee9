"""Pre-flight check: predicted resources of an accumulation, and refusal if they are missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.reduction import reduction_bytes
from primo_scale.accumulation.speed import STORE_RATE, bytes_read, expected_seconds
from primo_scale.accumulation.task_memory import (
    CLUSTER_BASE,
    client_bytes,
    task_bytes,
    worker_bytes,
)
from primo_scale.accumulation.workload import Rates, Workload
from primo_scale.errors import ResourceError
from primo_scale.humanize import bytes_in_words, duration_in_words
from primo_scale.machine import (
    available_memory,
    free_disk,
    refuse_full_disk,
    resident_memory,
    usable_cpus,
)
from primo_scale.outcomes.store import rows_layout
from primo_scale.storage.block_matrices import stored_bytes
from primo_scale.storage.chunks import array_bytes

# Dask pauses a worker that uses this share of its memory limit, and kills it soon after.
_PAUSED_AT = 0.8


@dataclass(frozen=True)
class Machines:
    """Machines that run the tasks, and the directory of the data."""

    threads: int  # of this process that run tasks; 0 if workers run them
    local_workers: int  # processes on this machine; 0 if a scheduler elsewhere has its own
    worker_limit: int | None  # memory of each worker in bytes, if it is known
    work_dir: Path  # directory of the statistics, which need not exist yet
    bytes_there: int = 0  # bytes in it that are already part of the predicted disk use

    @property
    def cores(self) -> int:
        """Number of cores of this machine that run tasks; 0 if workers run elsewhere."""
        return min(usable_cpus(), self.threads or self.local_workers)


@dataclass(frozen=True)
class ResourceNeeds:
    """Resources of one accumulation, computed from public shapes and rates of this machine."""

    tasks: int  # number of row tasks and tile tasks
    read_bytes: int  # from the genotype store, including repeated reads
    disk_bytes: int  # peak size of outcomes, partial sums and statistics
    task_bytes: int  # peak memory of one task
    worker_bytes: int  # peak memory of one worker process
    client_bytes: int  # memory that this process needs beyond its present one, without tasks


def needs_of(work: Workload) -> ResourceNeeds:
    """Predict the resources of `work`. The memory does not grow with the number of people."""
    plan = work.plan
    tiles = sum(work.upper_tiles(blocks.start) for blocks in work.shared_blocks)
    tasks = plan.n_stripes + plan.n_row_groups * tiles
    return ResourceNeeds(
        tasks=tasks,
        read_bytes=bytes_read(work),
        disk_bytes=disk_bytes(work),
        task_bytes=task_bytes(work),
        worker_bytes=worker_bytes(work),
        client_bytes=client_bytes(work, tasks=tasks, reduction=reduction_bytes(plan)),
    )


def disk_bytes(work: Workload) -> int:
    """Return the bytes of outcomes, partial sums and statistics."""
    layout = work.plan.layout
    outcomes = array_bytes(rows_layout(work.plan.n_samples, layout.n_outcomes))
    return outcomes + partial_bytes(work) + stored_bytes(layout)


def described(
    needs: ResourceNeeds, work: Workload, rates: Rates, machines: Machines
) -> tuple[str, str]:
    """Return two lines for the terminal and the private log; they reveal the number of people."""
    time = f"about {duration_in_words(expected_seconds(work, rates, machines.cores))}"
    if machines.cores:
        time += f" on {machines.cores} cores"
    else:
        time += " of one core like this machine's, shared among the scheduler's"
    worker, here, total, there, read, disk, free = map(
        bytes_in_words,
        (
            needs.worker_bytes,
            _client_peak(needs, machines),
            _total(needs, machines),
            available_memory() + resident_memory(),
            needs.read_bytes,
            _missing(needs, machines),
            free_disk(machines.work_dir),
        ),
    )
    if machines.threads:
        memory = f"{total}, with {machines.threads} threads"
    elif machines.local_workers:
        memory = f"{machines.local_workers} x {worker} for workers and {here} here, {total} in all"
    else:
        memory = f"{worker} for a worker and {here} here"
    return (
        f"pre-flight: {needs.tasks} tasks read {read}; kernel {work.kernel}; "
        f"{time}, if stores give {STORE_RATE / 1e9:g} GB/s",
        f"pre-flight: memory {memory} ({there} available); disk {disk} more ({free} free)",
    )


def refuse_if_too_small(needs: ResourceNeeds, machines: Machines) -> None:
    """Refuse an accumulation that needs more disk or memory than there is, before any work."""
    refuse_full_disk(
        machines.work_dir,
        _missing(needs, machines),
        what="the statistics",
        remedy="Use smaller LD blocks (--ld-blocks window:N), or a --work-dir on a larger disk",
    )
    there = available_memory() + resident_memory()
    if _total(needs, machines) > there:
        raise ResourceError(
            "not enough memory for the statistics",
            value=f"{bytes_in_words(there)} available",
            limit=f"{bytes_in_words(_total(needs, machines))} needed by this process"
            + (f" and {machines.local_workers} workers" if machines.local_workers else ""),
            remedy="Use fewer workers (--workers N), or smaller LD blocks (--ld-blocks window:N)",
        )
    least = int(needs.worker_bytes / _PAUSED_AT)
    if machines.worker_limit is not None and machines.worker_limit < least:
        raise ResourceError(
            "a worker needs more memory than its limit",
            where="--memory-limit" if machines.local_workers else "--cluster",
            value=bytes_in_words(machines.worker_limit),
            limit=f"{bytes_in_words(least)}, since Dask stops a worker at {_PAUSED_AT:.0%}",
            remedy="Raise the limit, or use smaller LD blocks (--ld-blocks window:N)",
        )


def _client_peak(needs: ResourceNeeds, machines: Machines) -> int:
    """Return the peak memory of this process, with its tables of people and variants, in bytes."""
    return resident_memory() + needs.client_bytes + (0 if machines.threads else CLUSTER_BASE)


def _total(needs: ResourceNeeds, machines: Machines) -> int:
    elsewhere = machines.local_workers * needs.worker_bytes
    return elsewhere + machines.threads * needs.task_bytes + _client_peak(needs, machines)


def _missing(needs: ResourceNeeds, machines: Machines) -> int:
    return max(0, needs.disk_bytes - machines.bytes_there)
