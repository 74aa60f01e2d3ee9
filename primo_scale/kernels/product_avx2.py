"""Exact int8 products on processors with AVX2, compiled by Numba.

``vpmaddubsw`` multiplies 32 unsigned bytes by 32 signed bytes, and adds each two products to an
int16. A *tile* is the product of 6 left rows with 16 right rows along one run of people. A *step*
multiplies 4 people: those of each left row, repeated over a vector, by those of 8 right rows. The
right rows are packed in this order, so that each lane of a sum belongs to one right row.

The int16 sums of a tile are added to int32 sums before they can overflow. After how many steps
depends on the largest values of the rows, so a constant is subtracted from each row first: the
least code of a left row, and the middle code of a right row. Codes of genotypes have small ranges,
and most tiles add the products of several steps in int16. If fewer than two steps fit, the tile is
computed for the upper and for the lower four bits of the left rows, of which at least eight fit.
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
from primo_scale.kernels.products import ArraySums, Int8, Int32, row_stride, spread_rows, whole_rows
from primo_scale.ranges import whole_multiple

_BYTES, _SHORTS, _SUMS = (ir.VectorType(kind, 256 // kind.width) for kind in (I8, I16, I32))
_ONES = ir.Constant(_SHORTS, [1] * _SHORTS.count)
_STEP = 4  # people
# Twelve int16 sums, two vectors of right rows, one of a left row, and a product fill the sixteen
# registers. The left rows of a tile stay in the first-level cache for a run (12 of 32 KiB), and a
# panel of right rows in the second-level cache (256 KiB).
_LEFT_ROWS, _RIGHT_ROWS = 6, 16
_RUN = 2048  # people
_STRIDE = row_stride(_RUN)
_PANEL_ROWS = 128
_LARGEST_PRODUCT = (2**15 - 1) // 2  # an int16 holds the sum of two
_HALF_BITS, _LARGEST_HALF = 4, 15
_BASE, _SUM, _LARGEST = range(3)  # rows of a table of an operand's rows


class Avx2(ArraySums):
    """Kernel for any int8 codes, with 32 products per instruction."""

    name = "avx2"
    needs = "a processor with AVX2"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return "avx2" in host_features()

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        height = whole_multiple(len(left), _LEFT_ROWS)
        width = whole_multiple(len(right), _RIGHT_ROWS)
        tables = [np.zeros((3, rows), dtype=np.int32) for rows in (height, width)]
        lowered, halves, centred = (
            whole_rows(spread_rows(rows, _RUN)) for rows in (height, 2 * _LEFT_ROWS, _RIGHT_ROWS)
        )
        packed = spread_rows(1, width * _RUN)
        sums = spread_rows(1, _LEFT_ROWS * VECTOR_BYTES).view(np.int32).reshape(_LEFT_ROWS, -1)
        memory = lowered.view(np.uint8), halves.view(np.uint8), centred, packed, sums
        _add_products(total, left, right, (*memory, *tables), left is right)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of one run of both operands, of the tables of their rows, and of tiles.

        The last term is more than the halves of left rows, the right rows before they are packed,
        the sums and the alignment of arrays.
        """
        rows = whole_multiple(left, _LEFT_ROWS) + whole_multiple(right, _RIGHT_ROWS)
        rows += 3 * _LEFT_ROWS + _RIGHT_ROWS
        return rows * (_STRIDE + 3 * np.dtype(np.int32).itemsize)


