"""Exact int8 products on processors with AVX2, compiled by Numba.

The codes of a run of people are widened to int16. ``vpmaddwd`` then multiplies sixteen pairs and
adds each two products to an int32: twice as many as a float32 instruction multiplies and adds, and
no sum has to be split to stay exact. A *tile* is the product of a few left rows with a few right
rows along one run. All sums of a tile stay in registers for the whole run, and the lanes of each
sum are added at its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from primo_scale.kernels.compiling import compiled, host_features, inlined
from primo_scale.kernels.emitting import (
    I16,
    I32,
    Builder,
    Value,
    emitted,
    function,
    load,
    loop,
    pointer,
    word,
)
from primo_scale.kernels.products import ArraySums, Int8, Int16, Int32, row_stride, spread_rows

_WIDE_BYTES = np.dtype(np.int16).itemsize
_LANES, _VECTOR_BYTES = 16, 32
_CODES, _SUMS = ir.VectorType(I16, _LANES), ir.VectorType(I32, _LANES // 2)
_ZERO = ir.Constant(_SUMS, [0] * (_LANES // 2))
_MULTIPLY, _ADD_LANES = "llvm.x86.avx2.pmadd.wd", "llvm.vector.reduce.add.v8i32"
# Eight sums and the operands fit the sixteen registers. The left rows of a tile stay in the
# first-level cache for a run, 16 KiB, and a panel of right rows in the second-level cache.
_LEFT_ROWS, _RIGHT_ROWS = 4, 2
_RUN = 2048
_PANEL_ROWS = 48


class Avx2(ArraySums):
    """Kernel for any int8 codes, with 16 products per instruction."""

    name = "avx2"
    needs = "a processor with AVX2"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return "avx2" in host_features()

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        same = left is right
        wide_right = _wide_rows(len(right), left.shape[1])
        wide_left = wide_right if same else _wide_rows(len(left), left.shape[1])
        sums = np.empty((_LEFT_ROWS, _RIGHT_ROWS), dtype=np.int32)
        _add_products(total, left, right, (wide_left, wide_right, sums), same)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of one run of both operands, widened."""
        rows = _whole_tiles(right) + (0 if same else _whole_tiles(left))
        return rows * row_stride(_WIDE_BYTES * _whole_run(people))


def _whole_tiles(rows: int) -> int:
    """Return a number of rows that is a multiple of the rows of a tile on either side."""
    both = _LEFT_ROWS * _RIGHT_ROWS
    return -(-rows // both) * both


def _whole_run(people: int) -> int:
    """Return the number of people of a run, in whole vectors."""
    return min(_RUN, -(-people // _LANES) * _LANES)


def _wide_rows(rows: int, people: int) -> Int16:
    """Return memory for the rows of one run of people."""
    return spread_rows(_whole_tiles(rows), _WIDE_BYTES * _whole_run(people)).view(np.int16)


@compiled
def _add_products(total: Any, left: Any, right: Any, memory: Any, same: Any) -> None:
    """Add ``left @ right.T``. `memory` is for a run of the operands and for the sums of a tile."""
    wide_left, wide_right, sums = memory
    stride = wide_right.strides[0]
    for first in range(0, left.shape[1], _RUN):
        _widen(right, first, wide_right)
        if not same:
            _widen(left, first, wide_left)
        steps = (min(_RUN, left.shape[1] - first) + _LANES - 1) // _LANES
        for panel in range(0, total.shape[1], _PANEL_ROWS):
            stop = min(panel + _PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], _LEFT_ROWS):
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // _RIGHT_ROWS * _RIGHT_ROWS) if same else panel
                for j in range(start, stop, _RIGHT_ROWS):
                    _tile(
                        wide_left.ctypes.data + i * stride,
                        wide_right.ctypes.data + j * stride,
                        stride,
                        steps,
                        sums.ctypes.data,
                    )
                    for row in range(min(_LEFT_ROWS, total.shape[0] - i)):
                        for column in range(min(_RIGHT_ROWS, stop - j)):
                            total[i + row, j + column] += sums[row, column]


@inlined
def _widen(codes: Any, first: Any, wide: Any) -> None:
    """Copy a run of people as int16, with zeros after the last row and person."""
    people = min(wide.shape[1], codes.shape[1] - first)
    for row in range(codes.shape[0]):
        for i in range(people):
            wide[row, i] = codes[row, first + i]
        wide[row, people:] = 0
    wide[codes.shape[0] :] = 0


@emitted()
def _tile(
    builder: Builder, left: Value, right: Value, stride: Value, steps: Value, sums: Value
) -> None:
    """Multiply 4 rows by 2 rows of int16: ``sums[4 x 2] = left @ right.T``, modulo 2^32.

    The operands and the sums are addresses, `stride` is the number of bytes from one row of an
    operand to the next, and there is at least one step of 16 people.
    """
    multiply = function(builder, _MULTIPLY, [_CODES] * 2, _SUMS)
    add_lanes = function(builder, _ADD_LANES, [_SUMS], I32)

    def step(offset: Value, totals: list[Value]) -> list[Value]:
        """Add the products of 16 people to the sums of each row with each column."""
        columns = [load(builder, right, stride, j, offset, _CODES) for j in range(_RIGHT_ROWS)]
        rows = (load(builder, left, stride, i, offset, _CODES) for i in range(_LEFT_ROWS))
        pairs = [(row, column) for row in rows for column in columns]
        return [
            builder.add(total, builder.call(multiply, pair))
            for total, pair in zip(totals, pairs, strict=True)
        ]

    zeros = [_ZERO] * (_LEFT_ROWS * _RIGHT_ROWS)
    for number, total in enumerate(loop(builder, steps, _VECTOR_BYTES, zeros, step)):
        place = pointer(builder, builder.add(sums, word(4 * number)), I32)
        builder.store(builder.call(add_lanes, [total]), place)
