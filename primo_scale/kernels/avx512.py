"""AVX-512 instructions that Numba does not offer, as the inner loops of integer products.

A *tile* is the product of a few left rows with a few right rows along one run of people. All its
sums stay in registers for the whole run; only then are lanes added up, or what was looked up added
to sums in memory. The functions here emit LLVM instructions and take addresses:
`primo_scale.kernels.product_avx512` and `product_lookup` decide what they point at.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from primo_scale.kernels.emitting import (
    I8,
    I32,
    I64,
    LANES,
    V16,
    V64,
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
"""int32 that a byte tile writes: 6 x 4 sums, rounded up to whole vectors."""

SIGN_LEFT_ROWS = 5
SIGN_RIGHT_ROWS = 2

LOOKUP_LEFT_ROWS = 5
LOOKUP_VECTORS = 4
TABLE_BYTES = 128
"""Of the table that one instruction looks entries up in."""

_STEP_BYTES = LOOKUP_VECTORS * VECTOR_BYTES

_v32 = ir.VectorType(ir.IntType(16), VECTOR_BYTES // 2)
_ZERO = ir.Constant(V16, [0] * LANES)

_QUARTERS = range(0, LANES, 4)
# Lanes that each round of `_transposed_sum` takes of two vectors, numbered 0-15 and 16-31.
_ROUNDS = [
    *(
        [[quarter + lane for quarter in _QUARTERS for lane in half] for half in halves]
        for halves in (((0, 16, 1, 17), (2, 18, 3, 19)), ((0, 1, 16, 17), (2, 3, 18, 19)))
    ),
    *2 * [[[lane for lane in range(2 * LANES) if lane // 4 % 2 == odd] for odd in (0, 1)]],
]

BYTE_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vnni"})
SIGN_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vpopcntdq"})
LOOKUP_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vbmi"})
"""What `byte_tile`, `sign_tile` and `lookup_64` to `lookup_256` need, as LLVM calls it."""


@intrinsic
def byte_tile(_context: Any, left: Any, right: Any, stride: Any, steps: Any, sums: Any) -> Any:
    """Product of 6 rows of uint8 with 4 rows of int8: ``sums[6 x 4] = left @ right.T``.

    ``vpdpbusd`` multiplies 64 pairs and adds each four products to an int32 lane, modulo 2^32.

    Parameters
    ----------
    left, right, sums : intp
        Addresses.
    stride : intp
        Bytes from one row to the next, of both.
    steps : intp
        Vectors of 64 people, at least one.
    """

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        left, right, stride, steps, sums = arguments
        multiply = function(builder, "llvm.x86.avx512.vpdpbusd.512", [V16] * 3)

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """One turn of the loop."""
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
def sign_tile(_context: Any, left: Any, right: Any, stride: Any, steps: Any, sums: Any) -> Any:
    """Product of 5 rows with 2 rows of -1, 0 and 1: ``sums[5 x 2] = left @ right.T``.

    A row is a run of pairs of 64-byte masks of 512 people: whose entry is not 0, and whose is
    negative. Entries multiply to ``popcount(both) - 2 popcount(both and signs differ)``.

    Parameters
    ----------
    left, right, sums : intp
        Addresses.
    stride : intp
        Bytes from one row to the next, of both.
    steps : intp
        Pairs of masks in a row, at least one.
    """

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        left, right, stride, steps, sums = arguments
        ones = function(builder, "llvm.ctpop.v16i32", [V16])
        n_pairs = SIGN_LEFT_ROWS * SIGN_RIGHT_ROWS

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """One turn of the loop."""

            def masks(base: Value, row: int) -> tuple[Value, Value]:
                negative = builder.add(offset, word(VECTOR_BYTES))
                return (
                    load(builder, base, stride, row, offset),
                    load(builder, base, stride, row, negative),
                )

            columns = [masks(right, j) for j in range(SIGN_RIGHT_ROWS)]
            both_counts, differ_counts = [], []
            for i in range(SIGN_LEFT_ROWS):
                present, negative = masks(left, i)
                for other_present, other_negative in columns:
                    both = builder.and_(present, other_present)
                    differ = builder.and_(both, builder.xor(negative, other_negative))
                    both_counts.append(builder.call(ones, [both]))
                    differ_counts.append(builder.call(ones, [differ]))
            counts = [*both_counts, *differ_counts]
            return [builder.add(*pair) for pair in zip(totals, counts, strict=True)]

        totals = loop(builder, steps, 2 * VECTOR_BYTES, 2 * n_pairs, step)
        twice = [builder.add(differ, differ) for differ in totals[n_pairs:]]
        products = [builder.sub(*pair) for pair in zip(totals[:n_pairs], twice, strict=True)]
        _store_lane_sums(builder, products, sums)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


def _lookup_tile(vectors: int) -> Any:
    """Make the function for 64 columns so many times, 1 to `LOOKUP_VECTORS`."""

    @intrinsic
    def lookup_tile(
        _context: Any, left: Any, stride: Any, right: Any, steps: Any, tables: Any, sums: Any
    ) -> Any:
        """Look 5 rows up in some columns and add all that is found, per row and column.

        A left byte says in which table to look, a right byte where in it. Entries are unsigned,
        and those of all steps must add up to less than 256. ``sums[5, 4, 2, 32]`` of uint16 is
        added to: of every row and 64 columns the sum of two neighbours (the second 256 times), and
        the second alone; modulo 2^16.

        Parameters
        ----------
        left, right, tables, sums : intp
            Addresses; of right and sums, those of the first column that is wanted. Right, 256
            bytes a step; tables of 128 bytes, aligned to 64.
        stride : intp
            Bytes from one left row to the next.
        steps : intp
            At least one.
        """

        def generate(
            context: Any, builder: Builder, _signature: Any, arguments: list[Value]
        ) -> Value:
            """Emit the instructions."""
            left, stride, right, steps, tables, sums = arguments
            look_up = function(builder, "llvm.x86.avx512.vpermi2var.qi.512", [V64] * 3, V64)

            def step(count: Value, totals: list[Value]) -> list[Value]:
                """One turn of the loop."""
                first = builder.add(right, builder.mul(count, word(_STEP_BYTES)))
                places = _vectors(builder, first, vectors)
                found = []
                for row in range(LOOKUP_LEFT_ROWS):
                    number = builder.zext(load(builder, left, stride, row, count, I8), I64)
                    table = builder.add(tables, builder.mul(number, word(TABLE_BYTES)))
                    low, high = _vectors(builder, table, 2)
                    found += [builder.call(look_up, [low, place, high]) for place in places]
                return [builder.add(*pair) for pair in zip(totals, found, strict=True)]

            totals = loop(builder, steps, 1, LOOKUP_LEFT_ROWS * vectors, step, V64)
            for number, total in enumerate(totals):
                row, vector = divmod(number, vectors)
                _add_neighbours(builder, total, sums, LOOKUP_VECTORS * row + vector)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return lookup_tile


lookup_64, lookup_128, lookup_192, lookup_256 = map(_lookup_tile, range(1, LOOKUP_VECTORS + 1))


@intrinsic
def store_unsigned(_context: Any, codes: Any, target: Any, steps: Any) -> Any:
    """Copy ``64 * steps`` int8 from one address to another, each with 128 added to it."""

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, target, steps = arguments
        half = ir.Constant(V16, [0x80808080] * LANES)

        def step(offset: Value, _totals: list[Value]) -> list[Value]:
            """One turn of the loop."""
            biased = builder.xor(load(builder, codes, word(0), 0, offset), half)
            place = pointer(builder, builder.add(target, offset), V16)
            builder.store(biased, place, align=1)
            return []

        loop(builder, steps, VECTOR_BYTES, 0, step)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@intrinsic
def code_sum(_context: Any, codes: Any, steps: Any) -> Any:
    """Sum of ``64 * steps`` int8 at an address, as int32."""

    def generate(_target: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, steps = arguments
        multiply = function(builder, "llvm.x86.avx512.vpdpbusd.512", [V16] * 3)
        add_lanes = function(builder, "llvm.vector.reduce.add.v16i32", [V16], I32)
        ones = ir.Constant(V16, [0x01010101] * LANES)

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """One turn of the loop."""
            values = load(builder, codes, word(0), 0, offset)
            return [builder.call(multiply, [totals[0], ones, values])]

        return builder.call(add_lanes, loop(builder, steps, VECTOR_BYTES, 1, step))

    return types.int32(types.intp, types.intp), generate


@intrinsic
def store_signs(_context: Any, codes: Any, present: Any, negative: Any) -> Any:
    """Write two masks of 64 int8 at an address: which are not 0, and which are negative."""

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, *targets = arguments
        values = builder.load(pointer(builder, codes, V64), align=1)
        zero = ir.Constant(V64, [0] * VECTOR_BYTES)
        for relation, target in zip(("!=", "<"), targets, strict=True):
            mask = builder.bitcast(builder.icmp_signed(relation, values, zero), I64)
            builder.store(mask, pointer(builder, target, I64), align=1)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _store_lane_sums(builder: Builder, totals: list[Value], address: Value) -> None:
    """Add up the lanes of each vector and store the sums one after the other as int32."""
    padded = totals + [_ZERO] * (-len(totals) % LANES)
    for start in range(0, len(padded), LANES):
        sums = _transposed_sum(builder, padded[start : start + LANES])
        target = builder.add(address, word(4 * start))
        builder.store(sums, pointer(builder, target, V16), align=1)


def _transposed_sum(builder: Builder, vectors: list[Value]) -> Value:
    """Lane k of the result is the sum of all lanes of vector k, for sixteen vectors.

    Four rounds halve the number of vectors: each pair is interleaved both ways and added. The
    first two rounds work within the 128-bit quarters that one instruction shuffles.
    """
    for low, high in _ROUNDS:
        masks = [ir.Constant(V16, lanes) for lanes in (low, high)]
        vectors = [
            builder.add(*(builder.shuffle_vector(first, second, mask) for mask in masks))
            for first, second in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def _add_neighbours(builder: Builder, found: Value, sums: Value, number: int) -> None:
    """Add pairs of bytes as 16-bit words, and the second byte of each, to sums at two vectors."""
    pairs = builder.bitcast(found, _v32)
    seconds = builder.lshr(pairs, ir.Constant(_v32, [8] * (VECTOR_BYTES // 2)))
    for half, values in enumerate((pairs, seconds)):
        address = builder.add(sums, word((2 * number + half) * VECTOR_BYTES))
        place = pointer(builder, address, _v32)
        builder.store(builder.add(builder.load(place, align=1), values), place, align=1)


def _vectors(builder: Builder, address: Value, count: int) -> list[Value]:
    """So many vectors of bytes, one after the other."""
    stride, start = word(VECTOR_BYTES), word(0)
    return [load(builder, address, stride, number, start, V64) for number in range(count)]
