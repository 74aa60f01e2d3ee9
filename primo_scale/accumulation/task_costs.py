"""Costs of tasks: operations and reads, for the predicted time and for the progress of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

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
class TaskCosts:
    """Parameters that determine the cost of a task."""

    plan: Plan
    norms: bool  # whether row tasks compute the norms of the rows
    chunk_height: int  # variants in a chunk of the genotype store; only whole chunks are read
    packing: Packing = HARD_CALLS  # of the genotype store
    # Number of variants in each block if the columns of X are LD components, else None.
    variants: tuple[int, ...] | None = None

    @classmethod
    def of(cls, partials: Partials) -> TaskCosts:
        """Return the parameters for the tasks of a store of partial sums."""
        genotypes, components = partials.inputs.open_genotypes(), partials.components
        edges = None if components is None else components.boundaries
        return cls(
            partials.plan,
            partials.may_clip,
            genotypes.chunk_shape[0],
            genotypes.packing,
            None if edges is None else tuple(stop - start for start, stop in pairwise(edges)),
        )

    def amount(self, tasks: Iterable[Task]) -> Amount:
        """Return the number of some tasks, and their weight by typical costs."""
        weights = list(map(self.weight, tasks))
        return Amount(len(weights), sum(weights))

    def weight(self, task: Task) -> int:
        """Return the weight of a task."""
        read = self.rows_read(task) * self.packing.width(4) / 4
        a_person = self.of_a_person(task, _TYPICAL) + _READING * read
        return length(self.plan.people(task)) * round(a_person)

    def of_a_person(self, task: Task, rates: Rates) -> float:
        """Return the cost of a task's operations for each person."""
        planes = self.plan.n_planes
        if isinstance(task, RowTask):
            return planes**2 * rates.outcome_gram + (self._norms(rates) if self.norms else 0)
        if task.on_diagonal:
            return sum(self._on_diagonal(tile, planes, rates) for tile in task.tiles)
        # A tile is decoded once for every tile that it is multiplied with.
        tiles = (task.row_tile, task.column_tile)
        heights = [length(self.plan.inside(task.block, tile)) for tile in tiles]
        return sum(heights) * rates.decoding + math.prod(heights) * rates.beside

    def _on_diagonal(self, tile: TileTask, planes: int, rates: Rates) -> float:
        height = length(self.plan.inside(tile.block, tile.row_tile))
        decoding = height * rates.decoding + self._mapping(tile.block, rates)
        return decoding + height**2 * rates.diagonal + height * planes * rates.outcomes

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

    def rows_read(self, task: Task) -> int:
        """Return the number of variants in the chunks that a task reads."""
        if isinstance(task, RowTask) and not self.norms:
            return 0
        if isinstance(task, TileTask):
            return sum(map(self._in_chunks, self._parts(task)))
        if self.variants is None:
            return self._in_chunks(slice(0, self.plan.layout.n_variants))
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
        height = self.chunk_height
        first, last = part.start // height, (part.stop - 1) // height
        return height * int(last - first + 1)
