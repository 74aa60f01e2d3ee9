"""Work of an accumulation: its parameters, and the operations and reads of its tasks.

The progress of a run and the forecasts of memory, disk and time are computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from primo_scale.accumulation.plan import Plan, RowTask, Task, TileTask, length
from primo_scale.genotypes.packings import HARD_CALLS, Packing

if TYPE_CHECKING:
    from primo_scale.accumulation.partials import Partials


@dataclass(frozen=True)
class Rates:
    """Cost of each operation, such as its seconds on one core."""

    diagonal: float  # per multiplication of codes in a diagonal tile, of which half is computed
    beside: float  # in an off-diagonal tile
    outcomes: float  # of outcome planes with codes
    outcome_gram: float  # of outcome planes with themselves, of which half is computed
    decoding: float  # per decoded genotype
    norms: float  # per genotype that is added to a squared norm


# Rates for the progress, in tenths of one multiplication in an off-diagonal tile, and the cost of
# reading a byte at `accumulation.speed.STORE_RATE`. They come from timings (AVX-512, one core). On
# other machines the ratios differ, but the estimated time left remains useful.
_TYPICAL = Rates(diagonal=5, beside=10, outcomes=23, outcome_gram=12, decoding=230, norms=400)
_READING = 4400


@dataclass(frozen=True)
class Amount:
    """Number of tasks, and their total weight."""

    tasks: int
    weight: int

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tasks + other.tasks, self.weight + other.weight)


@dataclass(frozen=True)
class Workload:
    """Parameters of an accumulation's memory, disk use and time; public except for n_samples."""

    plan: Plan
    kernel: str  # name of the kernel that multiplies genotypes and outcomes
    largest_code: int  # largest magnitude of a genotype code
    chunk_shape: tuple[int, int]  # variants and people in a chunk of the genotype store
    may_clip: bool  # whether genotype rows can exceed their bounds, so that norms are computed
    multiplier_columns: int  # row multipliers per person: one for each block with its own bound
    subsampled: bool  # whether X'X is summed over a subsample of the people
    # Number of variants in each block if the columns of X are LD components, else None.
    variants: tuple[int, ...] | None = None
    packing: Packing = HARD_CALLS  # of the genotype store

    @classmethod
    def of(cls, partials: Partials) -> Workload:
        """Return the work that a store of partial sums belongs to."""
        genotypes, components = partials.inputs.open_genotypes(), partials.components
        return cls(
            plan=partials.plan,
            kernel=partials.kernel,
            largest_code=partials.max_code,
            chunk_shape=genotypes.chunk_shape,
            may_clip=partials.may_clip,
            multiplier_columns=partials.multiplier_columns,
            subsampled=partials.subsample is not None,
            variants=None if components is None else tuple(np.diff(components.boundaries).tolist()),
            packing=genotypes.packing,
        )

    @property
    def n_variants(self) -> int:
        """Number of variants of the genotypes."""
        return self.plan.layout.n_variants if self.variants is None else sum(self.variants)

    @property
    def tile_variants(self) -> int:
        """Number of variants that the largest tile is computed from."""
        return self.side if self.variants is None else max(self.variants)

    @property
    def task_variants(self) -> int:
        """Number of variants that the largest task on the diagonal reads together."""
        if self.variants is None:
            return self.task_columns
        return max(sum(self.variants[block] for block in blocks) for blocks in self.shared_blocks)

    @property
    def task_columns(self) -> int:
        """Number of columns of X of the largest task on the diagonal, in all its blocks."""
        return max(sum(map(self._side_of, blocks)) for blocks in self.shared_blocks)

    @property
    def task_entries(self) -> int:
        """Largest number of entries of the tiles of X'X of a task on the diagonal."""
        return max(
            sum(self._side_of(block) ** 2 for block in blocks) for blocks in self.shared_blocks
        )

    @cached_property
    def shared_blocks(self) -> list[range]:
        """LD blocks in ranges that share tasks."""
        return list(self.plan.shared_blocks())

    def _side_of(self, block: int) -> int:
        return min(self.plan.tile, self.plan.layout.size(block))

    @property
    def people(self) -> int:
        """Number of people in a read."""
        return min(self.plan.rows_per_read, self.plan.n_samples)

    @property
    def side(self) -> int:
        """Number of columns of X along a side of the largest tile."""
        return min(self.plan.tile, max(self.plan.layout.sizes))

    def upper_tiles(self, block: int) -> int:
        """Return the number of tiles of a block on or above the diagonal, which are summed."""
        return self.plan.n_tiles(block) * (self.plan.n_tiles(block) + 1) // 2

    def amount(self, tasks: Iterable[Task]) -> Amount:
        """Return the number of some tasks, and their weight by typical costs."""
        weights = list(map(self.weight, tasks))
        return Amount(len(weights), sum(weights))

    def weight(self, task: Task) -> int:
        """Return the weight of a task."""
        read = self.variants_read(task) * self.packing.width(4) / 4
        a_person = self.of_a_person(task, _TYPICAL) + _READING * read
        return length(self.plan.people(task)) * round(a_person)

    def of_a_person(self, task: Task, rates: Rates) -> float:
        """Return the cost of a task's operations for each person."""
        planes = self.plan.n_planes
        if isinstance(task, RowTask):
            return planes**2 * rates.outcome_gram + (self._norms(rates) if self.may_clip else 0)
        if task.on_diagonal:
            return sum(self._on_diagonal(tile, planes, rates) for tile in task.tiles)
        # A tile is decoded once for every tile that it is multiplied with.
        tiles = (task.row_tile, task.column_tile)
        heights = [length(self.plan.inside(task.block, tile)) for tile in tiles]
        return sum(heights) * rates.decoding + math.prod(heights) * rates.beside

    def _on_diagonal(self, tile: TileTask, planes: int, rates: Rates) -> float:
        height = length(self.plan.inside(tile.block, tile.row_tile))
        decoding = height * rates.decoding + self._mapping(tile.block, rates)
        gram = height**2 * rates.diagonal if self.plan.sums_gram else 0
        return decoding + gram + height * planes * rates.outcomes

    def _norms(self, rates: Rates) -> float:
        layout = self.plan.layout
        if self.variants is None:
            return layout.n_variants * rates.norms
        return sum(self._mapping(block, rates) for block in range(layout.n_blocks))

    def _mapping(self, block: int, rates: Rates) -> float:
        """Return the cost of the LD components of a block, if there are any."""
        if self.variants is None:
            return 0
        return self.variants[block] * (self.plan.layout.size(block) * rates.beside + rates.decoding)

    def variants_read(self, task: Task) -> int:
        """Return the number of variants in the chunks that a task reads."""
        if isinstance(task, RowTask) and not self.may_clip:
            return 0
        if isinstance(task, TileTask):
            return sum(map(self._in_chunks, self._parts(task)))
        if self.variants is None:
            return self._in_chunks(slice(0, self.n_variants))
        blocks = range(self.plan.layout.n_blocks)
        return sum(self._in_chunks(self._of_blocks(range(b, b + 1))) for b in blocks)

    def _parts(self, task: TileTask) -> list[slice]:
        """Return the variants that a tile task reads."""
        if self.variants is not None or task.n_blocks > 1:
            return [self._of_blocks(task.blocks)]
        return [self.plan.variants(task.block, tile) for tile in {task.row_tile, task.column_tile}]

    def _of_blocks(self, blocks: range) -> slice:
        """Return the variants of consecutive LD blocks."""
        sizes = self.plan.layout.sizes if self.variants is None else self.variants
        return slice(sum(sizes[: blocks.start]), sum(sizes[: blocks.stop]))

    def _in_chunks(self, part: slice) -> int:
        """Return the number of variants in the chunks that contain some variants."""
        height = self.chunk_shape[0]
        first, last = part.start // height, (part.stop - 1) // height
        return height * int(last - first + 1)
