"""Exact int8 products on processors with AMX, compiled by Numba.

A *tile* is one of eight registers of 16 rows of 64 bytes. Four tiles hold the sums of a 32 x 32
block, and the others hold the operands: each loaded operand is multiplied twice. Numba does not
offer the instructions, so functions here emit them (`emitting`).
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np
from llvmlite import ir

from primo_scale.kernels.compiling import compiled, host_features, inlined
from primo_scale.kernels.emitting import (
    I8,
    V16,
    VECTOR_BYTES,
    Builder,
    Value,
    emitted,
    function,
    interleaved,
    load,
    loop,
    pointer,
    word,
)
from primo_scale.kernels.products import (
    Int8,
    Int32,
    copied_bytes,
    row_stride,
    spread_rows,
    whole_vectors,
)

FEATURES = frozenset({"amx-tile", "amx-int8", "avx512f"})
"""Processor features of these instructions, by LLVM's names."""

# Linux on x86-64, Documentation/arch/x86/xstate.rst: the system call, the requested operation, and
# the component of the processor's state.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18
# One right block of a run stays in the first-level cache (16 KiB of 48) during the loop over left
# blocks; left blocks, sums and the other right blocks stay in the second-level cache (0.9 of
# 2 MiB). Longer runs load and store sums less often, but then both operands come from the
# second-level cache, which is 1.3 times slower.
_RUN_STEPS = 8
_LEFT_BLOCKS, _RIGHT_BLOCKS = 16, 8
_TILE_ROWS = 16
_TILE_BYTES = _TILE_ROWS * VECTOR_BYTES
_BLOCK_ROWS = 2 * _TILE_ROWS
_STEP_BYTES = 2 * _TILE_BYTES  # 32 right rows of 64 people
_TILES = 8
_SUMS, _LEFT, _RIGHT = (0, 1, 2, 3), (4, 5), (6, 7)


def _whole_tiles() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the input of `_configure_tiles`: palette 1, bytes per row and rows of every tile."""
    configuration = np.zeros(64, dtype=np.uint8)
    configuration[0] = 1
    configuration[16 : 16 + 2 * _TILES].view(np.uint16)[:] = VECTOR_BYTES
    configuration[48 : 48 + _TILES] = _TILE_ROWS
    return configuration


_WHOLE_TILES = _whole_tiles()


class Amx:
    """Kernel for any int8 codes, with 16,384 products per instruction."""

    name = "amx"
    needs = "a processor with AMX, and an operating system that permits it"
    library_bytes = 0

    def __init__(self, largest_code: int) -> None:
        pass  # any int8 code will do

    def is_available(self) -> bool:
        """Return whether this process may use the instructions."""
        return _request_tiles()

    def zeros(self, rows: int, columns: int) -> tuple[Int32, tuple[int, int]]:
        """Return a zero sum of whole blocks, of four tiles each, and the shape of the result."""
        shape = _n_blocks(rows), _n_blocks(columns), 2, 2, _TILE_ROWS, _TILE_ROWS
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
        tiles = (_n_blocks(left) + _n_blocks(right)) * _BLOCK_ROWS * row_stride(people)
        copies = copied_bytes(left, right, people, same=same)
        return max(tiles + copies, left * right * np.dtype(np.int32).itemsize)


def _n_blocks(rows: int) -> int:
    return -(-rows // _BLOCK_ROWS)


def _tiles(codes: Int8, *, on_the_right: bool) -> Int8:
    """Return the tiles, shape (blocks of 32 rows, steps of 64 people, bytes of two tiles)."""
    shape = _n_blocks(len(codes)), codes.shape[1] // VECTOR_BYTES, _STEP_BYTES
    tiles = spread_rows(1, math.prod(shape)).reshape(shape)
    _write_tiles(codes, _last_block(codes), tiles, on_the_right)
    return tiles


def _last_block(codes: Int8) -> Int8:
    """Return the last rows, zero-padded to a whole block, in the layout of `whole_vectors`."""
    whole = len(codes) // _BLOCK_ROWS * _BLOCK_ROWS
    block = spread_rows(_BLOCK_ROWS, codes.shape[1])
    block[: len(codes) - whole] = codes[whole:]
    block[len(codes) - whole :] = 0
    return block


@inlined
def _address(codes: Any, last: Any, block: Any) -> Any:
    """Return the address of a block of 32 rows."""
    if (block + 1) * _BLOCK_ROWS > codes.shape[0]:
        return last.ctypes.data
    return codes.ctypes.data + block * _BLOCK_ROWS * codes.strides[0]


@compiled
def _write_tiles(codes: Any, last: Any, tiles: Any, on_the_right: Any) -> None:
    """Write two tiles for every 32 rows and 64 people, in the layout of a left or right operand."""
    stride = codes.strides[0]
    for block in range(tiles.shape[0]):
        rows = _address(codes, last, block)
        tile = tiles.ctypes.data + block * tiles.strides[0]
        for step in range(tiles.shape[1]):
            for start in range(0, _BLOCK_ROWS, _TILE_ROWS):
                source = rows + start * stride + step * VECTOR_BYTES
                if on_the_right:
                    _interleave(source, stride, tile)
                else:
                    _stack(source, stride, tile)
                tile += _TILE_BYTES


@compiled
def _add_blocks(total: Any, left: Any, right: Any, same: Any) -> None:
    _configure_tiles(_WHOLE_TILES.ctypes.data)
    for first_column in range(0, right.shape[0], _RIGHT_BLOCKS):
        columns = range(first_column, min(first_column + _RIGHT_BLOCKS, right.shape[0]))
        for first_row in range(0, left.shape[0], _LEFT_BLOCKS):
            last_row = min(first_row + _LEFT_BLOCKS, left.shape[0])
            for first in range(0, right.shape[1], _RUN_STEPS):
                steps = min(_RUN_STEPS, right.shape[1] - first)
                for j in columns:
                    # For a product of an array with itself, only blocks on or above the diagonal.
                    for i in range(first_row, min(last_row, j + 1) if same else last_row):
                        _add_block(
                            left.ctypes.data + i * left.strides[0] + first * _STEP_BYTES,
                            right.ctypes.data + j * right.strides[0] + first * _STEP_BYTES,
                            steps,
                            total.ctypes.data + i * total.strides[0] + j * total.strides[1],
                        )
    _release_tiles()


@compiled
def _write_rows(sums: Any, matrix: Any) -> None:
    """Write the sums, ordered by block, half and row, as rows of a matrix."""
    for row in range(matrix.shape[0]):
        block, half, inside = row // _BLOCK_ROWS, row // _TILE_ROWS % 2, row % _TILE_ROWS
        for start in range(0, matrix.shape[1], _TILE_ROWS):
            found = sums[block, start // _BLOCK_ROWS, half, start // _TILE_ROWS % 2, inside]
            target = matrix[row, start : start + _TILE_ROWS]
            for column in range(target.shape[0]):
                target[column] = found[column]


def _request_tiles() -> bool:
    """Request AMX for bytes from the system, and return whether this process may use it.

    The request is needed because the system reserves 8 KiB more for each thread that uses tiles,
    and stops a process that uses them without permission. The permission is permanent, and forked
    processes inherit it.
    """
    if sys.platform != "linux" or not host_features() >= FEATURES:
        return False
    status = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return int(status) == 0


@emitted()
def _configure_tiles(builder: Builder, configuration: Value) -> None:
    """Configure eight tiles for this thread, with the sizes stored at an address."""
    _emit(builder, "ldtilecfg", pointer(builder, configuration, I8))


@emitted()
def _release_tiles(builder: Builder) -> None:
    """Release this thread's tiles, so that the system does not need to save them."""
    _emit(builder, "tilerelease")


