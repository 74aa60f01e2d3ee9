"""Tiles and panels: the pieces that large matrices are stored, summed and made noisy in.

Whatever the size of a matrix, a process holds a piece of it for each of a few threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from primo_scale.interruption import check
from primo_scale.machine import usable_cpus

# Both are part of the format of a store, of its digest and of the labels of noise: the same for
# everyone, whatever the cutting of an accumulation. 8 MiB of int64 are sequential for a disk, small
# beside everything else in memory, and 210 files for a matrix of 20,000.
TILE = 1024
PANEL_ENTRIES = 1 << 20
# More would only cost memory: a disk or the memory itself is the limit by then.
_MOST_THREADS = 4

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Tile:
    """A rectangle in the upper triangle of a symmetric matrix, cut by a square grid.

    Attributes
    ----------
    row, column
        Which square of the grid it lies in; ``row <= column``.
    rows, columns
        What it covers of the matrix.
    """

    row: int
    column: int
    rows: slice
    columns: slice

    @property
    def on_diagonal(self) -> bool:
        """Whether the matrix's diagonal runs through it."""
        return self.row == self.column

    @property
    def selection(self) -> tuple[slice, slice]:
        """Index of the tile in the matrix."""
        return self.rows, self.columns

    @property
    def mirrored(self) -> tuple[slice, slice]:
        """Index of its transpose."""
        return self.columns, self.rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def inside(self, other: Tile) -> tuple[slice, slice]:
        """Index of the tile in an array of `other`, which contains it."""
        row, column = other.rows.start, other.columns.start
        return (
            slice(self.rows.start - row, self.rows.stop - row),
            slice(self.columns.start - column, self.columns.stop - column),
        )

    def cut(self, side: int | None = None) -> Iterator[Tile]:
        """Its parts in the upper squares of a grid of `side`, row by row; None: of stored tiles."""
        side = TILE if side is None else side
        last_column = (self.columns.stop - 1) // side
        for row in range(self.rows.start // side, (self.rows.stop - 1) // side + 1):
            rows = _common(row * side, side, self.rows)
            for column in range(max(row, self.columns.start // side), last_column + 1):
                yield Tile(row, column, rows, _common(column * side, side, self.columns))


def upper_tiles(size: int, side: int | None = None) -> Iterator[Tile]:
    """Tiles of a symmetric matrix of `size`, cut as by `Tile.cut`."""
    whole = slice(0, size)
    return Tile(0, 0, whole, whole).cut(side)


def tile_side(size: int) -> int:
    """Side of the first tile of a matrix of `size`."""
    return min(TILE, size)


def whole_tiles(side: int) -> int:
    """Least number of variants, `side` or more, that is cut into whole tiles."""
    return TILE * -(-side // TILE)


@dataclass(frozen=True)
class Panel:
    """Consecutive rows of a matrix: the panel of this `number`."""

    number: int
    rows: slice


def panel_height(width: int) -> int:
    """Rows of a full panel of a matrix with `width` columns."""
    return max(1, PANEL_ENTRIES // max(1, width))


def panels(height: int, width: int) -> Iterator[Panel]:
    """Panels of a matrix of shape (height, width)."""
    step = panel_height(width)
    for number, start in enumerate(range(0, height, step)):
        yield Panel(number, slice(start, min(start + step, height)))


def n_threads() -> int:
    """Threads that handle pieces, and so the pieces in memory at once."""
    return min(_MOST_THREADS, usable_cpus())


def in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """What `function` gives for each item, in order; after an error no further item is begun.

    Files, checksums, digests and sums of large pieces let go of the interpreter's lock.
    """
    with ThreadPoolExecutor(n_threads()) as threads:
        results = []
        for result in threads.map(function, items):
            check()
            results.append(result)
        return results


def _common(start: int, length: int, part: slice) -> slice:
    return slice(max(start, part.start), min(start + length, part.stop))
