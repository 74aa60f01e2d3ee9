"""Pre-flight check: one bound of memory and one of disk, and refusal of a machine with less.

The bound of memory is a sum of the arrays of the largest task, which holds one read of people. It
does not grow with the number of people, except for the width of sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from primo_scale import machine
from primo_scale.accumulation.partials import MULTIPLIER_COLUMNS, partial_bytes
from primo_scale.accumulation.plan import Plan
from primo_scale.cluster.job_queues import LocalProfile, Profile, worker_memory
from primo_scale.errors import Field, ResourceError
from primo_scale.genotypes.store import Packing
from primo_scale.humanize import bytes_in_words
from primo_scale.kernels.product_kernels import kernel_named
from primo_scale.kernels.products import LARGEST_BYTE, PEOPLE_MAPPED
from primo_scale.outcomes.store import CHUNK_BYTES, rows_layout
from primo_scale.storage.block_matrices import panel_height, stored_bytes, whole_tiles
from primo_scale.storage.groups import array_bytes

# Dask pauses a worker that uses this share of its memory limit, and kills it soon after.
_PAUSED_AT = 0.8
# Resident size of a local worker that has run one tiny task of each kind: Python, numpy, Zarr,
# distributed, Numba and LLVM, kernels loaded (measured, Linux, Python 3.11: 229 MiB).
_WORKER_BASE = 232 << 20
# Memory that starting a cluster adds to the process: distributed, the scheduler, and the store of
# partial sums (measured: 62 MiB).
_CLUSTER_BASE = 64 << 20
# Code table of a variant, and two temporary 64-bit copies that serve to find its largest code.
_PER_VARIANT = 4 + 2 * 4 * 8
_PER_TASK = 1024  # for the plan and the list of committed tasks
_CHUNKS_READ_AT_ONCE = 10  # by Zarr
_SUM = 4 + 8  # an int32 sum, and the int64 sum that it is added to


@dataclass(frozen=True)
class Needs:
    """Resources of one accumulation. PRIVATE: they reveal the number of people."""

    tasks: int  # number of row tasks and tile tasks
    task_bytes: int  # peak memory of one task
    worker_bytes: int  # peak memory of one worker process
    client_bytes: int  # memory that this process needs beyond its present one, without tasks
    partial_bytes: int  # what tasks commit, until the statistics are finished
    disk_bytes: int  # peak size of outcomes, partial sums and statistics


def needs(
    plan: Plan,
    chunk_shape: tuple[int, int],
    packing: Packing,
    *,
    kernel: str,
    largest_code: int,
    multiplier_columns: int,
    subsampled: bool = False,
    variants: tuple[int, ...] | None = None,
) -> Needs:
    """Return the resources of an accumulation.

    `chunk_shape` and `packing` are those of the genotype store, and `multiplier_columns` is the
    number of row multipliers of a person. If the columns of X are LD components, `variants` are the
    numbers of variants of the blocks.
    """
    layout, people = plan.layout, min(plan.rows_per_read, plan.n_samples)
    q, planes = layout.n_outcomes, plan.n_planes
    n_variants = layout.n_variants if variants is None else sum(variants)
    shared = list(plan.shared_blocks())
    sides = [[min(plan.tile, layout.size(block)) for block in blocks] for blocks in shared]
    columns, side = max(map(sum, sides)), max(map(max, sides))
    read = (
        columns if variants is None else max(sum(variants[b] for b in blocks) for blocks in shared)
    )
    beside = any(plan.n_tiles(block) > 1 for block in range(layout.n_blocks))

    # Of each person of a read, in bytes: codes, and the variants of components; genotypes in use,
    # the next ones and chunks; planes in use, being read and with ones; multipliers.
    codes = (columns * (1 + subsampled) + read * (variants is not None)) * (1 + beside)
    packed = packing.width(4) / 4 * read * (3 + beside + subsampled)
    multipliers = 8 * (6 + 2 * max(map(len, shared))) + 4 * MULTIPLIER_COLUMNS
    a_person = codes + packed + 5 * planes + multipliers
    sums = _SUM * plan.sums_gram * max(sum(size**2 for size in group) for group in sides)
    sums += columns * (_SUM * planes + 8 * (planes + 2 * q))
    mapping = 0
    if variants is not None:  # maps of all blocks, and a read of transposed codes and outputs
        mapping = columns * max(variants) + PEOPLE_MAPPED * (max(variants) + 4 * side)
    gram_kernel = kernel_named(kernel, largest_code)
    products = max(
        gram_kernel.temporary_bytes(side, side, people, same=not beside),
        kernel_named(kernel, LARGEST_BYTE).temporary_bytes(planes, columns, people, same=False),
    )
    chunk = chunk_shape[0] * packing.width(chunk_shape[1])
    tile_task = int(people * a_person) + sums + mapping + max(products, 16 * side * max(side, q))

    # A row task: outcomes as read, clipped, transposed and in planes; norms and multipliers.
    a_person = 16 * q + 2 * planes + 8 * (layout.n_blocks + 6 * multiplier_columns)
    a_person += packing.width(4) / 4 * 2 * chunk_shape[0]
    if variants is not None:
        a_person += max(variants) * 3 + side
    row_task = int(people * a_person) + 2 * CHUNK_BYTES + planes * (_SUM * planes + 24 * q)

    task = max(tile_task, row_task) + _CHUNKS_READ_AT_ONCE * chunk
    tables = _PER_VARIANT * n_variants
    region = max(4 * whole_tiles(min(plan.tile, side)) ** 2, (3 * panel_height(q) + 2 * side) * q)
    tiles = sum(plan.n_tiles(b.start) * (plan.n_tiles(b.start) + 1) // 2 for b in shared)
    tasks = plan.n_stripes + plan.n_row_groups * tiles
    committed = partial_bytes(plan, n_variants, multiplier_columns, largest_code)
    outcomes = array_bytes(rows_layout(plan.n_samples, q))
    return Needs(
        tasks=tasks,
        task_bytes=task,
        worker_bytes=_WORKER_BASE + tables + task,
        client_bytes=tables + _PER_TASK * tasks + 8 * (machine.n_threads() * region + 4 * q * q),
        partial_bytes=committed,
        disk_bytes=outcomes + committed + stored_bytes(layout),
    )


def check_needs(
    needs: Needs, profile: Profile | None, work_dir: Path, *, bytes_there: int = 0
) -> str:
    """Refuse a machine with too little disk or memory, and return the needs in words.

    Without a profile, threads of this process run the tasks.
    `work_dir` need not exist yet. Of the predicted disk use, `bytes_there` are in it already.
    """
    threads = machine.usable_cpus() if profile is None else 0
    workers = 0
    if isinstance(profile, LocalProfile):
        workers = profile.workers or machine.usable_cpus()
    memory = machine.resident_memory() + needs.client_bytes + (0 if threads else _CLUSTER_BASE)
    memory += threads * needs.task_bytes + workers * needs.worker_bytes
    available = machine.available_memory() + machine.resident_memory()
    disk = max(0, needs.disk_bytes - bytes_there)
    machine.refuse_full_disk(
        work_dir,
        disk,
        what="the statistics",
        remedy="Use smaller LD blocks (--ld-blocks window:N), or a --work-dir on a larger disk",
    )
    if memory > available:
        raise ResourceError(
            "not enough memory for the statistics",
            value=f"{bytes_in_words(available)} available",
            limit=f"{bytes_in_words(memory)} needed",
            remedy="Use fewer workers (--workers N), or smaller LD blocks (--ld-blocks window:N)",
        )
    limit, least = worker_memory(profile), int(needs.worker_bytes / _PAUSED_AT)
    if limit is not None and limit < least:
        raise ResourceError(
            "a worker needs more memory than its limit",
            where=Field("memory_limit") if workers else "--cluster",
            value=bytes_in_words(limit),
            limit=f"at least {bytes_in_words(least)}, as Dask stops a worker at {_PAUSED_AT:.0%}",
            remedy="Raise the limit, or use smaller LD blocks (--ld-blocks window:N)",
        )
    each = "" if threads else f", {bytes_in_words(needs.worker_bytes)} of it for each worker"
    if not (threads or workers):
        each = f" here, and {bytes_in_words(needs.worker_bytes)} for each worker"
    return (
        f"{needs.tasks} tasks, memory {bytes_in_words(memory)}{each} of "
        f"{bytes_in_words(available)}, disk {bytes_in_words(disk)} of "
        f"{bytes_in_words(machine.free_disk(work_dir))}"
    )
