"""The plan of an accumulation: a pure function of public shapes, with no cluster in sight.

Work is cut twice. A **row task** owns one stripe (a run of people): it measures row norms, clips
rows, and sums Z'Z. A **tile task** owns one row group (a longer run of people) and one pair of
column tiles inside an LD block: it sums that tile of X'X and, on the diagonal, the matching rows
of X'Z. Tasks of the two kinds commit under their own keys, so what remains after any interruption
is a set difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from primo_scale.errors import UsageError
from primo_scale.kernels.products import LARGEST_INT32
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.files import sha256_of_json

# A sum of 2048 x 2048 int32 is 16 MiB, and decoding takes a thirtieth of multiplying.
DEFAULT_TILE = 2048
# A chunk of the genotype store; blocks narrower than a tile are read for more people at a time.
_ROWS_PER_CHUNK = 8192
_MOST_CHUNKS_PER_READ = 4
_LARGEST_STRIPE = 65_536
_FEWEST_STRIPES = 2
# A tile task is of so many multiplications and additions or of less than twice as many: seconds on
# a core, long against Dask's milliseconds and against writing its result, short against an
# interruption. Those of outcomes do not count: for every row group X'Z lies on the disk once more.
_TASK_OPERATIONS = 10**12
_FEWEST_TILE_TASKS = 4


@dataclass(frozen=True, order=True)
class RowTask:
    """Norms, clipping and Z'Z of one stripe."""

    stripe: int

    @property
    def key(self) -> str:
        """Name of the task on the cluster; holds nothing but plan indices."""
        return f"rows-{self.stripe}"


@dataclass(frozen=True, order=True)
class TileTask:
    """One tile of X_b'X_b over one row group; with ``row_tile == column_tile`` also of X_b'Z."""

    row_group: int
    block: int
    row_tile: int
    column_tile: int

    @property
    def on_diagonal(self) -> bool:
        """Whether the matrix's diagonal runs through the tile."""
        return self.row_tile == self.column_tile

    @property
    def key(self) -> str:
        """Name of the task on the cluster; holds nothing but plan indices."""
        return f"tile-{self.row_group}-{self.block}-{self.row_tile}-{self.column_tile}"


Task = RowTask | TileTask


@dataclass(frozen=True)
class Order:
    """Tasks to run, each sequence in the order to start them.

    Attributes
    ----------
    first
        Those that are started before all others.
    beside
        Those that need nothing of them.
    after
        Those that are started when all of `first` are done.
    """

    first: Sequence[Task] = ()
    beside: Sequence[Task] = ()
    after: Sequence[Task] = ()


