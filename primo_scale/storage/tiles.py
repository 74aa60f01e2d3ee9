"""Tiles and panels, the pieces of large matrices, and the threads that read and handle pieces.

Matrices are stored, summed and given noise in pieces. A process holds only a few of them in memory,
one for each thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from primo_scale.ranges import whole_multiple

# Both are part of the store format, of its digest and of the labels of noise, and do not depend on
# the plan of an accumulation. A piece of int64 has 8 MiB: large enough for sequential disk access,
# small beside everything else in memory, and 210 files for a matrix of 20,000 rows.
TILE = 1024
PANEL_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Tile:
    """Rectangle in the upper triangle of a symmetric matrix, cut by a square grid."""

    row: int  # position of its square in the grid
    column: int  # at least `row`
    rows: slice  # rows of the matrix that it covers
    columns: slice

    @property
    def on_diagonal(self) -> bool:
        """Whether the tile lies on the diagonal of the matrix."""
        return self.row == self.column

    @property
    def selection(self) -> tuple[slice, slice]:
        """Index of the tile in the matrix."""
        return self.rows, self.columns

    @property
    def mirrored(self) -> tuple[slice, slice]:
        """Index of the tile's transpose in the matrix."""
        return self.columns, self.rows

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def inside(self, other: Tile) -> tuple[slice, slice]:
        """Return the index of the tile in the values of `other`, which contains it."""
        row, column = other.rows.start, other.columns.start
        return (
            slice(self.rows.start - row, self.rows.stop - row),
            slice(self.columns.start - column, self.columns.stop - column),
        )

    def cut(self, side: int | None = None) -> Iterator[Tile]:
        """Cut the tile by another grid, and yield the parts in its upper triangle row by row.

        The squares of the grid have the given side, by default that of stored tiles.
        """
        side = TILE if side is None else side
        last_column = (self.columns.stop - 1) // side
        for row in range(self.rows.start // side, (self.rows.stop - 1) // side + 1):
            rows = _common(row * side, side, self.rows)
            for column in range(max(row, self.columns.start // side), last_column + 1):
                yield Tile(row, column, rows, _common(column * side, side, self.columns))


def upper_tiles(size: int, side: int | None = None) -> Iterator[Tile]:
    """Return the tiles of a symmetric matrix with `size` rows, cut as by `Tile.cut`."""
    whole = slice(0, size)
    return Tile(0, 0, whole, whole).cut(side)


def tile_side(size: int) -> int:
    """Return the side of the stored tiles of a matrix with `size` rows that are not at its edge."""
    return min(TILE, size)


def whole_tiles(side: int) -> int:
    """Return the smallest multiple of the tile side that is at least `side`."""
    return whole_multiple(side, TILE)


def panel_height(width: int) -> int:
    """Return the number of rows of a full panel of a matrix with `width` columns."""
    return max(1, PANEL_ENTRIES // max(1, width))


def panels(height: int, width: int) -> Iterator[slice]:
    """Yield the panels, consecutive rows, of a matrix of shape (height, width)."""
    step = panel_height(width)
    for start in range(0, height, step):
        yield slice(start, min(start + step, height))


def _common(start: int, length: int, part: slice) -> slice:
    return slice(max(start, part.start), min(start + length, part.stop))
