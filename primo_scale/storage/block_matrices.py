"""Storage of raw and private statistics, by LD blocks.

For genotypes X (n x d) whose columns are cut into LD blocks b, and outcome-side columns Z (n x q:
the constant, the covariates, the phenotypes)::

    gram/b         (d_b, d_b)   X_b' X_b; noisy copies beyond the first are gram/b-1, ...
    cross/b        (d_b, q)     X_b' Z
    outcome_gram   (q, q)       Z' Z
    observed       (1 + l,)     people in the sums, and those with each phenotype
    eigenvalue     (1,)         noisy smallest eigenvalue of X'X, where it was measured

All arrays are int64, except that X'X is int32 where that holds the largest possible entry. X'X is
stored as the tiles of its upper triangle, one tile per chunk and tiles on the diagonal complete.
**Nothing is stored below the diagonal tiles**: Zarr alone would read zeros there. X_b'Z is stored
in panels. Reading and writing need the memory of a few pieces, tiles and panels, for any d.

The digest of a store is the SHA-256 of its shape (int64: number of constant and covariates, of
phenotypes, of copies, then the boundaries) and of the SHA-256 of every piece in the order above,
block by block. A piece enters as little-endian int32 if all its integers fit, else as int64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.machine import in_threads
from primo_scale.ranges import pieces, whole_multiple
from primo_scale.storage import groups, locations
from primo_scale.storage.groups import array_bytes, read_block, write_block

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
    return pieces(height, panel_height(width))


def _common(start: int, length: int, part: slice) -> slice:
    return slice(max(start, part.start), min(start + length, part.stop))


Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Integers = Int32 | Int64
_Piece = tuple[str, tuple[int, ...]]  # name of an array and grid position of a chunk in it
_INT32_END, _INT64_END = 1 << 31, 1 << 63
_OPEN_ARRAYS = 64


@dataclass(frozen=True)
class BlockLayout:
    """Public shapes of a set of block statistics."""

    # Variant index at which each block starts, then the number of variants d.
    boundaries: tuple[int, ...]
    n_fixed: int  # outcome-side columns that are not phenotypes: the constant and the covariates
    n_phenotypes: int  # l

    @property
    def n_blocks(self) -> int:
        """Number of diagonal blocks."""
        return len(self.boundaries) - 1

    @property
    def n_variants(self) -> int:
        """Number of variants d."""
        return self.boundaries[-1]

    @property
    def n_outcomes(self) -> int:
        """Number of outcome-side columns q."""
        return self.n_fixed + self.n_phenotypes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of variants in each block."""
        return tuple(self.size(block) for block in range(self.n_blocks))

    def size(self, block: int) -> int:
        """Return the number of variants in one block."""
        return self.boundaries[block + 1] - self.boundaries[block]

    def variants(self, block: int) -> slice:
        """Return the indices of the variants in one block."""
        return slice(self.boundaries[block], self.boundaries[block + 1])

    def tiles(self, block: int) -> Iterator[Tile]:
        """Yield the stored tiles of X_b'X_b."""
        return upper_tiles(self.size(block))

    def panels(self, block: int) -> Iterator[slice]:
        """Yield the stored panels of X_b'Z."""
        return panels(self.size(block), self.n_outcomes)


