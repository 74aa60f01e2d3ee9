"""Exact int8 products on processors with AMX, compiled by Numba."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from primo_scale.kernels.amx import (
    BLOCK_ROWS,
    STEP_BYTES,
    TILE_BYTES,
    TILE_ROWS,
    WHOLE_TILES,
    add_block,
    configure_tiles,
    interleave,
    release_tiles,
    stack,
)
from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.emitting import VECTOR_BYTES
from primo_scale.kernels.processor import request_tiles
from primo_scale.kernels.products import (
    Int8,
    Int32,
    copied_bytes,
    row_stride,
    spread_rows,
    whole_vectors,
)

# One right block of a run stays in the first-level cache (16 KiB of 48) during the loop over left
# blocks; left blocks, sums and the other right blocks stay in the second-level cache (0.9 of
# 2 MiB). Longer runs load and store sums less often, but then both operands come from the
# second-level cache, which is 1.3 times slower.
_RUN_STEPS = 8
_LEFT_BLOCKS, _RIGHT_BLOCKS = 16, 8


class Amx:
    """Kernel for any int8 codes, with 16,384 products per instruction."""

    name = "amx"
    needs = "a processor with AMX, and an operating system that permits it"
    library_bytes = 0

    def __init__(self, largest_code: int) -> None:
        pass  # any int8 code will do

    def is_available(self) -> bool:
        """Return whether this process may use the instructions."""
        return request_tiles()

    def zeros(self, rows: int, columns: int) -> tuple[Int32, tuple[int, int]]:
        """Return a zero sum of whole blocks, of four tiles each, and the shape of the result."""
        shape = _n_blocks(rows), _n_blocks(columns), 2, 2, TILE_ROWS, TILE_ROWS
        return np.zeros(shape, dtype=np.int32), (rows, columns)

    def add(self, total: tuple[Int32, tuple[int, int]], left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        same = left is right
        right = whole_vectors(right)
        left = right if same else whole_vectors(left)
        rows, columns = _tiles(left, on_the_right=False), _tiles(right, on_the_right=True)
        _add_blocks(total[0], rows, columns, same)

    def read(self, total: tuple[Int32, tuple[int, int]]) -> Int32:
        """Return the sum as an array."""
        sums, shape = total
        matrix = np.empty(shape, dtype=np.int32)
        _write_rows(sums, matrix)
        return matrix

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of tiles and copies of both operands, or of a copy of the sums."""
        tiles = (whole_blocks(left) + whole_blocks(right)) * row_stride(people)
        copies = copied_bytes(left, right, people, same=same)
        return max(tiles + copies, left * right * np.dtype(np.int32).itemsize)


def whole_blocks(rows: int) -> int:
    """Return the number of rows after padding to whole blocks."""
    return _n_blocks(rows) * BLOCK_ROWS


def _n_blocks(rows: int) -> int:
    return -(-rows // BLOCK_ROWS)


def _tiles(codes: Int8, *, on_the_right: bool) -> Int8:
    """Return the tiles, shape (blocks of 32 rows, steps of 64 people, bytes of two tiles)."""
    shape = _n_blocks(len(codes)), codes.shape[1] // VECTOR_BYTES, STEP_BYTES
    tiles = spread_rows(1, math.prod(shape)).reshape(shape)
    _write_tiles(codes, _last_block(codes), tiles, on_the_right)
    return tiles


def _last_block(codes: Int8) -> Int8:
    """Return the last rows, zero-padded to a whole block, in the layout of `whole_vectors`."""
    whole = len(codes) // BLOCK_ROWS * BLOCK_ROWS
    block = spread_rows(BLOCK_ROWS, codes.shape[1])
    block[: len(codes) - whole] = codes[whole:]
    block[len(codes) - whole :] = 0
    return block


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _address(codes: Any, last: Any, block: Any) -> Any:
    """Return the address of a block of 32 rows."""
    if (block + 1) * BLOCK_ROWS > codes.shape[0]:
        return last.ctypes.data
    return codes.ctypes.data + block * BLOCK_ROWS * codes.strides[0]


@compiled
def _write_tiles(codes: Any, last: Any, tiles: Any, on_the_right: Any) -> None:
    """Write two tiles for every 32 rows and 64 people, in the layout of a left or right operand."""
    stride = codes.strides[0]
    for block in range(tiles.shape[0]):
        rows = _address(codes, last, block)
        tile = tiles.ctypes.data + block * tiles.strides[0]
        for step in range(tiles.shape[1]):
            for start in range(0, BLOCK_ROWS, TILE_ROWS):
                source = rows + start * stride + step * VECTOR_BYTES
                if on_the_right:
                    interleave(source, stride, tile)
                else:
                    stack(source, stride, tile)
                tile += TILE_BYTES


@compiled
def _add_blocks(total: Any, left: Any, right: Any, same: Any) -> None:
    configure_tiles(WHOLE_TILES.ctypes.data)
    for first_column in range(0, right.shape[0], _RIGHT_BLOCKS):
        columns = range(first_column, min(first_column + _RIGHT_BLOCKS, right.shape[0]))
        for first_row in range(0, left.shape[0], _LEFT_BLOCKS):
            last_row = min(first_row + _LEFT_BLOCKS, left.shape[0])
            for first in range(0, right.shape[1], _RUN_STEPS):
                steps = min(_RUN_STEPS, right.shape[1] - first)
                for j in columns:
                    # For a product of an array with itself, only blocks on or above the diagonal.
                    for i in range(first_row, min(last_row, j + 1) if same else last_row):
                        add_block(
                            left.ctypes.data + i * left.strides[0] + first * STEP_BYTES,
                            right.ctypes.data + j * right.strides[0] + first * STEP_BYTES,
                            steps,
                            total.ctypes.data + i * total.strides[0] + j * total.strides[1],
                        )
    release_tiles()


@compiled
def _write_rows(sums: Any, matrix: Any) -> None:
    """Write the sums, ordered by block, half and row, as rows of a matrix."""
    for row in range(matrix.shape[0]):
        block, half, inside = row // BLOCK_ROWS, row // TILE_ROWS % 2, row % TILE_ROWS
        for start in range(0, matrix.shape[1], TILE_ROWS):
            found = sums[block, start // BLOCK_ROWS, half, start // TILE_ROWS % 2, inside]
            target = matrix[row, start : start + TILE_ROWS]
            for column in range(target.shape[0]):
                target[column] = found[column]
