"""AVX-512 instructions that Numba does not offer, as the inner loops of integer products.

A *tile* is the product of a few left rows with a few right rows along one run of people. All sums
of a tile stay in registers for the whole run, and the lanes of each sum are added at its end. The
functions here emit LLVM instructions and take addresses; `primo_scale.kernels.product_avx512`
passes the addresses.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from primo_scale.kernels.emitting import (
    I32,
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

LEFT_ROWS = 6
RIGHT_ROWS = 4
SUMS = 32
"""Number of int32 values that a byte tile writes: 6 x 4 sums, rounded up to whole vectors."""

_ZERO = ir.Constant(V16, [0] * LANES)

_QUARTERS = range(0, LANES, 4)
# Lanes of two vectors, numbered 0-15 and 16-31, that each round of `_transposed_sum` selects.
_ROUNDS = [
    *(
        [[quarter + lane for quarter in _QUARTERS for lane in half] for half in halves]
        for halves in (((0, 16, 1, 17), (2, 18, 3, 19)), ((0, 1, 16, 17), (2, 3, 18, 19)))
    ),
    *2 * [[[lane for lane in range(2 * LANES) if lane // 4 % 2 == odd] for odd in (0, 1)]],
]

BYTE_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vnni"})
"""Processor features that `byte_tile` needs, by LLVM's names."""


@intrinsic
def byte_tile(_context: Any, left: Any, right: Any, stride: Any, steps: Any, sums: Any) -> Any:
    """Multiply 6 rows of uint8 by 4 rows of int8: ``sums[6 x 4] = left @ right.T``.

    ``vpdpbusd`` multiplies 64 pairs and adds every four products to an int32 lane, modulo 2^32.

    Parameters
    ----------
    left, right, sums : intp
        Addresses of the operands and of the sums.
    stride : intp
        Bytes from one row to the next, in both operands.
    steps : intp
        Number of vectors of 64 people, at least one.
    """

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        left, right, stride, steps, sums = arguments
        multiply = function(builder, "llvm.x86.avx512.vpdpbusd.512", [V16] * 3)

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """Emit one iteration of the loop."""
            columns = [load(builder, right, stride, j, offset) for j in range(RIGHT_ROWS)]
            rows = (load(builder, left, stride, i, offset) for i in range(LEFT_ROWS))
            pairs = [(row, column) for row in rows for column in columns]
            return [
                builder.call(multiply, [total, *pair])
                for total, pair in zip(totals, pairs, strict=True)
            ]

        totals = loop(builder, steps, VECTOR_BYTES, LEFT_ROWS * RIGHT_ROWS, step)
        _store_lane_sums(builder, totals, sums)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


@intrinsic
def store_unsigned(_context: Any, codes: Any, target: Any, steps: Any) -> Any:
    """Copy ``64 * steps`` int8 values from one address to another, and add 128 to each."""

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, target, steps = arguments
        half = ir.Constant(V16, [0x80808080] * LANES)

        def step(offset: Value, _totals: list[Value]) -> list[Value]:
            """Emit one iteration of the loop."""
            biased = builder.xor(load(builder, codes, word(0), 0, offset), half)
            memory = pointer(builder, builder.add(target, offset), V16)
            builder.store(biased, memory, align=1)
            return []

        loop(builder, steps, VECTOR_BYTES, 0, step)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@intrinsic
def code_sum(_context: Any, codes: Any, steps: Any) -> Any:
    """Return the int32 sum of ``64 * steps`` int8 values at an address."""

    def generate(_target: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, steps = arguments
        multiply = function(builder, "llvm.x86.avx512.vpdpbusd.512", [V16] * 3)
        add_lanes = function(builder, "llvm.vector.reduce.add.v16i32", [V16], I32)
        ones = ir.Constant(V16, [0x01010101] * LANES)

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """Emit one iteration of the loop."""
            values = load(builder, codes, word(0), 0, offset)
            return [builder.call(multiply, [totals[0], ones, values])]

        return builder.call(add_lanes, loop(builder, steps, VECTOR_BYTES, 1, step))

    return types.int32(types.intp, types.intp), generate


def _store_lane_sums(builder: Builder, totals: list[Value], address: Value) -> None:
    """Add the lanes of each vector, and store the sums consecutively as int32."""
    padded = totals + [_ZERO] * (-len(totals) % LANES)
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