@compiled
def _add_products(total: Any, left: Any, right: Any, memory: Any, same: Any) -> None:
    """Add ``left @ right.T``, with memory for both operands, sums, and tables of the rows.

    With ``left = l + b`` and ``right = r + c``, for the subtracted constants b and c of the rows,
    ``left @ right.T = l @ r.T + b sum(right) + c sum(l)``. The sums of rows after the last are not
    used.
    """
    lowered, halves, _, packed, sums, left_rows, right_rows = memory
    for first in range(0, left.shape[1], _RUN):
        last = min(first + _RUN, left.shape[1])
        _prepare(left[:, first:last], right[:, first:last], memory)
        steps = (last - first + _STEP - 1) // _STEP
        for panel in range(0, total.shape[1], _PANEL_ROWS):
            stop = min(panel + _PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], _LEFT_ROWS):
                rows, largest = lowered[i : i + _LEFT_ROWS], _largest(left_rows, i, _LEFT_ROWS)
                halved = False
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // _RIGHT_ROWS * _RIGHT_ROWS) if same else panel
                for j in range(start, stop, _RIGHT_ROWS):
                    columns = packed.ctypes.data + j * _RUN
                    largest_right = _largest(right_rows, j, _RIGHT_ROWS)
                    most = _LARGEST_PRODUCT // (largest * largest_right)
                    if most > 1:
                        sums[:] = 0
                        _add_tile(rows.ctypes.data, columns, steps, most, sums.ctypes.data)
                    else:
                        if not halved:
                            _halve(rows, halves)
                            halved = True
                        most = _LARGEST_PRODUCT // (_LARGEST_HALF * largest_right)
                        _multiply_halves(halves, columns, steps, most, sums)
                    _add_sums(sums, left_rows, i, right_rows, j, total)


@inlined
def _prepare(left: Any, right: Any, memory: Any) -> None:
    """Subtract a constant from every row of one run, and pack the right rows.

    A row that both operands have is read once from the memory.
    """
    lowered, _, centred, packed, _, left_rows, right_rows = memory
    for row in range(max(left.shape[0], right.shape[0])):
        if row < left.shape[0]:
            _shift(left[row], False, lowered[row], left_rows[:, row])
        if row < right.shape[0]:
            within = row % _RIGHT_ROWS
            _shift(right[row], True, centred[within], right_rows[:, row])
            if within == _RIGHT_ROWS - 1 or row == right.shape[0] - 1:
                _pack(centred.ctypes.data, packed.ctypes.data + (row - within) * _RUN)


@inlined
def _shift(codes: Any, middle: Any, shifted: Any, row: Any) -> None:
    """Subtract the middle or the least code; record it and the largest magnitude of a difference.

    The sum of the codes is recorded if the middle is subtracted, and else that of the differences.
    """
    least = largest = codes[0]
    for i in range(codes.shape[0]):
        least, largest = min(least, codes[i]), max(largest, codes[i])
    base = np.int32(least + largest + 1) >> 1 if middle else np.int32(least)
    total = np.int32(0)
    for i in range(codes.shape[0]):
        shifted[i] = codes[i] - base
        total = np.int32(total + np.int32(codes[i]))
    shifted[codes.shape[0] :] = 0
    row[_BASE], row[_SUM] = base, total if middle else total - codes.shape[0] * base
    row[_LARGEST] = base - least if middle else largest - base


@inlined
def _largest(table: Any, first: Any, count: Any) -> Any:
    """Return the largest value of some rows, at least 1."""
    largest = 1
    for row in range(first, first + count):
        largest = max(largest, table[_LARGEST, row])
    return largest


@inlined
def _halve(rows: Any, halves: Any) -> None:
    """Store the upper four bits of the left rows of a tile, and then the lower four bits."""
    for row in range(_LEFT_ROWS):
        source, upper, lower = rows[row], halves[row], halves[_LEFT_ROWS + row]
        for person in range(source.shape[0]):
            upper[person] = source[person] >> _HALF_BITS
            lower[person] = source[person] & _LARGEST_HALF


@inlined
def _multiply_halves(halves: Any, right: Any, steps: Any, most: Any, sums: Any) -> None:
    """Multiply a tile by both halves of the bits of its left rows."""
    sums[:] = 0
    _add_tile(halves.ctypes.data, right, steps, most, sums.ctypes.data)
    for row in range(_LEFT_ROWS):
        for column in range(_RIGHT_ROWS):
            sums[row, column] <<= _HALF_BITS
    _add_tile(halves[_LEFT_ROWS:].ctypes.data, right, steps, most, sums.ctypes.data)


