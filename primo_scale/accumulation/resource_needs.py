"""Pre-flight check: predicted resources of an accumulation, and refusal if they are missing.

Peak memory has one formula for each kind of array, as a tight upper bound that tests compare with
the measured memory of processes. For more people than one read, memory does not grow with their
number, except for the width of sums: 8 bytes more per entry if a sum over a row group can exceed
int32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from primo_scale import machine
from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.partials import MULTIPLIER_COLUMNS
from primo_scale.accumulation.reduction import reduction_bytes
from primo_scale.accumulation.speed import STORE_RATE, bytes_read, expected_seconds
from primo_scale.accumulation.workload import Rates, Workload
from primo_scale.errors import ResourceError
from primo_scale.humanize import bytes_in_words, duration_in_words
from primo_scale.kernels.product_kernels import kernel_named
from primo_scale.kernels.products import LARGEST_BYTE, LARGEST_INT32, row_stride
from primo_scale.kernels.rows import PEOPLE_MAPPED
from primo_scale.outcomes.store import CHUNK_BYTES, rows_layout
from primo_scale.storage.block_matrices import stored_bytes
from primo_scale.storage.chunks import array_bytes

# Dask pauses a worker that uses this share of its memory limit, and kills it soon after.
_PAUSED_AT = 0.8
# Resident size of a local worker that has run one tiny task of each kind: Python, numpy, Zarr,
# distributed, Numba and LLVM, kernels loaded (measured, Linux, Python 3.11: 229 MiB).
_WORKER_BASE = 232 << 20
# Memory that starting a cluster adds to the process: distributed, the scheduler, and the store of
# partial sums (measured: 62 MiB).
CLUSTER_BASE = 64 << 20
# Code table of a variant, and two temporary 64-bit copies that serve to find its largest code.
_PER_VARIANT = 4 + 2 * 4 * 8
_PER_TASK = 1024  # for the plan and the list of committed tasks
_CHUNKS_READ_AT_ONCE = 10  # by Zarr
_INT16, _INT32, _INT64 = 2, 4, 8


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
        return min(machine.usable_cpus(), self.threads or self.local_workers)


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
    time = f"the sums take about {duration_in_words(expected_seconds(work, rates, machines.cores))}"
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
            machine.available_memory() + machine.resident_memory(),
            needs.read_bytes,
            _missing(needs, machines),
            machine.free_disk(machines.work_dir),
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
    machine.refuse_full_disk(
        machines.work_dir,
        _missing(needs, machines),
        what="the statistics",
        remedy="Use smaller LD blocks (--ld-blocks window:N), or a --work-dir on a larger disk",
    )
    there = machine.available_memory() + machine.resident_memory()
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
            limit=f"at least {bytes_in_words(least)}, as Dask stops a worker at {_PAUSED_AT:.0%}",
            remedy="Raise the limit, or use smaller LD blocks (--ld-blocks window:N)",
        )


def _client_peak(needs: ResourceNeeds, machines: Machines) -> int:
    """Return the peak memory of this process, with its tables of people and variants, in bytes."""
    return (
        machine.resident_memory() + needs.client_bytes + (0 if machines.threads else CLUSTER_BASE)
    )


def _total(needs: ResourceNeeds, machines: Machines) -> int:
    elsewhere = machines.local_workers * needs.worker_bytes
    return elsewhere + machines.threads * needs.task_bytes + _client_peak(needs, machines)


def _missing(needs: ResourceNeeds, machines: Machines) -> int:
    return max(0, needs.disk_bytes - machines.bytes_there)


def worker_bytes(work: Workload) -> int:
    """Return the peak memory of a worker process, which runs one task at a time, in bytes."""
    table = _PER_VARIANT * work.n_variants
    return _WORKER_BASE + table + task_bytes(work)


def task_bytes(work: Workload) -> int:
    """Return the peak memory of the task that needs most, in bytes."""
    return max(_row_task(work), tile_task_bytes(work))


def client_bytes(work: Workload, *, tasks: int, reduction: int) -> int:
    """Return the memory that an accumulation with so many tasks adds to the client, in bytes.

    `reduction` is the result of `accumulation.reduction.reduction_bytes`.
    """
    most = max(reduction, committed_bytes(work))
    return _PER_VARIANT * work.n_variants + _PER_TASK * tasks + most


def tile_task_bytes(work: Workload) -> int:
    """Return the peak memory of a tile task, on the diagonal or, if there is one, off it."""
    beside = any(work.plan.n_tiles(block) > 1 for block in range(work.plan.layout.n_blocks))
    return max(_diagonal_task(work), _task_beside_the_diagonal(work) if beside else 0)


def _row_task(work: Workload) -> int:
    """Return the peak memory of a row task, in the step that needs most, in bytes.

    Each step frees its arrays before the next. The outcomes of the next people are read meanwhile.
    """
    q, blocks = work.plan.layout.n_outcomes, work.plan.layout.n_blocks
    outcomes = work.people * q * _INT16
    column = work.people * _INT64
    norms, multipliers = blocks * column, work.multiplier_columns * column
    reading = outcomes + min(outcomes + 2 * CHUNK_BYTES, _CHUNKS_READ_AT_ONCE * CHUNK_BYTES)
    if work.variants is None:
        measuring = 2 * read_bytes(work, work.packing.chunk_shape[0]) + work.people * _INT32
    else:
        measuring = read_bytes(work, work.tile_variants) + _codes(work, work.side)
        measuring += work.people * _INT32
    # For every block: its norm, its multiplier before and after stacking, the remaining norm, and
    # the product with the record's multiplier before and after the shift.
    shrinking = 5 * (multipliers if work.multiplier_columns > 1 else column)
    # Transposed rows, then the low bytes during conversion to int8, and the high bytes: 10 bytes
    # per entry. Clipping takes less.
    splitting = 4 * outcomes + multipliers
    committing = 3 * outcomes + multipliers + 3 * work.people * MULTIPLIER_COLUMNS * _INT32
    n_planes = work.plan.n_planes
    planes = n_planes * row_stride(work.people)
    products = _temporary_bytes(work, n_planes, n_planes, largest=LARGEST_BYTE, same=True)
    multiplying = outcomes + multipliers + planes + products
    measuring = measuring if work.may_clip else 0
    greediest = max(
        norms + max(measuring, shrinking, splitting, committing, multiplying),
        # The sum of planes in 64 bits, and three copies of half of it.
        (n_planes + 3 * q) * n_planes * _INT64,
    )
    fits = work.plan.stripe * LARGEST_BYTE**2 <= LARGEST_INT32
    sums = n_planes**2 * (_INT32 if fits else _INT32 + _INT64)
    # A view of a part of one chunk of outcomes keeps the whole chunk in memory.
    return reading + max(outcomes, CHUNK_BYTES) + sums + greediest


def committed_bytes(work: Workload) -> int:
    """Return the memory of the largest task result while it is written or read, in bytes.

    The checksum is appended to a copy of the result. At the edge of a block, padding also makes a
    copy first.
    """
    gram = work.side**2 * work.plan.gram_type(work.largest_code).itemsize
    return 2 * max(gram, work.side * work.plan.layout.n_outcomes * _INT64)


def read_bytes(work: Workload, variants: int) -> int:
    """Return the bytes of the packed genotypes of one read, and of the chunks that contain them.

    Only whole chunks are read. The people of a read begin at a chunk boundary, but the variants of
    a tile need not.
    """
    height, width = work.chunk_shape
    variants = min(variants, work.n_variants)
    down = min(-(-variants // height) + 1, -(-work.n_variants // height))
    across = -(-work.people // width) + (1 if work.plan.rows_per_read % width else 0)
    chunks = min(down * across, _CHUNKS_READ_AT_ONCE)
    return variants * work.packing.width(work.people) + chunks * height * work.packing.width(width)


def _temporary_bytes(work: Workload, left: int, right: int, *, largest: int, same: bool) -> int:
    """Return what the kernel needs to add the products of one read; `largest` bounds its codes."""
    kernel = kernel_named(work.kernel, largest)
    return kernel.temporary_bytes(left, right, work.people, same=same)


def _diagonal_task(work: Workload) -> int:
    """Return the peak memory of a tile task on the diagonal, in bytes."""
    q, n_planes = work.plan.layout.n_outcomes, work.plan.n_planes
    planes = n_planes * row_stride(work.people)
    fits = work.plan.fits_int32(work.largest_code * LARGEST_BYTE)
    cross = work.task_columns * n_planes * (_INT32 if fits else _INT32 + _INT64)
    # Planes in use, with the ones; planes being read: as stored, as read, and with the ones.
    people = _in_use(work, 1) + planes + _reading(work, 1) + 3 * planes
    oblong = _temporary_bytes(work, n_planes, work.task_columns, largest=LARGEST_BYTE, same=False)
    square = _temporary_bytes(work, work.side, work.side, largest=work.largest_code, same=True)
    steps = (
        people + max(oblong, square),
        # The planes in 64 bits and two sums of them; then the result and its copy with a checksum.
        work.side * (n_planes + 2 * q) * _INT64,
        2 * work.side * q * _INT64,
        committed_bytes(work),
    )
    return _codes(work, work.task_columns) + _grams(work, work.task_entries) + cross + max(steps)


def _task_beside_the_diagonal(work: Workload) -> int:
    """Return the peak memory of an off-diagonal tile task, in bytes."""
    products = _temporary_bytes(work, work.side, work.side, largest=work.largest_code, same=False)
    people = _in_use(work, 2) + _reading(work, 2)
    largest = max(people + products, committed_bytes(work))
    return 2 * _codes(work, work.side) + _grams(work, work.side**2) + largest


def _codes(work: Workload, columns: int) -> int:
    """Return the bytes of some columns of X, and of those gathered of a subsample.

    Components are computed for 1,024 people at a time from transposed codes.
    """
    columns *= 2 if work.subsampled else 1
    if work.variants is None:
        return columns * row_stride(work.people)
    people, kernel = min(work.people, PEOPLE_MAPPED), kernel_named(work.kernel, LARGEST_BYTE)
    variants = work.tile_variants
    mapping = people * row_stride(variants) + work.side * (people * _INT32 + variants)
    mapping += kernel.temporary_bytes(work.side, people, variants, same=False)
    maps = work.task_columns * variants  # of the components of all blocks
    return (columns + variants) * row_stride(work.people) + mapping + maps


def _grams(work: Workload, entries: int) -> int:
    """Return the bytes of int32 sums, and of the int64 sums if int32 could overflow."""
    fits = work.plan.fits_int32(work.largest_code**2)
    return entries * (_INT32 if fits else _INT32 + _INT64)


def _in_use(work: Workload, tiles: int) -> int:
    """Return the bytes of packed genotypes, of their subsample, and of the row multipliers."""
    again = work.task_columns * work.packing.width(work.people) if work.subsampled else 0
    return tiles * _held(work) + again + _multipliers(work)


def _held(work: Workload) -> int:
    """Return the bytes of a tile's packed genotypes; a view keeps its whole chunk in memory."""
    height, width = work.chunk_shape
    variants = work.task_variants
    return max(variants * work.packing.width(work.people), height * work.packing.width(width))


def _multipliers(work: Workload) -> int:
    """Return the bytes of the multipliers of a read for every block of a task, and of copies."""
    return (3 + max(map(len, work.shared_blocks))) * work.people * _INT64


def _reading(work: Workload, tiles: int) -> int:
    """Return the bytes of the packed genotypes of the next people, and of their multipliers."""
    chunk = min(work.multiplier_columns, MULTIPLIER_COLUMNS) * _INT32
    packed = (tiles - 1) * _held(work) + read_bytes(work, work.task_variants)
    return packed + work.people * chunk + _multipliers(work)
