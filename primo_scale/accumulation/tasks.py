"""Tasks of an accumulation: read people from the stores, multiply, and commit one result.

A task consists of a few indices of the plan. Workers read inputs from the stores and write results
to them, so that no data about people passes through the scheduler.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.failures import Contained
from primo_scale.accumulation.partials import Address, Partials
from primo_scale.accumulation.plan import RowTask, Task, TileTask
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.kernels.choice import choose_kernel
from primo_scale.kernels.clipping import UNCLIPPED, scale_columns
from primo_scale.kernels.packed import PackedGenotypes, add_squared_norms, decode_into, repack
from primo_scale.kernels.products import (
    LARGEST_BYTE,
    GatheredSum,
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

# Number of variants in a chunk of the genotype store: 2048 x 8192 packed genotypes are 4 MiB.
VARIANTS_PER_NORM_PASS = 2048


_Part = TypeVar("_Part")
_Read = TypeVar("_Read")


def run_task(address: Address, task: Task) -> None:
    """Compute and commit one task on a worker, unless its results exist.

    Dask repeats a task if its worker dies before the scheduler knows that the task is done. A
    repeated task computes the same bytes.

    Raises
    ------
    PrimoError
        The task failed. The error is free of private values (`Contained`).
    """
    with Contained() as contained:
        partials = _open_partials(address)
        if not partials.is_committed(task):
            compute_task(partials, task, lambda: None)
    if contained.failure is not None:
        raise contained.failure


def compute_task(partials: Partials, task: Task, check: Callable[[], None]) -> None:
    """Compute and commit one task; `check` is called before each read, and raises to stop it."""
    if isinstance(task, RowTask):
        _run_rows(partials, task, check)
    else:
        _run_tile(partials, task, check)


def _run_rows(partials: Partials, task: RowTask, check: Callable[[], None]) -> None:
    """Clip the records of one stripe, and sum their Z'Z."""
    plan, inputs, rule = partials.plan, partials.inputs, partials.clipping_rule
    genotypes = inputs.open_genotypes() if partials.may_clip else None
    outcomes = inputs.open_outcomes()
    n_planes = 2 * plan.layout.n_outcomes + 1
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    gram = ProductSum(kernel, (n_planes, n_planes), LARGEST_BYTE**2)
    reads = list(plan.reads(task))
    for samples, rows in zip(reads, _read_ahead(outcomes.read_rows, reads), strict=True):
        check()
        multipliers = np.full((len(rows), partials.multiplier_columns), UNCLIPPED, dtype=np.int64)
        if rule is not None:
            norms = _row_norms(partials, genotypes, samples)
            multipliers, record = rule.shrink(norms)
            rows = rule.clip_outcomes(rows, plan.layout.n_fixed, record, norms)
        planes = byte_planes(rows)
        partials.commit_read(samples, multipliers, planes)
        with_constant = with_ones(planes)
        gram.add(with_constant, with_constant)
    planes_by_outcomes = from_byte_planes(mirrored(gram.total()))
    partials.commit_rows(task, from_byte_planes(planes_by_outcomes.T))


def _row_norms(partials: Partials, genotypes: GenotypeStore | None, samples: slice) -> Int64:
    """Return the squared norm of every record's genotypes in every block, shape (people, blocks).

    The norms are zero if `genotypes` is None, because no record can be too long.
    """
    layout, table = partials.plan.layout, partials.code_table
    norms = np.zeros((layout.n_blocks, samples.stop - samples.start), dtype=np.int64)
    if genotypes is None:
        return norms.T
    starts = range(0, layout.n_variants, VARIANTS_PER_NORM_PASS)
    passes = [slice(at, min(at + VARIANTS_PER_NORM_PASS, layout.n_variants)) for at in starts]

    def read(variants: slice) -> PackedGenotypes:
        return genotypes.read_packed(variants, samples)

    for variants, packed in zip(passes, _read_ahead(read, passes), strict=True):
        first = bisect_right(layout.boundaries, variants.start) - 1
        for block in range(first, bisect_left(layout.boundaries, variants.stop)):
            whole = layout.variants(block)
            part = slice(max(variants.start, whole.start), min(variants.stop, whole.stop))
            here = packed[part.start - variants.start : part.stop - variants.start]
            add_squared_norms(norms[block], here, table[part])
    return norms.T


def _run_tile(partials: Partials, task: TileTask, check: Callable[[], None]) -> None:
    """Sum one tile of X'X, and on the diagonal the matching rows of X'Z."""
    if task.on_diagonal:
        _run_on_diagonal(partials, task, check)
    else:
        _run_beside_diagonal(partials, task, check)


