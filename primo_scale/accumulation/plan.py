"""Plan of an accumulation, a pure function of public shapes, independent of any cluster.

Work is split in two ways. A **row task** covers one stripe (a run of people): it computes row
norms, clips rows, and sums Z'Z. A **tile task** covers one row group (a longer run of people) and
one pair of column tiles inside an LD block: it sums this tile of X'X and, on the diagonal, the
matching rows of X'Z. Narrow LD blocks that follow each other share a task, which reads the outcomes
once for all of them. Every result is committed under its own key, so that the remaining tasks after
an interruption are a set difference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.tables import VariantTable
from primo_scale.kernels.products import LARGEST_INT32
from primo_scale.ranges import runs_of
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.storage.files import converted, sha256_of_json
from primo_scale.verify.chromosomes import canonical_chromosome

# A sum of 2048 x 2048 int32 is 16 MiB, and decoding takes a thirtieth of the time of multiplying.
DEFAULT_TILE = 2048
# People in a chunk of the genotype store. Tasks narrower than a tile read several chunks.
_ROWS_PER_CHUNK = 8192
_MOST_CHUNKS_PER_READ = 4
_LARGEST_STRIPE = 65_536
_FEWEST_STRIPES = 2
# People are divided into row groups of which the widest tile has at least this number of
# multiplications and additions: seconds on a core, which is long compared with Dask's milliseconds
# and with writing the result, and short compared with an interruption. Operations on outcomes do
# not count, because every additional row group stores another copy of X'Z.
_TASK_OPERATIONS = 10**12
_FEWEST_TILE_TASKS = 4
# Narrow blocks are summed together only if at least this number of tasks is left for the workers.
_FEWEST_TASKS_OF_NARROW_BLOCKS = 8
COARSE_STEP = 256
"""Step of phenotypes on the lattice if they need no low byte."""


@dataclass(frozen=True, order=True)
class RowTask:
    """Norms, clipping and Z'Z of one stripe."""

    stripe: int

    @property
    def key(self) -> str:
        """Name of the task on the cluster, which contains only indices of the plan."""
        return f"rows-{self.stripe}"


@dataclass(frozen=True, order=True)
class TileTask:
    """One tile of X_b'X_b over one row group; on the diagonal, also the matching rows of X_b'Z.

    If `n_blocks` is greater than 1, the task has the only tiles of so many consecutive blocks.
    """

    row_group: int
    block: int
    row_tile: int
    column_tile: int
    n_blocks: int = 1

    @property
    def on_diagonal(self) -> bool:
        """Whether the tile lies on the diagonal of the matrix."""
        return self.row_tile == self.column_tile

    @property
    def blocks(self) -> range:
        """LD blocks of the task."""
        return range(self.block, self.block + self.n_blocks)

    @property
    def tiles(self) -> list[TileTask]:
        """Tiles of the task, each as a task of its own."""
        return [replace(self, block=block, n_blocks=1) for block in self.blocks]

    @property
    def key(self) -> str:
        """Name of the task on the cluster, which contains only indices of the plan."""
        return f"tile-{self.row_group}-{self.block}-{self.row_tile}-{self.column_tile}"


Task = RowTask | TileTask