@inlined
def _add_sums(sums: Any, left: Any, i: Any, right: Any, j: Any, total: Any) -> None:
    """Add the sums of a tile at row i and column j, and the terms of the subtracted constants."""
    right_base, right_sum = right[_BASE, j : j + _RIGHT_ROWS], right[_SUM, j : j + _RIGHT_ROWS]
    for row in range(min(_LEFT_ROWS, total.shape[0] - i)):
        found, target = sums[row], total[i + row, j : j + _RIGHT_ROWS]
        left_base, left_sum = left[_BASE, i + row], left[_SUM, i + row]
        for column in range(target.shape[0]):
            constants = left_base * right_sum[column] + left_sum * right_base[column]
            target[column] += found[column] + constants


@emitted()
def _pack(builder: Builder, rows: Value, target: Value) -> None:
    """Store 4 bytes of each of 16 rows, then the next 4, and so on for a run of people."""

    def block(number: Value, _totals: list[Value]) -> list[Value]:
        """Store 64 bytes of each row."""
        offset = builder.mul(number, word(VECTOR_BYTES))
        vectors = [load(builder, rows, word(_STRIDE), row, offset) for row in range(_RIGHT_ROWS)]
        place = builder.add(target, builder.mul(offset, word(_RIGHT_ROWS)))
        for step, vector in enumerate(interleaved(builder, vectors)):
            address = builder.add(place, word(step * VECTOR_BYTES))
            builder.store(vector, pointer(builder, address, vector.type), align=VECTOR_BYTES)
        return []

    loop(builder, word(_RUN // VECTOR_BYTES), 1, [], block)


@emitted()
def _add_tile(
    builder: Builder, left: Value, right: Value, steps: Value, most: Value, sums: Value
) -> None:
    """Multiply 6 rows of uint8 by 16 rows of int8: ``sums[6 x 16] += left @ right.T``.

    The operands and the sums are addresses. The products of `most` steps, at least 2, do not
    overflow an int16. There is at least one step; the left bytes after the last are zero, and those
    of one further step are multiplied if a group has a single step.
    """
    add_pairs = function(builder, "llvm.x86.avx2.pmadd.wd", [_SHORTS] * 2, _SUMS)

    def step(_number: Value, state: list[Value]) -> list[Value]:
        """Add the products of one step to the int16 sums."""
        *shorts, rows, columns = state
        *products, rows, columns = _products(builder, rows, columns)
        return [*map(builder.add, shorts, products), rows, columns]

    def group(_number: Value, state: list[Value]) -> list[Value]:
        """Add the products of `most` steps, or of those that are left, to the int32 sums."""
        rows, columns, rest = state
        count = builder.select(builder.icmp_signed("<", rest, most), rest, most)
        begun, others = _products(builder, rows, columns), builder.sub(count, word(1))
        *shorts, rows, columns = loop(builder, others, 1, begun, step, unrolled=False)
        # Without this, LLVM moves the int32 sums to the stack, which is not aligned to vectors.
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
        for number, short in enumerate(shorts):
            address = builder.add(sums, word(number * _SUMS.count * 4))
            place = pointer(builder, address, _SUMS)
            pairs = builder.call(add_pairs, [short, _ONES])
            builder.store(builder.add(builder.load(place), pairs), place)
        return [rows, columns, builder.sub(rest, most)]

    groups = builder.sdiv(builder.add(steps, builder.sub(most, word(1))), most)
    loop(builder, groups, 1, [left, right, steps], group)


def _products(builder: Builder, rows: Value, columns: Value) -> list[Value]:
    """Return the products of one step as vectors of int16, and both addresses of the next step."""
    multiply = function(builder, "llvm.x86.avx2.pmadd.ub.sw", [_BYTES] * 2, _SHORTS)
    undefined, first_lane = ir.Constant(_SUMS, ir.Undefined), ir.Constant(_SUMS, [0] * _SUMS.count)
    vectors = [load(builder, columns, word(32), half, word(0), _BYTES) for half in range(2)]
    products = []
    for row in range(_LEFT_ROWS):
        people = load(builder, rows, word(_STRIDE), row, word(0), I32)
        lane = builder.insert_element(undefined, people, ir.Constant(I32, 0))
        repeated = builder.bitcast(builder.shuffle_vector(lane, undefined, first_lane), _BYTES)
        products += [builder.call(multiply, [repeated, vector]) for vector in vectors]
    ends = builder.add(rows, word(_STEP)), builder.add(columns, word(_STEP * _RIGHT_ROWS))
    return [*products, *ends]
