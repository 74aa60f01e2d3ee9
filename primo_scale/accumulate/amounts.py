"""How much work tasks are, for progress and the time left: tasks differ, so they are weighed.

The unit is a tenth of one multiplication of codes in a tile beside the diagonal. What else a task
does was timed against it (`accumulate.speed.measure_rates`, AVX-512, one core); elsewhere the
ratios differ, and the time left is a guide all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primo_scale.accumulate.plan import Plan, RowTask, Task

if TYPE_CHECKING:
    from primo_scale.accumulate.partials import Partials

# For a multiplication of a tile beside the diagonal; on it, where half of them are spared; of
# outcome planes with codes; and with themselves, half spared.
_BESIDE, _DIAGONAL, _OUTCOMES, _OUTCOME_GRAM = 10, 5, 23, 12
# For a genotype; reading its quarter of a byte at `accumulate.speed.STORE_RATE`.
_DECODING, _NORMS, _READING = 230, 400, 1100


@dataclass(frozen=True)
class Amount:
    """So many tasks, and what they weigh."""

    tasks: int
    weight: int

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tasks + other.tasks, self.weight + other.weight)


@dataclass(frozen=True)
class Scales:
    """What the weight of a task depends on.

    Attributes
    ----------
    plan
        That it is of.
    norms
        Whether row tasks measure the records.
    chunk_height
        Variants of a chunk of the genotype store: chunks are read whole.
    """

    plan: Plan
    norms: bool
    chunk_height: int

    @classmethod
    def of(cls, partials: Partials) -> Scales:
        """For the tasks of a store of partial sums, which is all that is looked at."""
        return cls(partials.plan, partials.may_clip, partials.attributes["chunk_height"])

    def weight(self, task: Task) -> int:
        """What one task weighs."""
        people = self.plan.people(task)
        return int(people.stop - people.start) * self._of_a_person(task)

    def amount(self, tasks: Iterable[Task]) -> Amount:
        """How much work some tasks are together."""
        weights = [self.weight(task) for task in tasks]
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
        return int(_READING * chunks * self.chunk_height)
