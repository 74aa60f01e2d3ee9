"""Peak memory of an accumulation: one formula for each thing that is held, with its reason.

Every function gives bytes, an upper bound that a process comes near to; tests hold what processes
really take against them. Once there are more people than one read takes, nothing here grows with
their number but the width of sums: 8 bytes more an entry where a row group can leave int32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.accumulate.partials import MULTIPLIER_COLUMNS
from primo_scale.accumulate.plan import Plan
from primo_scale.accumulate.tasks import VARIANTS_PER_NORM_PASS
from primo_scale.kernels.product_amx import whole_blocks
from primo_scale.kernels.product_blas import CONVERTED_ENTRIES, EXACT_SUM
from primo_scale.kernels.products import LARGEST_BYTE, LARGEST_INT32, row_stride
from primo_scale.outcomes.store import CHUNK_BYTES

# Resident size of a local worker that has run one tiny task of each kind: Python, numpy, Zarr,
# distributed, Numba and LLVM, kernels loaded (measured, Linux, Python 3.11: 229 MiB).
_WORKER_BASE = 232 << 20
# What the libraries of kernels add to it, once loaded and used. torch: 200 MiB for the import and
# one product of 2048 x 8192 on one thread (measured, Linux, PyTorch 2.13 for processors alone).
# cuda: an estimate, not measured. Importing a PyTorch made for CUDA takes 0.3 GB
# (pytorch/pytorch#92251); with a context it took 2 GB (#87539) before CUDA left kernels that
# nobody calls unloaded, as it has since 11.7.
_LIBRARIES = {"torch": 200 << 20, "cuda": 1 << 30}
# What a process that is about to start a cluster takes on for it: distributed, the scheduler, the
# store of partial sums (measured: 62 MiB).
CLUSTER_BASE = 64 << 20
# Of OpenBLAS for every thread that multiplies (measured: 15 MiB).
_BLAS_BUFFER = 16 << 20
# The variant's code table, and the same in 64 bits twice, for a moment, to find its largest code.
_PER_VARIANT = 4 + 2 * 4 * 8
_PER_TASK = 1024  # of the plan and of what was committed
_CHUNKS_READ_AT_ONCE = 10  # by Zarr
_INT16, _INT32, _INT64 = 2, 4, 8


@dataclass(frozen=True)
class Workload:
    """What memory, disk and time of an accumulation depend on; all public but the people.

    Attributes
    ----------
    plan : Plan
        How it is cut.
    kernel : str
        Name of the kernel that multiplies genotypes and outcomes.
    largest_code : int
        Largest magnitude of a genotype code.
    chunk_shape : tuple of (int, int)
        (variants, people) of a chunk of the genotype store.
    may_clip : bool
        Whether genotypes could be beyond their bounds, so that norms are measured.
    multiplier_columns : int
        Row multipliers a person: one for each block that has a bound of its own.
    subsampled : bool
        Whether X'X is summed over some of the people.
    """

    plan: Plan
    kernel: str
    largest_code: int
    chunk_shape: tuple[int, int]
    may_clip: bool
    multiplier_columns: int
    subsampled: bool

    @property
    def rows(self) -> int:
        """People of a read."""
        return min(self.plan.rows_per_read, self.plan.n_samples)

    @property
    def side(self) -> int:
        """Variants on a side of the largest tile."""
        return min(self.plan.tile, max(self.plan.layout.sizes))

    def upper_tiles(self, block: int) -> int:
        """Tiles of a block that are summed: those on the diagonal and on one side of it."""
        return self.plan.n_tiles(block) * (self.plan.n_tiles(block) + 1) // 2

    @property
    def gram_itemsize(self) -> int:
        """Bytes of an entry of a committed tile."""
        return self.plan.gram_type(self.largest_code).itemsize

    @property
    def planes(self) -> int:
        """Byte planes of the outcomes, and the row of ones."""
        return 2 * self.plan.layout.n_outcomes + 1


def worker_bytes(work: Workload) -> int:
    """Return the peak of one worker process, which runs one task at a time, in bytes."""
    table = _PER_VARIANT * work.plan.layout.n_variants
    return _WORKER_BASE + _LIBRARIES.get(work.kernel, 0) + table + task_bytes(work)


def task_bytes(work: Workload) -> int:
    """Return the peak of the greediest task, in bytes."""
    return max(row_task_bytes(work), tile_task_bytes(work))


def client_bytes(work: Workload, *, tasks: int, reduction: int) -> int:
    """What the process that drives the workers and sums the row groups takes on from here.

    Parameters
    ----------
    work : Workload
        What is summed.
    tasks : int
        Tasks in all.
    reduction : int
        Of `accumulate.reduction.reduction_bytes`.
    """
    return (
        _PER_VARIANT * work.plan.layout.n_variants
        + _PER_TASK * tasks
        + max(reduction, committed_bytes(work))
    )


def tile_task_bytes(work: Workload) -> int:
    """Peak of a tile task: of one on the diagonal, or of one beside it where there are any."""
    beside = any(work.plan.n_tiles(block) > 1 for block in range(work.plan.layout.n_blocks))
    return max(_diagonal_task(work), _task_beside_the_diagonal(work) if beside else 0)


def row_task_bytes(work: Workload) -> int:
    """Peak of a row task, at the greediest of its steps; one step's arrays are gone by the next.

    The outcomes of the next people are read meanwhile.
    """
    q, blocks = work.plan.layout.n_outcomes, work.plan.layout.n_blocks
    outcomes = work.rows * q * _INT16
    column = work.rows * _INT64
    norms, multipliers = blocks * column, work.multiplier_columns * column
    reading = outcomes + min(outcomes + 2 * CHUNK_BYTES, _CHUNKS_READ_AT_ONCE * CHUNK_BYTES)
    measuring = 2 * read_bytes(work, VARIANTS_PER_NORM_PASS) + work.rows * _INT32
    # Of every block: its norm, its multiplier before and after stacking, what it leaves, and the
    # product with the record's multiplier before and after the shift.
    shrinking = 5 * (multipliers if work.multiplier_columns > 1 else column)
    clipping = 3 * outcomes + multipliers
    # Transposed rows, then the low bytes on their way to int8 beside the high ones: 10 bytes each.
    splitting = 4 * outcomes + multipliers
    committing = 3 * outcomes + multipliers + 3 * work.rows * MULTIPLIER_COLUMNS * _INT32
    planes = work.planes * row_stride(work.rows)
    multiplying = outcomes + multipliers + planes + kernel_bytes(
        work.kernel, work.planes, work.planes, work.rows, largest=LARGEST_BYTE, same=True
    )  # fmt: skip
    greediest = max(
        norms + (measuring if work.may_clip else 0),
        norms + shrinking,
        norms + clipping,
        norms + splitting,
        norms + committing,
        norms + multiplying,
        # The sum of planes in 64 bits, and half of it, three times over.
        (work.planes + 3 * q) * work.planes * _INT64,
    )
    fits = work.plan.stripe * LARGEST_BYTE**2 <= LARGEST_INT32
    sums = work.planes**2 * (_INT32 if fits else _INT32 + _INT64)
    # A part of one chunk of outcomes keeps all of it.
    return reading + max(outcomes, CHUNK_BYTES) + sums + greediest


def committed_bytes(work: Workload) -> int:
    """The largest result of a task, as it is held while it is written or read.

    Its checksum is appended to a copy, which a result at the edge of its block first is padded to.
    """
    return 2 * max(
        work.side**2 * work.gram_itemsize,
        work.side * work.plan.layout.n_outcomes * _INT64,
    )


def read_bytes(work: Workload, variants: int) -> int:
    """Packed genotypes of one read, and the chunks that they are cut from.

    Chunks are read whole. Variants of a tile need not begin where a chunk does; people do.
    """
    height, width = work.chunk_shape
    variants = min(variants, work.plan.layout.n_variants)
    down = min(-(-variants // height) + 1, -(-work.plan.layout.n_variants // height))
    across = -(-work.rows // width) + (1 if work.plan.rows_per_read % width else 0)
    chunks = min(down * across, _CHUNKS_READ_AT_ONCE)
    return variants * work.rows // 4 + chunks * height * width // 4


def kernel_bytes(name: str, left: int, right: int, people: int, *, largest: int, same: bool) -> int:
    """What a kernel holds beside operands and sum while it adds ``left @ right.T``.

    Parameters
    ----------
    name : str
        Of the kernel.
    left, right : int
        Rows of the operands.
    people : int
        Columns of both.
    largest : int
        Largest magnitude of their entries.
    same : bool
        Whether they are one array.
    """
    operands = (right,) if same else (left, right)
    copies = sum(operands) * row_stride(people)
    if name == "amx":
        # Tiles of both, and copies as below; or the sums once more, as they are read.
        tiles = sum(map(whole_blocks, (left, right))) * row_stride(people)
        return max(tiles + copies, left * right * _INT32)
    if name == "vnni":
        # Left in unsigned bytes; and the last people of a row group fill no whole vectors, so that
        # they are copied.
        return left * row_stride(people) + copies
    if name in ("torch", "cuda"):
        return copies + left * right * _INT32
    kind = np.dtype(name)
    itemsize = kind.itemsize
    run = min(EXACT_SUM[kind] // largest**2, CONVERTED_ENTRIES // max(left, right))
    piece = min(people, max(1, run)) * itemsize
    # The first operand of a run is converted while those of the run before are still there.
    converted = sum(operands) * piece
    return _BLAS_BUFFER + converted + max(left * piece, left * right * (itemsize + _INT32))


def _diagonal_task(work: Workload) -> int:
    """Codes, both sums, what is in use and being read, and the greediest of the other steps."""
    q, planes = work.plan.layout.n_outcomes, work.planes * row_stride(work.rows)
    fits = work.plan.fits_int32(work.largest_code * LARGEST_BYTE)
    cross = work.side * work.planes * (_INT32 if fits else _INT32 + _INT64)
    # In use with the ones; being read as stored, as read, and with the ones.
    people = _in_use(work, 1) + planes + _reading(work, 1) + 3 * planes
    steps = (
        people
        + kernel_bytes(work.kernel, work.planes, work.side, work.rows,
                       largest=LARGEST_BYTE, same=False),
        people
        + kernel_bytes(work.kernel, work.side, work.side, work.rows,
                       largest=work.largest_code, same=True),
        # The planes in 64 bits, and two sums of them; the result and its copy with a checksum.
        work.side * (work.planes + 2 * q) * _INT64,
        2 * work.side * q * _INT64,
        committed_bytes(work),
    )  # fmt: skip
    return _codes(work) + _gram(work) + cross + max(steps)


def _task_beside_the_diagonal(work: Workload) -> int:
    """Codes of two tiles, the sum, and the greediest step."""
    multiplying = kernel_bytes(
        work.kernel, work.side, work.side, work.rows, largest=work.largest_code, same=False
    )
    people = _in_use(work, 2) + _reading(work, 2)
    return 2 * _codes(work) + _gram(work) + max(people + multiplying, committed_bytes(work))


def _codes(work: Workload) -> int:
    return work.side * row_stride(work.rows)


def _gram(work: Workload) -> int:
    """The int32 sum, and the int64 one that it is moved to where it could become too large."""
    fits = work.plan.fits_int32(work.largest_code**2)
    return work.side**2 * (_INT32 if fits else _INT32 + _INT64)


def _in_use(work: Workload, tiles: int) -> int:
    """Packed genotypes; again, of the subsample alone; and the multipliers of the people."""
    again = work.side * work.rows // 4 if work.subsampled else 0
    return tiles * _held(work) + again + 4 * work.rows * _INT64


def _held(work: Workload) -> int:
    """Packed genotypes of a tile; what lies in one chunk keeps all of the chunk."""
    height, width = work.chunk_shape
    return max(work.side * work.rows, height * width) // 4


def _reading(work: Workload, tiles: int) -> int:
    """Packed genotypes of the next people, and their multipliers."""
    chunk = min(work.multiplier_columns, MULTIPLIER_COLUMNS) * _INT32
    packed = (tiles - 1) * _held(work) + read_bytes(work, work.side)
    return packed + work.rows * (chunk + 4 * _INT64)