@dataclass(frozen=True)
class Plan:
    """How one accumulation is cut into tasks.

    Attributes
    ----------
    layout
        Blocks and outcome columns.
    n_samples
        Number of people n.
    row_group, stripe
        People in a tile task and in a row task, multiples of `rows_per_read`: a chunk of clipped
        rows has one writer.
    rows_per_read
        People in memory at a time, a multiple of 4.
    tile
        Variants on a side of a tile.
    """

    layout: BlockLayout
    n_samples: int
    row_group: int
    stripe: int
    rows_per_read: int
    tile: int = DEFAULT_TILE

    def __post_init__(self) -> None:
        parts = (self.row_group, self.stripe)
        if self.rows_per_read % 4 or any(part % self.rows_per_read for part in parts):
            raise UsageError(
                "people must be cut into whole bytes, row groups and stripes into whole reads",
                value=f"{self.row_group} and {self.stripe} by {self.rows_per_read}",
            )

    @property
    def n_row_groups(self) -> int:
        """Number of row groups."""
        return -(-self.n_samples // self.row_group)

    @property
    def n_stripes(self) -> int:
        """Number of stripes."""
        return -(-self.n_samples // self.stripe)

    def fits_int32(self, largest: int) -> bool:
        """Whether no sum of products of at most `largest` over a row group can leave int32."""
        return min(self.row_group, self.n_samples) * largest <= LARGEST_INT32

    def gram_type(self, largest_code: int) -> np.dtype[np.signedinteger[Any]]:
        """Type of the sums of a committed tile of X'X."""
        return np.dtype(np.int32 if self.fits_int32(largest_code**2) else np.int64)

    def people(self, task: Task) -> slice:
        """People of a task."""
        size = self.stripe if isinstance(task, RowTask) else self.row_group
        start = size * (task.stripe if isinstance(task, RowTask) else task.row_group)
        return slice(start, min(start + size, self.n_samples))

    def reads(self, task: Task) -> Iterator[slice]:
        """People of a task, as many at a time as are held in memory."""
        people = self.people(task)
        for start in range(people.start, people.stop, self.rows_per_read):
            yield slice(start, min(start + self.rows_per_read, people.stop))

    def n_tiles(self, block: int) -> int:
        """Number of tiles along a side of a block."""
        return -(-self.layout.size(block) // self.tile)

    def variants(self, block: int, tile: int) -> slice:
        """Variants of one tile of a block, as indices into the whole genotype matrix."""
        inside = self.inside(block, tile)
        first = self.layout.boundaries[block]
        return slice(first + inside.start, first + inside.stop)

    def inside(self, block: int, tile: int) -> slice:
        """Variants of one tile, as indices into the block."""
        start = tile * self.tile
        return slice(start, min(start + self.tile, self.layout.size(block)))

    def row_tasks(self) -> Iterator[RowTask]:
        """All row tasks, in order."""
        yield from (RowTask(stripe) for stripe in range(self.n_stripes))

    def tile_tasks(self) -> Iterator[TileTask]:
        """All tile tasks: the upper triangle of every block, for every row group."""
        for group in range(self.n_row_groups):
            for block in range(self.layout.n_blocks):
                yield from self.tiles_of(group, block)

    def longest_first(self, tasks: Iterable[TileTask]) -> list[TileTask]:
        """Tile tasks by the number of products, so that all workers end at about the same time."""

        def products(task: TileTask) -> int:
            rows, columns = task.row_tile, task.column_tile
            area = _length(self.inside(task.block, rows)) * _length(
                self.inside(task.block, columns)
            )
            return _length(self.people(task)) * area * (1 if rows == columns else 2)

        return sorted(tasks, key=products, reverse=True)

    def tiles_of(self, row_group: int, block: int) -> Iterator[TileTask]:
        """Tile tasks of one block and row group."""
        for row in range(self.n_tiles(block)):
            for column in range(row, self.n_tiles(block)):
                yield TileTask(row_group, block, row, column)

    def to_json(self) -> dict[str, Any]:
        """Everything that fixes the meaning of a committed partial."""
        return {
            "boundaries": list(self.layout.boundaries),
            "n_fixed": self.layout.n_fixed,
            "n_phenotypes": self.layout.n_phenotypes,
            "n_samples": self.n_samples,
            "row_group": self.row_group,
            "stripe": self.stripe,
            "rows_per_read": self.rows_per_read,
            "tile": self.tile,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        """Invert `to_json`."""
        layout = BlockLayout(tuple(value["boundaries"]), value["n_fixed"], value["n_phenotypes"])
        cut = (value[name] for name in ("row_group", "stripe", "rows_per_read", "tile"))
        return cls(layout, value["n_samples"], *cut)


def _length(part: slice) -> int:
    return int(part.stop - part.start)


def default_plan(layout: BlockLayout, n_samples: int) -> Plan:
    """Cut an accumulation from its public shapes alone, so that every retry cuts it alike."""
    widest = min(DEFAULT_TILE, max(layout.sizes))
    chunks = min(_MOST_CHUNKS_PER_READ, max(1, DEFAULT_TILE // widest))
    rows = chunks * _ROWS_PER_CHUNK
    reads = -(-n_samples // rows)
    tiles_a_side = [-(-size // DEFAULT_TILE) for size in layout.sizes]
    n_tiles = sum(side * (side + 1) // 2 for side in tiles_a_side)
    operations = 2 * widest * widest * n_samples
    groups = min(reads, max(operations // _TASK_OPERATIONS, _FEWEST_TILE_TASKS // n_tiles, 1))
    stripe = rows * min(-(-reads // _FEWEST_STRIPES), max(1, _LARGEST_STRIPE // rows))
    return Plan(layout, n_samples, rows * -(-reads // groups), stripe, rows)


AnyTask = TypeVar("AnyTask", RowTask, TileTask)


def remaining(tasks: Iterator[AnyTask], committed: Collection[Task]) -> list[AnyTask]:
    """Tasks of a plan whose results are not committed yet."""
    return [task for task in tasks if task not in committed]


def plan_digest(plan: Plan, inputs: dict[str, Any]) -> str:
    """Digest of the plan and of everything that decides what its tasks would sum."""
    return sha256_of_json({"plan": plan.to_json(), "inputs": inputs})