def stored_bytes(layout: BlockLayout, *, gram_copies: int = 1) -> int:
    """Return the largest size of a store in bytes, with `gram_copies` copies of X'X."""
    arrays, total = _array_layouts(layout, gram_copies, np.dtype(np.int64)), 0
    for block, size in enumerate(layout.sizes):
        across = -(-size // tile_side(size))
        tiles = across * (across + 1) // 2
        for copy in range(gram_copies):
            total += array_bytes(arrays.pop(_gram_name(block, copy)), chunks=tiles)
    return total + sum(map(array_bytes, arrays.values()))


@dataclass(frozen=True)
class BlockMatrices:
    """Reader of a store of block statistics, which loads each matrix or piece on request.

    The caller checks first that the store is complete (`primo_scale.storage.groups`).
    """

    path: locations.Location
    kind: str
    layout: BlockLayout

    @property
    def gram_copies(self) -> int:
        """Number of copies of X'X, each with its own noise."""
        return int(str(groups.attributes_of(self._group)["gram_copies"]))

    def gram(self, block: int, copy: int = 0) -> Int64:
        """Return X_b' X_b, shape (d_b, d_b): 8 d_b^2 bytes, or 3.2 GB for 20,000 variants."""
        array, size = self._array(_gram_name(block, copy)), self.layout.size(block)
        whole = np.empty((size, size), dtype=np.int64)

        def fill(tile: Tile) -> None:
            values = read_block(array, tile.selection)
            whole[tile.selection] = values
            if not tile.on_diagonal:
                whole[tile.mirrored] = values.T

        in_threads(fill, self.layout.tiles(block))
        return whole

    def gram_tiles(self, block: int) -> Iterator[tuple[Tile, Int64]]:
        """Yield the tiles of the upper triangle of X_b' X_b, one in memory at a time."""
        array = self._array(_gram_name(block, 0))
        for tile in self.layout.tiles(block):
            yield tile, read_block(array, tile.selection).astype(np.int64, copy=False)

    def cross(self, block: int) -> Int64:
        """Return X_b' Z, shape (d_b, q)."""
        return read_block(self._array(f"cross/{block}"))

    def cross_panels(self, block: int) -> Iterator[tuple[slice, Int64]]:
        """Yield the panels of X_b' Z, one in memory at a time."""
        array = self._array(f"cross/{block}")
        for panel in self.layout.panels(block):
            yield panel, read_block(array, (panel, slice(None)))

    def outcome_gram(self) -> Int64:
        """Return Z' Z, shape (q, q)."""
        return read_block(self._array("outcome_gram"))

    def observed(self) -> Int64:
        """Return the number of people, and of those with each phenotype, shape (1 + l,)."""
        return read_block(self._array("observed"))

    def smallest_eigenvalue(self) -> int | None:
        """Return the noisy, rounded smallest eigenvalue of X'X, or None if it was not measured."""
        if not groups.has_array(self._group, "eigenvalue"):
            return None
        return int(read_block(self._array("eigenvalue"))[0])

    def sha256(self) -> str:
        """Return the digest of all integers and shapes, which reads the whole store."""
        copies, measured = self.gram_copies, groups.has_array(self._group, "eigenvalue")
        opened = lru_cache(maxsize=_OPEN_ARRAYS)(self._array)

        def digest(piece: _Piece) -> bytes:
            name, index = piece
            array = opened(name)
            return _digest(_narrowed(read_block(array, _selection(array, index))))

        pieces = _pieces(self.layout, copies, measured=measured)
        return _digest_of_all(self.layout, copies, in_threads(digest, pieces))

    def _array(self, name: str) -> groups.Array:
        return groups.array_of(self._group, name)

    @cached_property
    def _group(self) -> groups.Group:
        """Group of the store, opened once: opening one in a bucket takes several requests."""
        return groups.open_group(self.path, self.kind, complete=False)


class BlockMatricesWriter:
    """Writer of a store of block statistics, piece by piece; `finish` makes the store complete.

    Several threads may write pieces. Each digest is computed from memory, so that `sha256` does
    not read the store. X'X has `gram_copies` copies, and `largest_gram`, a bound on the magnitude
    of its entries, determines their data type.
    """

    def __init__(
        self,
        path: locations.Location,
        kind: str,
        layout: BlockLayout,
        *,
        gram_copies: int = 1,
        largest_gram: int = _INT64_END - 1,
    ) -> None:
        self._path, self._kind, self._layout, self._copies = path, kind, layout, gram_copies
        self.gram_type: np.dtype[np.signedinteger[Any]] = np.dtype(
            np.int32 if largest_gram < _INT32_END else np.int64
        )
        attributes = {"boundaries": list(layout.boundaries), "gram_copies": gram_copies}
        self._group = groups.create_group(path, kind, attributes)
        self._arrays = groups.create_arrays(
            self._group, _array_layouts(layout, gram_copies, self.gram_type)
        )
        self._digests: dict[_Piece, bytes] = {}

    def write_gram_tile(self, block: int, tile: Tile, values: Integers, copy: int = 0) -> None:
        """Write one of the layout's tiles of X_b' X_b."""
        self._write(_gram_name(block, copy), (tile.row, tile.column), values)

    def write_cross_panel(self, block: int, panel: slice, values: Int64) -> None:
        """Write one of the layout's panels of X_b' Z."""
        number = panel.start // panel_height(self._layout.n_outcomes)
        self._write(f"cross/{block}", (number, 0), values)

    def write_outcome_gram(self, values: Int64) -> None:
        """Write Z' Z."""
        self._write("outcome_gram", (0, 0), values)

    def write_observed(self, values: Int64) -> None:
        """Write the number of people, and of those with each phenotype."""
        self._write("observed", (0,), values)

    def write_smallest_eigenvalue(self, value: int) -> None:
        """Write the noisy smallest eigenvalue of X'X."""
        layout = groups.ArrayLayout((1,), (1,), np.int64)
        self._arrays["eigenvalue"] = groups.create_array(self._group, "eigenvalue", layout)
        self._write("eigenvalue", (0,), np.array([value], dtype=np.int64))

    def sha256(self) -> str:
        """Return the digest of the store, as `BlockMatrices.sha256`, when every piece is written.

        Raises a KeyError if a piece is not written yet.
        """
        pieces = _pieces(self._layout, self._copies, measured="eigenvalue" in self._arrays)
        digests = [self._digests[piece] for piece in pieces]
        return _digest_of_all(self._layout, self._copies, digests)

    def finish(self, attributes: Mapping[str, Any]) -> BlockMatrices:
        """Flush the store, mark it as complete and return a reader of it."""
        groups.flush(self._group)
        groups.mark_complete(self._group, attributes)
        return BlockMatrices(self._path, self._kind, self._layout)

    def _write(self, name: str, index: tuple[int, ...], values: Integers) -> None:
        array = self._arrays[name]
        narrowed = _narrowed(values)
        if narrowed.dtype.itemsize > array.dtype.itemsize:
            raise ValueError(f"an entry of {name} is larger than largest_gram")
        self._digests[name, index] = _digest(narrowed)
        write_block(array, _selection(array, index), values)


def _gram_name(block: int, copy: int) -> str:
    return f"gram/{block}" if copy == 0 else f"gram/{block}-{copy}"


def _array_layouts(
    layout: BlockLayout, gram_copies: int, gram_type: np.dtype[np.signedinteger[Any]]
) -> dict[str, groups.ArrayLayout]:
    """Return the layout of every array except for the eigenvalue, by name."""
    q, phenotypes = layout.n_outcomes, layout.n_phenotypes
    layouts = {
        "outcome_gram": groups.ArrayLayout((q, q), (q, q), np.int64),
        "observed": groups.ArrayLayout((1 + phenotypes,), (1 + phenotypes,), np.int64),
    }
    for block, size in enumerate(layout.sizes):
        side = tile_side(size)
        gram = groups.ArrayLayout((size, size), (side, side), gram_type)
        layouts |= {_gram_name(block, copy): gram for copy in range(gram_copies)}
        panel = (min(panel_height(q), size), q)
        layouts[f"cross/{block}"] = groups.ArrayLayout((size, q), panel, np.int64)
    return layouts


def _pieces(layout: BlockLayout, gram_copies: int, *, measured: bool) -> Iterator[_Piece]:
    """Yield every piece of a store, in the order of its digest."""
    for block in range(layout.n_blocks):
        for copy in range(gram_copies):
            name = _gram_name(block, copy)
            yield from ((name, (tile.row, tile.column)) for tile in layout.tiles(block))
        yield from ((f"cross/{block}", (row, 0)) for row, _ in enumerate(layout.panels(block)))
    yield "outcome_gram", (0, 0)
    yield "observed", (0,)
    if measured:
        yield "eigenvalue", (0,)


def _selection(array: groups.Array, index: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of an array that the chunk at a grid position covers."""
    return tuple(
        slice(i * size, min((i + 1) * size, extent))
        for i, size, extent in zip(index, array.chunks, array.shape, strict=True)
    )


def _narrowed(values: Integers) -> Integers:
    """Return the integers as int32 if all of them fit, else as int64."""
    if values.dtype == np.int32 or values.size == 0:
        return values
    fits = values.min() >= -_INT32_END and values.max() < _INT32_END
    return values.astype(np.int32) if fits else values


def _digest(values: Integers) -> bytes:
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return hashlib.sha256(little.reshape(-1).view(np.uint8).data).digest()


def _digest_of_all(layout: BlockLayout, gram_copies: int, digests: Iterable[bytes]) -> str:
    shape = [layout.n_fixed, layout.n_phenotypes, gram_copies, *layout.boundaries]
    digest = hashlib.sha256(np.array(shape, "<i8").tobytes())
    for part in digests:
        digest.update(part)
    return digest.hexdigest()