@dataclass(frozen=True)
class Plan:
    """Split of one accumulation into tasks.

    A row group and a stripe are multiples of the people of a read, so that every chunk of clipped
    rows has one writer.
    """

    layout: BlockLayout
    n_samples: int
    row_group: int  # people in a tile task
    stripe: int  # people in a row task
    rows_per_read: int  # people in memory at a time, a multiple of 4
    tile: int = DEFAULT_TILE  # variants along a side of a tile
    together: int = 0  # variants of several blocks that share tasks, at most; 0: no block does
    phenotype_step: int = 1  # phenotypes are rounded to its multiples; 1 or `COARSE_STEP`
    sums_gram: bool = True  # whether X'X is summed; a second round sums X'Y alone

    def __post_init__(self) -> None:
        parts = (self.row_group, self.stripe)
        if self.rows_per_read % 4 or any(part % self.rows_per_read for part in parts):
            raise UsageError(
                "reads must be whole bytes, and row groups and stripes whole reads",
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

    @property
    def n_low_bytes(self) -> int:
        """Number of outcome columns, from the first, whose low bytes are multiplied."""
        coarse = self.phenotype_step == COARSE_STEP
        return self.layout.n_fixed if coarse else self.layout.n_outcomes

    @property
    def n_planes(self) -> int:
        """Number of byte planes of the outcomes, including the row of ones."""
        return self.layout.n_outcomes + self.n_low_bytes + 1

    def gram_type(self, largest_code: int) -> np.dtype[np.signedinteger[Any]]:
        """Return the data type of a committed tile of X'X."""
        largest = min(self.row_group, self.n_samples) * largest_code**2
        return np.dtype(np.int32 if largest <= LARGEST_INT32 else np.int64)

    def people(self, task: Task) -> slice:
        """Return the people of a task."""
        size = self.stripe if isinstance(task, RowTask) else self.row_group
        start = size * (task.stripe if isinstance(task, RowTask) else task.row_group)
        return slice(start, min(start + size, self.n_samples))

    def reads(self, task: Task) -> Iterator[slice]:
        """Yield the people of a task in parts that are read together."""
        people = self.people(task)
        for start in range(people.start, people.stop, self.rows_per_read):
            yield slice(start, min(start + self.rows_per_read, people.stop))

    def n_tiles(self, block: int) -> int:
        """Return the number of tiles along a side of a block."""
        return -(-self.layout.size(block) // self.tile)

    def variants(self, block: int, tile: int) -> slice:
        """Return the variants of one tile of a block, as indices into the whole genotype matrix."""
        inside = self.inside(block, tile)
        first = self.layout.boundaries[block]
        return slice(first + inside.start, first + inside.stop)

    def inside(self, block: int, tile: int) -> slice:
        """Return the variants of one tile, as indices into the block."""
        start = tile * self.tile
        return slice(start, min(start + self.tile, self.layout.size(block)))

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks."""
        yield from self.row_tasks()
        yield from self.tile_tasks()

    def row_tasks(self) -> Iterator[RowTask]:
        """Return all row tasks, in order."""
        return map(RowTask, range(self.n_stripes))

    def tile_tasks(self) -> Iterator[TileTask]:
        """Yield all tile tasks: the upper triangle of every block, for every row group."""
        for group in range(self.n_row_groups):
            for blocks in self.shared_blocks():
                tiles = range(self.n_tiles(blocks.start))
                for row, column in itertools.combinations_with_replacement(tiles, 2):
                    yield TileTask(group, blocks.start, row, column, len(blocks))

    def shared_blocks(self) -> Iterator[range]:
        """Yield all LD blocks in order, in ranges that share tasks."""
        return _shared(self.layout, min(self.together, self.tile))

    def to_json(self) -> dict[str, Any]:
        """Return all parameters that determine the content of a committed partial sum."""
        parameters = asdict(self)
        return {**parameters.pop("layout"), **parameters}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        """Invert `to_json`."""
        return converted({**value, "layout": value}, cls)


def default_plan(
    layout: BlockLayout, n_samples: int, phenotype_step: int = 1, *, sums_gram: bool = True
) -> Plan:
    """Plan an accumulation from its public shapes alone, so that every retry has the same plan."""
    together = min(DEFAULT_TILE, layout.n_variants // _FEWEST_TASKS_OF_NARROW_BLOCKS)
    shared = list(_shared(layout, together))
    widest = min(DEFAULT_TILE, max(sum(map(layout.size, blocks)) for blocks in shared))
    chunks = min(_MOST_CHUNKS_PER_READ, max(1, DEFAULT_TILE // widest))
    rows = chunks * _ROWS_PER_CHUNK
    reads = -(-n_samples // rows)
    tiles_a_side = [-(-layout.size(blocks.start) // DEFAULT_TILE) for blocks in shared]
    tile_tasks = sum(side * (side + 1) // 2 for side in tiles_a_side)  # of each row group
    operations = 2 * min(DEFAULT_TILE, max(layout.sizes)) ** 2 * n_samples
    groups = min(reads, max(operations // _TASK_OPERATIONS, _FEWEST_TILE_TASKS // tile_tasks, 1))
    stripe = rows * min(-(-reads // _FEWEST_STRIPES), max(1, _LARGEST_STRIPE // rows))
    row_group = rows * -(-reads // groups)
    step = phenotype_step
    # A map writes all columns of its block at once, and a second round has no tiles of X'X.
    tile = DEFAULT_TILE if sums_gram else max(DEFAULT_TILE, *layout.sizes)
    return Plan(layout, n_samples, row_group, stripe, rows, tile, together, step, sums_gram)


def _shared(layout: BlockLayout, most: int) -> Iterator[range]:
    """Yield all blocks in order, consecutive ones together if they have at most `most` variants."""
    first, width = 0, layout.size(0)
    for block in range(1, layout.n_blocks):
        if width + layout.size(block) > most:
            yield range(first, block)
            first, width = block, 0
        width += layout.size(block)
    yield range(first, layout.n_blocks)


def length(part: slice) -> int:
    """Return the number of variants, columns or people in a slice."""
    return int(part.stop - part.start)


def plan_digest(plan: Plan, inputs: dict[str, Any]) -> str:
    """Return a digest of the plan and of all inputs that determine the sums."""
    return sha256_of_json({"plan": plan.to_json(), "inputs": inputs})


LEAST_INSIDE = 0.1
"""Share of the variants that must lie inside a listed block. With the right blocks nearly all
variants do; with another genome build or blocks of other chromosomes hardly any."""
# Limits the number to 64 bits; int() refuses numbers with thousands of digits.
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)

_Row = tuple[int, int, int]  # start, end and line of an LD block


def block_boundaries(specification: str | None, variants: VariantTable) -> tuple[int, ...]:
    """Return where each LD block of ``--ld-blocks`` starts, then the number of variants.

    Without a specification there is one dense block, and ``window:N`` gives the fewest equal blocks
    of at most N variants that do not cross a chromosome. Any other specification is the path of a
    table of ``chrom start end`` (base pairs, header optional, the format of LDetect), in which a
    variant belongs to the last block of its chromosome that starts at or before the variant. Blocks
    may touch, but not overlap.
    """
    if specification is None:
        return (0, len(variants))
    is_window, text = specification.startswith("window:"), specification.removeprefix("window:")
    is_number = _WHOLE_NUMBER.fullmatch(text) is not None
    if not is_window and (not is_number or Path(specification).exists()):
        return _file_boundaries(Path(specification), variants)
    if not is_window or not is_number or int(text) < 1:
        raise UsageError(
            "is neither a table of LD blocks nor a window of a positive number of variants",
            where="--ld-blocks",
            value=specification[:60],
            remedy="Write for example --ld-blocks window:500",
        )
    boundaries = [0]
    for start, stop in runs_of(variants.chromosome):
        n_blocks = -(-(stop - start) // int(text))
        edges = np.linspace(start, stop, n_blocks + 1).round().astype(int)
        boundaries.extend(int(edge) for edge in edges[1:])
    return tuple(boundaries)


def _file_boundaries(path: Path, variants: VariantTable) -> tuple[int, ...]:
    blocks = _read_blocks(path)
    labels = np.empty(len(variants), dtype=object)
    inside = 0
    for chromosome in dict.fromkeys(variants.chromosome):
        name = canonical_chromosome(str(chromosome))
        if name not in blocks:
            raise InputError(
                "lists no LD block for a chromosome of the genotypes",
                where=path,
                value=chromosome,
                remedy="Add its blocks, or select other chromosomes with --chr",
            )
        here = variants.chromosome == chromosome
        starts, ends, _ = np.array(blocks[name]).T
        index = np.searchsorted(starts, variants.position[here], side="right") - 1
        inside += int(np.sum((index >= 0) & (variants.position[here] <= ends[index])))
        labels[here] = [f"{name}:{max(i, 0)}" for i in index]
    if inside < LEAST_INSIDE * len(variants):
        raise InputError(
            f"{inside} of {len(variants)} variants lie inside its LD blocks",
            where=path,
            limit=f"at least {LEAST_INSIDE:.0%} of the variants",
            remedy="Check that the blocks and the .bim file are of one genome build",
        )
    runs = runs_of(labels)
    if len(runs) != len(set(labels)):
        raise InputError(
            "its LD blocks are not runs of neighbouring variants",
            where=path,
            remedy="Sort the variants by position first (plink2 --make-pgen --sort-vars)",
        )
    return (0, *(stop for _, stop in runs))


def _read_blocks(path: Path) -> dict[str, list[_Row]]:
    """Return the blocks by canonical chromosome, in the order of their starts."""
    blocks: dict[str, list[_Row]] = {}
    for number, fields in _rows(path):
        whole = len(fields) >= 3 and all(map(_WHOLE_NUMBER.fullmatch, fields[1:3]))
        if not whole or int(fields[2]) < int(fields[1]):
            raise InputError(
                "an LD block is not `chrom start end`",
                where=f"{path}:{number}",
                value=" ".join(fields)[:60],
                remedy="Give start and end, in this order, as whole numbers of base pairs",
            )
        row = int(fields[1]), int(fields[2]), number
        blocks.setdefault(canonical_chromosome(fields[0]), []).append(row)
    for rows in blocks.values():
        rows.sort()
        for (start, end, line), (next_start, next_end, next_line) in itertools.pairwise(rows):
            if next_start < end:
                raise InputError(
                    f"the LD blocks of lines {line} and {next_line} overlap",
                    where=path,
                    value=f"{start} to {end} and {next_start} to {next_end}",
                    remedy="End each block at or before the start of the next one",
                )
    return blocks


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row after the header, if there is one."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        raise InputError(
            "cannot be read as a table of LD blocks",
            where=path,
            remedy="Give --ld-blocks a table of chrom start end, or window:N such as window:500",
        ) from error
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        is_header = number == 1 and len(fields) > 1 and not _NUMBER.fullmatch(fields[1])
        if fields and not is_header:
            yield number, fields
