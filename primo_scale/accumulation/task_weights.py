"""Weights of tasks, in proportion to their work, for progress and the estimated time left.

The unit is a tenth of one multiplication of codes in an off-diagonal tile. The weights of the other
operations come from timings (`accumulation.speed.measure_rates`, AVX-512, one core). On other
machines the ratios differ, but the estimated time left remains useful.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primo_scale.accumulation.plan import Plan, RowTask, Task
from primo_scale.genotypes.packings import HARD_CALLS, Packing

if TYPE_CHECKING:
    from primo_scale.accumulation.partials import Partials

# Weight of a multiplication in an off-diagonal tile; in a diagonal tile, of which only half is
# computed; of outcome planes with codes; and of outcome planes with themselves, only half computed.
_BESIDE, _DIAGONAL, _OUTCOMES, _OUTCOME_GRAM = 10, 5, 23, 12
# Weight per genotype. Reading a quarter of a byte is at `accumulation.speed.STORE_RATE`.
_DECODING, _NORMS, _READING = 230, 400, 1100


@dataclass(frozen=True)
class Amount:
    """Number of tasks, and their total weight."""

    tasks: int
    weight: int

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tasks + other.tasks, self.weight + other.weight)


@dataclass(frozen=True)
class Scales:
    """Parameters that determine the weight of a task."""

    plan: Plan
    norms: bool  # whether row tasks compute the norms of the rows
    chunk_height: int  # variants in a chunk of the genotype store; only whole chunks are read
    packing: Packing = HARD_CALLS  # of the genotype store

    @classmethod
    def of(cls, partials: Partials) -> Scales:
        """Return the parameters for the tasks of a store of partial sums."""
        packing = partials.inputs.open_genotypes().packing
        height = partials.attributes["chunk_height"]
        return cls(partials.plan, partials.may_clip, height, packing)

    def amount(self, tasks: Iterable[Task]) -> Amount:
        """Return the number and the total weight of some tasks."""
        people = [(task, self.plan.people(task)) for task in tasks]
        weights = [int(of.stop - of.start) * self._of_a_person(task) for task, of in people]
        return Amount(len(weights), sum(weights))

    def _of_a_person(self, task: Task) -> int:
        layout = self.plan.layout
        planes = 2 * layout.n_outcomes + 1
        if isinstance(task, RowTask):
            everything = slice(0, layout.n_variants)
            read = _NORMS * layout.n_variants + self._reading(everything) if self.norms else 0
            return _OUTCOME_GRAM * planes**2 + read
        tiles = sorted({task.row_tile, task.column_tile})
        parts = [self.plan.variants(task.block, tile) for tile in tiles]
        heights = [int(part.stop - part.start) for part in parts]
        fetched = sum(map(self._reading, parts)) + _DECODING * sum(heights)
        if len(tiles) == 1:
            return fetched + _DIAGONAL * heights[0] ** 2 + _OUTCOMES * heights[0] * planes
        return fetched + _BESIDE * heights[0] * heights[1]

    def _reading(self, variants: slice) -> int:
        chunks = (variants.stop - 1) // self.chunk_height - variants.start // self.chunk_height + 1
        return int(_READING * chunks * self.chunk_height * self.packing.width(4))
