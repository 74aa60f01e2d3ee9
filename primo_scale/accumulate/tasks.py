"""What one worker does: open the stores by their places, stream a row group, commit one result.

Nothing large travels to or from a worker, and nothing about people travels at all: a task is a
handful of plan indices, and its result is its own name.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from primo_scale.accumulate.failures import Contained
from primo_scale.accumulate.partials import Address, Partials
from primo_scale.accumulate.plan import RowTask, Task, TileTask
from primo_scale.kernels.choice import choose_kernel
from primo_scale.kernels.clipping import UNCLIPPED, scale_columns
from primo_scale.kernels.packed import add_squared_norms, decode_into, repack
from primo_scale.kernels.product_blas import outcome_gram
from primo_scale.kernels.products import (
    LARGEST_BYTE,
    Int8,
    Int64,
    ProductSum,
    byte_planes,
    from_byte_planes,
    mirrored,
    spread_rows,
    with_ones,
)
from primo_scale.storage.files import keep_files_private

# As many as a chunk of the genotype store holds: 2048 x 8192 packed genotypes are 4 MiB.
_VARIANTS_PER_NORM_PASS = 2048


def run_task(address: Address, task: Task) -> None:
    """Compute and commit one task, unless it is committed; running it again gives the same bytes.

    Dask runs a task again when a worker that had finished it dies before anybody took notice.

    Raises
    ------
    PrimoError
        It failed: what of that may travel, and nothing else of it (`Contained`).
    """
    with Contained() as contained:
        partials = _open_partials(address)
        if partials.is_committed(task):
            return
        if isinstance(task, RowTask):
            _run_rows(partials, task)
        else:
            _run_tile(partials, task)
    if contained.failure is not None:
        raise contained.failure


def _run_rows(partials: Partials, task: RowTask) -> None:
    """Clip the records of one stripe by the row rule, and sum their Z'Z."""
    plan, rule = partials.plan, partials.inputs.row_rule
    outcomes = partials.outcomes()
    q = plan.layout.n_outcomes
    total = np.zeros((q, q), dtype=np.int64)
    for samples in plan.reads(task):
        rows = outcomes.read_rows(samples)
        multipliers = np.full((len(rows), partials.multiplier_columns), UNCLIPPED, dtype=np.int64)
        if rule is not None:
            norms = _row_norms(partials, samples)
            multipliers, record = rule.shrink(norms)
            rows = rule.clip_outcomes(rows, plan.layout.n_fixed, record, norms)
        partials.commit_read(samples, multipliers, byte_planes(rows))
        total += outcome_gram(rows)
    partials.commit_rows(task, total)


def _row_norms(partials: Partials, samples: slice) -> Int64:
    """Squared norm of every record's genotypes in every block, shape (people, blocks).

    All zero where, by a public comparison, no record can be too long.
    """
    layout, table = partials.plan.layout, partials.code_table
    norms = np.zeros((layout.n_blocks, samples.stop - samples.start), dtype=np.int64)
    if not partials.may_clip:
        return norms.T
    for start in range(0, layout.n_variants, _VARIANTS_PER_NORM_PASS):
        read = slice(start, min(start + _VARIANTS_PER_NORM_PASS, layout.n_variants))
        packed = partials.genotypes.read_packed(read, samples)
        first = bisect_right(layout.boundaries, read.start) - 1
        for block in range(first, bisect_left(layout.boundaries, read.stop)):
            whole = layout.variants(block)
            part = slice(max(read.start, whole.start), min(read.stop, whole.stop))
            here = packed[part.start - start : part.stop - start]
            add_squared_norms(norms[block], here, table[part])
    return norms.T


def _run_tile(partials: Partials, task: TileTask) -> None:
    """Sum one tile of X'X, and on the diagonal the matching rows of X'Z."""
    plan, largest = partials.plan, partials.max_code
    diagonal = task.row_tile == task.column_tile
    left = _Codes(partials, task.block, plan.variants(task.block, task.row_tile))
    right = _Codes(partials, task.block, plan.variants(task.block, task.column_tile))
    shape = (left.height, right.height)
    gram = ProductSum(choose_kernel(partials.kernel, largest), shape, largest**2)
    planes = 2 * plan.layout.n_outcomes + 1
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    # Planes on the left, which a kernel may have to copy: they are few.
    cross = ProductSum(kernel, (planes, left.height), largest * LARGEST_BYTE)
    for samples in plan.reads(task):
        multiplier = partials.block_multipliers(task.block, samples)
        sampled = partials.sampled(samples)
        if diagonal:
            codes = left.read(samples, multiplier)
            cross.add(with_ones(partials.outcome_planes(samples)), codes)
            if sampled is not None:
                codes = left.read(samples, multiplier, sampled)
            gram.add(codes, codes)
        else:
            codes = left.read(samples, multiplier, sampled)
            gram.add(codes, right.read(samples, multiplier, sampled))
    if diagonal:
        partials.commit_cross(task, from_byte_planes(cross.total().T))
    partials.commit_tile(task, mirrored(gram.total()) if diagonal else gram.total())


class _Codes:
    """Coded genotypes of one tile's variants, of some people at a time, in memory of its own."""

    def __init__(self, partials: Partials, block: int, variants: slice) -> None:
        self._store, self._variants = partials.genotypes, variants
        self._table = partials.code_table[variants]
        self.height = variants.stop - variants.start
        self._memory = spread_rows(self.height, partials.plan.rows_per_read)

    def read(
        self,
        samples: slice,
        multiplier: Int64,
        chosen: npt.NDArray[np.intp] | None = None,
    ) -> Int8:
        """Codes of shape (variants, people), rows beyond their bound scaled back.

        Of those at the positions `chosen` among the people `samples`; None: of all. The next read
        overwrites them.
        """
        packed = self._store.read_packed(self._variants, samples)
        if chosen is not None:
            packed, multiplier = repack(packed, chosen), multiplier[chosen]
        codes = decode_into(self._memory, packed, self._table)[:, : len(multiplier)]
        beyond = np.flatnonzero(multiplier != UNCLIPPED)
        if len(beyond):
            scale_columns(codes, beyond, multiplier[beyond])
        return codes


@lru_cache(maxsize=4)
def _open_partials(address: Address) -> Partials:
    keep_files_private()
    return Partials(*address)
