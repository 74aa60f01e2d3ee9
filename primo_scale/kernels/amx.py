"""AMX instructions that Numba does not offer: products of 16 x 64 bytes with 64 x 16 bytes.

A *tile* is one of eight registers of 16 rows of 64 bytes. Four tiles hold the sums of a 32 x 32
block, and the others hold the operands: each loaded operand is multiplied twice. The functions here
emit LLVM instructions and take addresses; `primo_scale.kernels.product_amx` passes the addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from primo_scale.kernels.emitting import (
    I8,
    LANES,
    V16,
    VECTOR_BYTES,
    Builder,
    Value,
    function,
    intrinsic,
    load,
    loop,
    pointer,
    word,
)

TILE_ROWS = 16
TILE_BYTES = TILE_ROWS * VECTOR_BYTES
BLOCK_ROWS = 2 * TILE_ROWS
STEP_BYTES = 2 * TILE_BYTES
"""Bytes of 32 right rows of 64 people."""

_TILES = 8
_SUMS, _LEFT, _RIGHT = (0, 1, 2, 3), (4, 5), (6, 7)
# Shuffle masks of two vectors with lanes 0-15 and 16-31: their first halves interleaved, and their
# second halves interleaved.
_HALVES = [
    ir.Constant(V16, [start + lane // 2 + lane % 2 * LANES for lane in range(LANES)])
    for start in (0, LANES // 2)
]


def _whole_tiles() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the input of `configure_tiles`: palette 1, bytes per row and rows of every tile."""
    configuration = np.zeros(64, dtype=np.uint8)
    configuration[0] = 1
    configuration[16 : 16 + 2 * _TILES].view(np.uint16)[:] = VECTOR_BYTES
    configuration[48 : 48 + _TILES] = TILE_ROWS
    return configuration


WHOLE_TILES = _whole_tiles()


@intrinsic
def configure_tiles(_context: Any, configuration: Any) -> Any:
    """Configure eight tiles for this thread, with the sizes stored at an address."""

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instruction."""
        _emit(builder, "ldtilecfg", pointer(builder, arguments[0], I8))
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def release_tiles(_context: Any) -> Any:
    """Release this thread's tiles, so that the system does not need to save them."""

    def generate(context: Any, builder: Builder, _signature: Any, _arguments: list[Value]) -> Value:
        """Emit the instruction."""
        _emit(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def add_block(_context: Any, left: Any, right: Any, steps: Any, sums: Any) -> Any:
    """Add the product of 32 left rows with 32 right rows of int8: ``sums += left @ right.T``.

    ``tdpbssd`` multiplies 16 x 16 x 64 pairs and adds each sixty-four to an int32, modulo 2^32.

    Parameters
    ----------
    left, right : intp
        Addresses of two tiles per step, in the layouts of `stack` and `interleave`.
    steps : intp
        Number of steps of 64 people, at least one.
    sums : intp
        Address of four tiles: the upper left rows with both halves of the right rows, then the
        lower left rows with both halves.
    """

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        left, right, steps, sums = arguments

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
        loop(builder, steps, STEP_BYTES, 0, step)
        for number, tile in enumerate(_SUMS):
            _move(builder, "tilestored64", tile, sums, number)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@intrinsic
def stack(_context: Any, rows: Any, stride: Any, tile: Any) -> Any:
    """Store 64 bytes of 16 rows as a left operand, one row after another.

    Parameters
    ----------
    rows, tile : intp
        Addresses to read and to write.
    stride : intp
        Bytes from one row to the next.
    """

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        rows, stride, tile = arguments
        _store(builder, _rows(builder, rows, stride), tile)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@intrinsic
def interleave(_context: Any, rows: Any, stride: Any, tile: Any) -> Any:
    """Store 64 bytes of 16 rows as a right operand: four bytes of each row, then the next four.

    This transposes a square of 16 x 16 words of 32 bits. Interleaving the upper half of the rows
    with the lower half rotates the bits of each word's index by one; after four times, row and
    column numbers are exchanged.

    Parameters
    ----------
    rows, tile : intp
        Addresses to read and to write.
    stride : intp
        Bytes from one row to the next.
    """

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        rows, stride, tile = arguments
        vectors = _rows(builder, rows, stride)
        for _ in range(4):
            vectors = [
                builder.shuffle_vector(upper, lower, half)
                for upper, lower in zip(vectors[:8], vectors[8:], strict=True)
                for half in _HALVES
            ]
        _store(builder, vectors, tile)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _rows(builder: Builder, rows: Value, stride: Value) -> list[Value]:
    return [load(builder, rows, stride, row, word(0)) for row in range(TILE_ROWS)]


def _store(builder: Builder, vectors: list[Value], tile: Value) -> None:
    for number, vector in enumerate(vectors):
        target = builder.add(tile, word(number * VECTOR_BYTES))
        builder.store(vector, pointer(builder, target, V16), align=1)


def _move(builder: Builder, direction: str, tile: int, address: Value, number: int) -> None:
    """Emit a load or a store between a register and the tile of this number at an address."""
    memory = pointer(builder, builder.add(address, word(number * TILE_BYTES)), I8)
    _emit(builder, direction, ir.Constant(I8, tile), memory, word(VECTOR_BYTES))


def _multiply(builder: Builder, sums: int, left: int, right: int) -> None:
    _emit(builder, "tdpbssd", *(ir.Constant(I8, tile) for tile in (sums, left, right)))


def _emit(builder: Builder, name: str, *operands: Value) -> None:
    """Emit one instruction without a result."""
    kinds = [operand.type for operand in operands]
    builder.call(function(builder, f"llvm.x86.{name}", kinds, ir.VoidType()), operands)