@emitted()
def _add_block(builder: Builder, left: Value, right: Value, steps: Value, sums: Value) -> None:
    """Add the product of 32 left rows with 32 right rows of int8: ``sums += left @ right.T``.

    ``tdpbssd`` multiplies 16 x 16 x 64 pairs and adds each sixty-four to an int32, modulo 2^32. The
    operands are addresses of two tiles for each of at least one step of 64 people, in the layouts
    of `_stack` and `_interleave`. `sums` is the address of four tiles: the upper left rows with
    both halves of the right rows, then the lower left rows with both halves.
    """

    def step(offset: Value, _totals: list[Value]) -> list[Value]:
        """Emit one iteration of the loop, with each load just before its first use."""
        rows, columns = builder.add(left, offset), builder.add(right, offset)
        _move(builder, "tileloadd64", _LEFT[0], rows, 0)
        _move(builder, "tileloadd64", _RIGHT[0], columns, 0)
        _multiply(builder, _SUMS[0], _LEFT[0], _RIGHT[0])
        _move(builder, "tileloadd64", _RIGHT[1], columns, 1)
        _multiply(builder, _SUMS[1], _LEFT[0], _RIGHT[1])
        _move(builder, "tileloadd64", _LEFT[1], rows, 1)
        _multiply(builder, _SUMS[2], _LEFT[1], _RIGHT[0])
        _multiply(builder, _SUMS[3], _LEFT[1], _RIGHT[1])
        return []

    for number, tile in enumerate(_SUMS):
        _move(builder, "tileloadd64", tile, sums, number)
    loop(builder, steps, _STEP_BYTES, [], step)
    for number, tile in enumerate(_SUMS):
        _move(builder, "tilestored64", tile, sums, number)


@emitted()
def _stack(builder: Builder, rows: Value, stride: Value, tile: Value) -> None:
    """Store 64 bytes of 16 rows as a left operand, one row after another.

    `stride` is the number of bytes from one row to the next.
    """
    _store(builder, _rows(builder, rows, stride), tile)


@emitted()
def _interleave(builder: Builder, rows: Value, stride: Value, tile: Value) -> None:
    """Store 64 bytes of 16 rows as a right operand: four bytes of each row, then the next four.

    `stride` is the number of bytes from one row to the next.
    """
    _store(builder, interleaved(builder, _rows(builder, rows, stride)), tile)


def _rows(builder: Builder, rows: Value, stride: Value) -> list[Value]:
    return [load(builder, rows, stride, row, word(0)) for row in range(_TILE_ROWS)]


def _store(builder: Builder, vectors: list[Value], tile: Value) -> None:
    for number, vector in enumerate(vectors):
        target = builder.add(tile, word(number * VECTOR_BYTES))
        builder.store(vector, pointer(builder, target, V16), align=1)


def _move(builder: Builder, direction: str, tile: int, address: Value, number: int) -> None:
    """Emit a load or a store between a register and the tile of this number at an address."""
    memory = pointer(builder, builder.add(address, word(number * _TILE_BYTES)), I8)
    _emit(builder, direction, ir.Constant(I8, tile), memory, word(VECTOR_BYTES))


def _multiply(builder: Builder, sums: int, left: int, right: int) -> None:
    _emit(builder, "tdpbssd", *(ir.Constant(I8, tile) for tile in (sums, left, right)))


def _emit(builder: Builder, name: str, *operands: Value) -> None:
    """Emit one instruction without a result."""
    kinds = [operand.type for operand in operands]
    builder.call(function(builder, f"llvm.x86.{name}", kinds, ir.VoidType()), operands)
