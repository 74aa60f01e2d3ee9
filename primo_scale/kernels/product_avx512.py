"""Exact int8 products on processors with AVX-512 VNNI, compiled by Numba.

A *tile* is the product of a few left rows with a few right rows along one run of people. All sums
of a tile stay in registers for the whole run, and the lanes of each sum are added at its end. Numba
does not offer the instructions of these inner loops, so functions here emit them (`emitting`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from primo_scale.kernels.compiling import compiled, host_features
from primo_scale.kernels.emitting import (
    I32,
    LANES,
    V16,
    VECTOR_BYTES,
    ZERO,
    Builder,
    Value,
    emitted,
    function,
    load,
    loop,
    pointer,
    word,
)
from primo_scale.kernels.products import (
    ArraySums,
    Int8,
    Int32,
    copied_bytes,
    row_stride,
    spread_rows,
    whole_vectors,
)
from primo_scale.ranges import whole_multiple

FEATURES = frozenset({"avx512f", "avx512bw", "avx512vnni"})
"""Processor features of these instructions, by LLVM's names."""

# A panel of right rows stays in the second-level cache (1 MiB or more per core) during the loop
# over left rows. Longer runs of people spend less time on adding lanes.
_RUN = 8192
_PANEL_ROWS = 120
_LEFT_ROWS, _RIGHT_ROWS = 6, 4
_SUMS = 32  # int32 values that a tile writes: 6 x 4 sums, rounded up to whole vectors
_MULTIPLY = "llvm.x86.avx512.vpdpbusd.512"
_QUARTERS = range(0, LANES, 4)
# Lanes of two vectors, numbered 0-15 and 16-31, that each round of `_transposed_sum` selects.
_ROUNDS = [
    *(
        [[quarter + lane for quarter in _QUARTERS for lane in half] for half in halves]
        for halves in (((0, 16, 1, 17), (2, 18, 3, 19)), ((0, 1, 16, 17), (2, 3, 18, 19)))
    ),
    *2 * [[[lane for lane in range(2 * LANES) if lane // 4 % 2 == odd] for odd in (0, 1)]],
]


class Vnni(ArraySums):
    """Kernel for any int8 codes, with 64 products per instruction."""

    name = "vnni"
    needs = "a processor with AVX-512 VNNI"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return host_features() >= FEATURES

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        same = left is right
        right = whole_vectors(right, _RIGHT_ROWS)
        left = right if same else whole_vectors(left)
        unsigned = spread_rows(whole_multiple(len(left), _LEFT_ROWS), left.shape[1])
        surplus, sums = (np.empty(size, dtype=np.int32) for size in (len(right), _SUMS))
        _add_byte_products(total, left, (unsigned, surplus, sums), right, same)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of the unsigned left operand and copies of both operands.

        The operands are copied because the last people of a row group do not fill whole vectors.
        """
        return left * row_stride(people) + copied_bytes(left, right, people, same=same)


@compiled
def _add_byte_products(total: Any, left: Any, memory: Any, right: Any, same: Any) -> None:
    """Add ``left @ right.T`` for operands of the same layout, which are zero after the last person.

    ``vpdpbusd`` requires one unsigned operand: it gets ``left + 128``, and ``128 sum(right)`` is
    subtracted from the result. All arithmetic is modulo 2^32. `memory` is for ``left + 128``, for
    ``sum(right)`` and for the sums of a tile.
    """
    unsigned, surplus, sums = memory
    stride = right.strides[0]
    for i in range(left.shape[0]):
        source, target = left.ctypes.data + i * stride, unsigned.ctypes.data + i * stride
        _store_unsigned(source, target, left.shape[1] // VECTOR_BYTES)
    for first in range(0, left.shape[1], _RUN):
        steps = min(_RUN, left.shape[1] - first) // VECTOR_BYTES
        for j in range(right.shape[0]):
            surplus[j] = _code_sum(right.ctypes.data + j * stride + first, steps) << np.int32(7)
        for panel in range(0, total.shape[1], _PANEL_ROWS):
            stop = min(panel + _PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], _LEFT_ROWS):
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // _RIGHT_ROWS * _RIGHT_ROWS) if same else panel
                for j in range(start, stop, _RIGHT_ROWS):
                    _tile(
                        unsigned.ctypes.data + i * stride + first,
                        right.ctypes.data + j * stride + first,
                        stride,
                        steps,
                        sums.ctypes.data,
                    )
                    for row in range(min(_LEFT_ROWS, total.shape[0] - i)):
                        for column in range(min(_RIGHT_ROWS, stop - j)):
                            found = sums[row * _RIGHT_ROWS + column]
                            total[i + row, j + column] += found - surplus[j + column]


@emitted()
def _tile(
    builder: Builder, left: Value, right: Value, stride: Value, steps: Value, sums: Value
) -> None:
    """Multiply 6 rows of uint8 by 4 rows of int8: ``sums[6 x 4] = left @ right.T``.

    ``vpdpbusd`` multiplies 64 pairs and adds every four products to an int32 lane, modulo 2^32. The
    operands and the sums are addresses, `stride` is the number of bytes from one row of an operand
    to the next, and there is at least one step of 64 people.
    """
    multiply = function(builder, _MULTIPLY, [V16] * 3)

    def step(offset: Value, totals: list[Value]) -> list[Value]:
        """Add the products of 64 people to the sums of each row with each column."""
        columns = [load(builder, right, stride, j, offset) for j in range(_RIGHT_ROWS)]
        rows = (load(builder, left, stride, i, offset) for i in range(_LEFT_ROWS))
        pairs = [(row, column) for row in rows for column in columns]
        return [
            builder.call(multiply, [total, *pair])
            for total, pair in zip(totals, pairs, strict=True)
        ]

    _store_lane_sums(
        builder, loop(builder, steps, VECTOR_BYTES, [ZERO] * (_LEFT_ROWS * _RIGHT_ROWS), step), sums
    )


@emitted()
def _store_unsigned(builder: Builder, codes: Value, target: Value, steps: Value) -> None:
    """Copy ``64 * steps`` int8 values from one address to another, and add 128 to each."""
    half = ir.Constant(V16, [0x80808080] * LANES)

    def step(offset: Value, _totals: list[Value]) -> list[Value]:
        """Copy 64 values."""
        biased = builder.xor(load(builder, codes, word(0), 0, offset), half)
        memory = pointer(builder, builder.add(target, offset), V16)
        builder.store(biased, memory, align=1)
        return []

    loop(builder, steps, VECTOR_BYTES, [], step)


@emitted("int32")
def _code_sum(builder: Builder, codes: Value, steps: Value) -> Value:
    """Return the int32 sum of ``64 * steps`` int8 values at an address."""
    multiply = function(builder, _MULTIPLY, [V16] * 3)
    add_lanes = function(builder, "llvm.vector.reduce.add.v16i32", [V16], I32)
    ones = ir.Constant(V16, [0x01010101] * LANES)

    def step(offset: Value, totals: list[Value]) -> list[Value]:
        """Add 64 values to the sums of the lanes."""
        values = load(builder, codes, word(0), 0, offset)
        return [builder.call(multiply, [totals[0], ones, values])]

    return builder.call(add_lanes, loop(builder, steps, VECTOR_BYTES, [ZERO], step))


def _store_lane_sums(builder: Builder, totals: list[Value], address: Value) -> None:
    """Add the lanes of each vector, and store the sums consecutively as int32."""
    padded = totals + [ZERO] * (-len(totals) % LANES)
    for start in range(0, len(padded), LANES):
        sums = _transposed_sum(builder, padded[start : start + LANES])
        target = builder.add(address, word(4 * start))
        builder.store(sums, pointer(builder, target, V16), align=1)


def _transposed_sum(builder: Builder, vectors: list[Value]) -> Value:
    """Return a vector whose lane k is the sum of all lanes of vector k, for sixteen vectors.

    Each of four rounds halves the number of vectors: every pair is interleaved in both ways, and
    the results are added. The first two rounds stay within the 128-bit quarters that one
    instruction shuffles.
    """
    for low, high in _ROUNDS:
        masks = [ir.Constant(V16, lanes) for lanes in (low, high)]
        vectors = [
            builder.add(*(builder.shuffle_vector(first, second, mask) for mask in masks))
            for first, second in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]