def _run_on_diagonal(partials: Partials, task: TileTask, check: Callable[[], None]) -> None:
    plan, largest = partials.plan, partials.max_code
    genotypes = partials.inputs.open_genotypes()
    tile = _Codes(partials, genotypes, plan.variants(task.block, task.row_tile))
    gram = _gram_sum(partials, tile, tile)
    planes = 2 * plan.layout.n_outcomes + 1
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    # A kernel may have to copy its left operand; the planes are the smaller one.
    cross = ProductSum(kernel, (planes, tile.height), largest * LARGEST_BYTE)

    def read(samples: slice) -> tuple[PackedGenotypes, Int8, _ReadPeople]:
        planes = with_ones(partials.outcome_planes(samples))
        return tile.read(samples), planes, _ReadPeople.read(partials, task.block, samples)

    for packed, outcomes, people in _read_ahead(read, plan.reads(task)):
        check()
        codes = tile.decode(packed, people.everybody)
        cross.add(outcomes, codes)
        if people.sampled is not None:
            codes = tile.decode(packed, people)
        gram.add(codes, codes)
    partials.commit_cross(task, from_byte_planes(cross.total().T))
    partials.commit_tile(task, mirrored(gram.total()))


def _run_beside_diagonal(partials: Partials, task: TileTask, check: Callable[[], None]) -> None:
    plan = partials.plan
    genotypes = partials.inputs.open_genotypes()
    left = _Codes(partials, genotypes, plan.variants(task.block, task.row_tile))
    right = _Codes(partials, genotypes, plan.variants(task.block, task.column_tile))
    gram = _gram_sum(partials, left, right)

    def read(samples: slice) -> tuple[PackedGenotypes, PackedGenotypes, _ReadPeople]:
        people = _ReadPeople.read(partials, task.block, samples)
        return left.read(samples), right.read(samples), people

    for left_packed, right_packed, people in _read_ahead(read, plan.reads(task)):
        check()
        gram.add(left.decode(left_packed, people), right.decode(right_packed, people))
    partials.commit_tile(task, gram.total())


def _gram_sum(partials: Partials, left: _Codes, right: _Codes) -> ProductSum | GatheredSum:
    largest = partials.max_code
    kernel = choose_kernel(partials.kernel, largest)
    total = ProductSum(kernel, (left.height, right.height), largest**2)
    return total if partials.subsample is None else GatheredSum(total, partials.plan.rows_per_read)


@dataclass(frozen=True)
class _ReadPeople:
    """Multipliers of the people in one read, and positions of those in the subsample."""

    multiplier: Int64  # in units of 2^-31
    sampled: npt.NDArray[np.intp] | None  # None means all

    @classmethod
    def read(cls, partials: Partials, block: int, samples: slice) -> _ReadPeople:
        return cls(partials.block_multipliers(block, samples), partials.sampled(samples))

    @property
    def everybody(self) -> _ReadPeople:
        """All people of the read, in the subsample or not."""
        return _ReadPeople(self.multiplier, None)


class _Codes:
    """Coded genotypes of one tile's variants for one read at a time, in reused memory."""

    def __init__(self, partials: Partials, genotypes: GenotypeStore, variants: slice) -> None:
        self._store, self._variants = genotypes, variants
        self._table = partials.code_table[variants]
        self.height = variants.stop - variants.start
        self._memory = spread_rows(self.height, partials.plan.rows_per_read)

    def read(self, samples: slice) -> PackedGenotypes:
        """Return the packed genotypes of one read."""
        return self._store.read_packed(self._variants, samples)

    def decode(self, packed: PackedGenotypes, people: _ReadPeople) -> Int8:
        """Return the clipped codes of the people, shape (variants, people).

        The next call overwrites them.
        """
        multiplier = people.multiplier
        if people.sampled is not None:
            packed, multiplier = repack(packed, people.sampled), multiplier[people.sampled]
        codes = decode_into(self._memory, packed, self._table)[:, : len(multiplier)]
        beyond = np.flatnonzero(multiplier != UNCLIPPED)
        if len(beyond):
            scale_columns(codes, beyond, multiplier[beyond])
        return codes


@lru_cache(maxsize=4)
def _open_partials(address: Address) -> Partials:
    keep_files_private()
    return Partials(*address)


def _read_ahead(read: Callable[[_Part], _Read], parts: Iterable[_Part]) -> Iterator[_Read]:
    """Yield ``read(part)`` for every part, in order, and read the next part in a thread.

    Two parts are in memory at a time: the one in use and the one being read. Waiting for a disk or
    a network, verifying a checksum and copying bytes all release the interpreter lock.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
        ahead = None
        for part in parts:
            following = thread.submit(read, part)
            if ahead is not None:
                yield ahead.result()
            ahead = following
        if ahead is not None:
            yield ahead.result()
