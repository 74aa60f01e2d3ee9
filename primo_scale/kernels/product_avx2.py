"""Exact int8 products on processors with AVX2, compiled by Numba.

``vpmaddubsw`` multiplies 32 unsigned bytes by 32 signed bytes, and adds each two products to an
int16. A *tile* is the product of a few left rows with a few right rows along one run of people. Its
int16 sums are added to int32 sums before they can overflow. How many steps that takes depends on
the largest values of the rows, so a constant is subtracted from each row first: the least code of a
left row, and the middle code of a right row. Codes of genotypes have small ranges, and most tiles
add the products of several steps in int16. Rows of too large a range are widened to int16, and
multiplied by ``vpmaddwd``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from primo_scale.kernels.compiling import compiled, host_features, inlined
from primo_scale.kernels.emitting import (
    I8,
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
from primo_scale.kernels.products import ArraySums, Int8, Int32, row_stride, spread_rows

_BYTES, _SHORTS, _SUMS = (ir.VectorType(kind, 256 // kind.width) for kind in (I8, I16, I32))
_STEP, _WIDE_STEP = _BYTES.count, _SHORTS.count  # people
_SHORT_ZEROS, _ONES = (ir.Constant(_SHORTS, [value] * _SHORTS.count) for value in (0, 1))
_ZEROS = ir.Constant(_SUMS, [0] * _SUMS.count)
_MULTIPLY_BYTES, _MULTIPLY = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"
# Eight sums and the operands fit the sixteen registers. The left rows of a tile stay in the
# first-level cache for a run, 16 KiB, and a panel of right rows in the second-level cache.
_LEFT_ROWS, _RIGHT_ROWS = 4, 2
_TILE_SUMS = _LEFT_ROWS * _RIGHT_ROWS
_RUN = 4096  # people
_STRIDE = row_stride(_RUN)
_PANEL_ROWS = 48
_LARGEST_PRODUCT = (2**15 - 1) // 2  # an int16 holds the sum of two
_BASE, _SUM, _LARGEST = range(3)  # columns of the table of rows


class Avx2(ArraySums):
    """Kernel for any int8 codes, with 32 products per instruction for codes of small range."""

    name = "avx2"
    needs = "a processor with AVX2"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return "avx2" in host_features()

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        shifted = [spread_rows(_whole_tiles(len(side)), _RUN) for side in (left, right)]
        rows = [np.zeros((len(side), 3), dtype=np.int32) for side in shifted]
        sums = np.empty(_TILE_SUMS, dtype=np.int32)
        _add_products(total, left, right, (*shifted, *rows, sums), left is right)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of one run of both operands, and of the tables of their rows."""
        rows = _whole_tiles(left) + _whole_tiles(right)
        return rows * (_STRIDE + 3 * np.dtype(np.int32).itemsize)


def _whole_tiles(rows: int) -> int:
    """Return a number of rows that is a multiple of the rows of a tile on either side."""
    return -(-rows // _TILE_SUMS) * _TILE_SUMS


@compiled
def _add_products(total: Any, left: Any, right: Any, memory: Any, same: Any) -> None:
    """Add ``left @ right.T``, with memory for both operands, tables of their rows, and sums.

    With ``left = l + b`` and ``right = r + c``, for the subtracted constants b and c of the rows,
    ``left @ right.T = l @ r.T + b sum(right) + c sum(l)``. The sums of rows after the last are not
    used.
    """
    lowered, centred, left_rows, right_rows, sums = memory
    for first in range(0, left.shape[1], _RUN):
        last = min(first + _RUN, left.shape[1])
        steps = (last - first + _STEP - 1) // _STEP
        for i in range(left.shape[0]):
            _lower(left[i, first:last], lowered[i], left_rows[i])
        for j in range(right.shape[0]):
            _centre(right[j, first:last], centred[j], right_rows[j])
        for panel in range(0, total.shape[1], _PANEL_ROWS):
            stop = min(panel + _PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], _LEFT_ROWS):
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // _RIGHT_ROWS * _RIGHT_ROWS) if same else panel
                for j in range(start, stop, _RIGHT_ROWS):
                    largest = _largest(left_rows, i, _LEFT_ROWS)
                    most = _LARGEST_PRODUCT // (largest * _largest(right_rows, j, _RIGHT_ROWS))
                    a = lowered.ctypes.data + i * _STRIDE
                    b = centred.ctypes.data + j * _STRIDE
                    if most:
                        _narrow_tile(a, b, steps, most, sums.ctypes.data)
                    else:
                        _wide_tile(a, b, 2 * steps, sums.ctypes.data)
                    for row in range(i, min(i + _LEFT_ROWS, total.shape[0])):
                        for column in range(j, min(j + _RIGHT_ROWS, stop)):
                            found = sums[(row - i) * _RIGHT_ROWS + column - j]
                            found += left_rows[row, _BASE] * right_rows[column, _SUM]
                            found += right_rows[column, _BASE] * left_rows[row, _SUM]
                            total[row, column] += found


@inlined
def _lower(codes: Any, shifted: Any, row: Any) -> None:
    """Subtract the least code; record it, the sum of the differences, and the largest of them."""
    least, largest = _range(codes)
    total = np.int32(0)
    for i in range(codes.shape[0]):
        shifted[i] = np.int8(codes[i] - least)
        total = np.int32(total + np.int32(codes[i] - least))
    shifted[codes.shape[0] :] = 0
    row[_BASE], row[_SUM], row[_LARGEST] = least, total, largest - least


@inlined
def _centre(codes: Any, shifted: Any, row: Any) -> None:
    """Subtract the middle code; record it, the sum of the codes, and the largest difference."""
    least, largest = _range(codes)
    middle = np.int32(least + largest + 1) >> 1
    total = np.int32(0)
    for i in range(codes.shape[0]):
        shifted[i] = np.int8(codes[i] - middle)
        total = np.int32(total + np.int32(codes[i]))
    shifted[codes.shape[0] :] = 0
    row[_BASE], row[_SUM], row[_LARGEST] = middle, total, middle - least


@inlined
def _range(codes: Any) -> Any:
    """Return the least and the largest code."""
    least = largest = codes[0]
    for i in range(codes.shape[0]):
        least, largest = min(least, codes[i]), max(largest, codes[i])
    return np.int32(least), np.int32(largest)


@inlined
def _largest(rows: Any, first: Any, count: Any) -> Any:
    """Return the largest value of some rows, at least 1."""
    largest = 1
    for row in range(first, first + count):
        largest = max(largest, rows[row, _LARGEST])
    return largest


@emitted()
def _narrow_tile(
    builder: Builder, left: Value, right: Value, steps: Value, most: Value, sums: Value
) -> None:
    """Multiply 4 rows of uint8 by 2 rows of int8: ``sums[4 x 2] = left @ right.T``, modulo 2^32.

    The operands and the sums are addresses. There is at least one step of 32 people, and the
    products of `most` steps do not overflow an int16.
    """
    multiply = function(builder, _MULTIPLY_BYTES, [_BYTES] * 2, _SHORTS)
    add_pairs = function(builder, _MULTIPLY, [_SHORTS] * 2, _SUMS)

    def group(number: Value, totals: list[Value]) -> list[Value]:
        """Add the products of `most` steps, or of those that are left, to the int32 sums."""
        first = builder.mul(number, most)
        rest = builder.sub(steps, first)
        count = builder.select(builder.icmp_signed("<", rest, most), rest, most)
        begin = builder.mul(first, word(_STEP))

        def step(offset: Value, shorts: list[Value]) -> list[Value]:
            """Add the products of 32 people to the int16 sums of each row with each column."""
            pairs = _pairs(builder, (left, right), builder.add(begin, offset), _BYTES)
            products = [builder.call(multiply, pair) for pair in pairs]
            return list(map(builder.add, shorts, products))

        shorts = loop(builder, count, _STEP, [_SHORT_ZEROS] * _TILE_SUMS, step, unrolled=False)
        products = [builder.call(add_pairs, [short, _ONES]) for short in shorts]
        return list(map(builder.add, totals, products))

    groups = builder.sdiv(builder.add(steps, builder.sub(most, word(1))), most)
    _store_lane_sums(builder, loop(builder, groups, 1, [_ZEROS] * _TILE_SUMS, group), sums)


@emitted()
def _wide_tile(builder: Builder, left: Value, right: Value, steps: Value, sums: Value) -> None:
    """Do as `_narrow_tile` for any bytes, in steps of 16 people, which are widened to int16."""
    multiply = function(builder, _MULTIPLY, [_SHORTS] * 2, _SUMS)

    def step(offset: Value, totals: list[Value]) -> list[Value]:
        """Add the products of 16 people to the int32 sums of each row with each column."""
        half = ir.VectorType(I8, _WIDE_STEP)
        pairs = _pairs(builder, (left, right), offset, half)
        wide = (
            (builder.zext(left, _SHORTS), builder.sext(right, _SHORTS)) for left, right in pairs
        )
        products = [builder.call(multiply, pair) for pair in wide]
        return list(map(builder.add, totals, products))

    _store_lane_sums(builder, loop(builder, steps, _WIDE_STEP, [_ZEROS] * _TILE_SUMS, step), sums)


def _pairs(
    builder: Builder, operands: tuple[Value, Value], offset: Value, kind: Any
) -> list[tuple[Value, Value]]:
    """Load a vector of every row of both operands, and return each left one with each right one."""
    left, right = operands
    columns = [load(builder, right, word(_STRIDE), j, offset, kind) for j in range(_RIGHT_ROWS)]
    rows = (load(builder, left, word(_STRIDE), i, offset, kind) for i in range(_LEFT_ROWS))
    return [(row, column) for row in rows for column in columns]


def _store_lane_sums(builder: Builder, totals: list[Value], address: Value) -> None:
    """Add the lanes of each vector, and store the sums consecutively as int32."""
    add = function(builder, "llvm.vector.reduce.add.v8i32", [_SUMS], I32)
    for number, total in enumerate(totals):
        place = pointer(builder, builder.add(address, word(4 * number)), I32)
        builder.store(builder.call(add, [total]), place)
