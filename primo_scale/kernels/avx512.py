"""AVX-512 instructions that Numba does not offer, as the inner loops of integer products.

A *tile* is the product of a few left rows with a few right rows along one run of people. All its
sums stay in registers for the whole run; only then are lanes added up, or what was looked up added
to sums in memory. The functions here emit LLVM instructions and take addresses:
`primo_scale.kernels.product_avx512` and `product_lookup` decide what they point at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

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

_LANES = 16
_VECTOR_BYTES = 64
_STEP_BYTES = LOOKUP_VECTORS * _VECTOR_BYTES

_i8, _i32, _i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_v16 = ir.VectorType(_i32, _LANES)
_v64 = ir.VectorType(_i8, _VECTOR_BYTES)
_v32 = ir.VectorType(ir.IntType(16), _VECTOR_BYTES // 2)
_ZERO = ir.Constant(_v16, [0] * _LANES)

_QUARTERS = range(0, _LANES, 4)
# Lanes that each round of `_transposed_sum` takes of two vectors, numbered 0-15 and 16-31.
_ROUNDS = [
    *(
        [[quarter + lane for quarter in _QUARTERS for lane in half] for half in halves]
        for halves in (((0, 16, 1, 17), (2, 18, 3, 19)), ((0, 1, 16, 17), (2, 3, 18, 19)))
    ),
    *2 * [[[lane for lane in range(2 * _LANES) if lane // 4 % 2 == odd] for odd in (0, 1)]],
]

Builder = Any  # llvmlite has no types
Value = Any


BYTE_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vnni"})
SIGN_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vpopcntdq"})
LOOKUP_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vbmi"})
"""What `byte_tile`, `sign_tile` and `lookup_64` to `lookup_256` need, as LLVM calls it."""


def host_features() -> frozenset[str]:
    """What this processor has and Numba may use, as LLVM calls it."""
    config = numba.config
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:
        return frozenset()  # asked not to compile, or to do it for another processor
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know how to ask this kind of processor
        return frozenset()
    return frozenset(name for name, present in features.items() if present)


def looks_up_fast() -> bool:
    """Whether one look-up is one operation: so on AMD's, while Intel's make three of it."""
    return str(binding.get_host_cpu_name()).startswith("znver")


def _intrinsic(function: Any) -> Any:
    return intrinsic(function)


@_intrinsic
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
        multiply = _function(builder, "llvm.x86.avx512.vpdpbusd.512", [_v16] * 3)

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """One turn of the loop."""
            columns = [_load(builder, right, stride, j, offset) for j in range(RIGHT_ROWS)]
            rows = (_load(builder, left, stride, i, offset) for i in range(LEFT_ROWS))
            pairs = [(row, column) for row in rows for column in columns]
            return [
                builder.call(multiply, [total, *pair])
                for total, pair in zip(totals, pairs, strict=True)
            ]

        totals = _loop(builder, steps, _VECTOR_BYTES, LEFT_ROWS * RIGHT_ROWS, step)
        _store_lane_sums(builder, totals, sums)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


@_intrinsic
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
        ones = _function(builder, "llvm.ctpop.v16i32", [_v16])
        n_pairs = SIGN_LEFT_ROWS * SIGN_RIGHT_ROWS

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """One turn of the loop."""

            def masks(base: Value, row: int) -> tuple[Value, Value]:
                negative = builder.add(offset, _word(_VECTOR_BYTES))
                return (
                    _load(builder, base, stride, row, offset),
                    _load(builder, base, stride, row, negative),
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

        totals = _loop(builder, steps, 2 * _VECTOR_BYTES, 2 * n_pairs, step)
        twice = [builder.add(differ, differ) for differ in totals[n_pairs:]]
        products = [builder.sub(*pair) for pair in zip(totals[:n_pairs], twice, strict=True)]
        _store_lane_sums(builder, products, sums)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


def _lookup_tile(vectors: int) -> Any:
    """Make the function for 64 columns so many times, 1 to `LOOKUP_VECTORS`."""

    @_intrinsic
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
            look_up = _function(builder, "llvm.x86.avx512.vpermi2var.qi.512", [_v64] * 3, _v64)

            def step(count: Value, totals: list[Value]) -> list[Value]:
                """One turn of the loop."""
                first = builder.add(right, builder.mul(count, _word(_STEP_BYTES)))
                places = _vectors(builder, first, vectors)
                found = []
                for row in range(LOOKUP_LEFT_ROWS):
                    number = builder.zext(_load(builder, left, stride, row, count, _i8), _i64)
                    table = builder.add(tables, builder.mul(number, _word(TABLE_BYTES)))
                    low, high = _vectors(builder, table, 2)
                    found += [builder.call(look_up, [low, place, high]) for place in places]
                return [builder.add(*pair) for pair in zip(totals, found, strict=True)]

            totals = _loop(builder, steps, 1, LOOKUP_LEFT_ROWS * vectors, step, _v64)
            for number, total in enumerate(totals):
                row, vector = divmod(number, vectors)
                _add_neighbours(builder, total, sums, LOOKUP_VECTORS * row + vector)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return lookup_tile


lookup_64, lookup_128, lookup_192, lookup_256 = map(_lookup_tile, range(1, LOOKUP_VECTORS + 1))


@_intrinsic
def store_unsigned(_context: Any, codes: Any, target: Any, steps: Any) -> Any:
    """Copy ``64 * steps`` int8 from one address to another, each with 128 added to it."""

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, target, steps = arguments
        half = ir.Constant(_v16, [0x80808080] * _LANES)

        def step(offset: Value, _totals: list[Value]) -> list[Value]:
            """One turn of the loop."""
            biased = builder.xor(_load(builder, codes, _word(0), 0, offset), half)
            place = builder.inttoptr(builder.add(target, offset), _v16.as_pointer())
            builder.store(biased, place, align=1)
            return []

        _loop(builder, steps, _VECTOR_BYTES, 0, step)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@_intrinsic
def code_sum(_context: Any, codes: Any, steps: Any) -> Any:
    """Sum of ``64 * steps`` int8 at an address, as int32."""

    def generate(_target: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, steps = arguments
        multiply = _function(builder, "llvm.x86.avx512.vpdpbusd.512", [_v16] * 3)
        add_lanes = _function(builder, "llvm.vector.reduce.add.v16i32", [_v16], _i32)
        ones = ir.Constant(_v16, [0x01010101] * _LANES)

        def step(offset: Value, totals: list[Value]) -> list[Value]:
            """One turn of the loop."""
            values = _load(builder, codes, _word(0), 0, offset)
            return [builder.call(multiply, [totals[0], ones, values])]

        return builder.call(add_lanes, _loop(builder, steps, _VECTOR_BYTES, 1, step))

    return types.int32(types.intp, types.intp), generate


@_intrinsic
def store_signs(_context: Any, codes: Any, present: Any, negative: Any) -> Any:
    """Write two masks of 64 int8 at an address: which are not 0, and which are negative."""

    def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
        """Emit the instructions."""
        codes, *targets = arguments
        values = builder.load(builder.inttoptr(codes, _v64.as_pointer()), align=1)
        zero = ir.Constant(_v64, [0] * _VECTOR_BYTES)
        for relation, target in zip(("!=", "<"), targets, strict=True):
            mask = builder.bitcast(builder.icmp_signed(relation, values, zero), _i64)
            builder.store(mask, builder.inttoptr(target, _i64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _loop(
    builder: Builder,
    steps: Value,
    step_bytes: int,
    n_totals: int,
    step: Callable[[Value, list[Value]], list[Value]],
    kind: Any = _v16,
) -> list[Value]:
    """Run `step` from zero totals of a `kind`, `steps` times, with the byte offset of each."""
    before, loop, after = (
        builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    )  # fmt: skip
    builder.branch(loop)
    builder.position_at_end(loop)
    count = builder.phi(_i64)
    count.add_incoming(_word(0), before)
    totals = [builder.phi(kind) for _ in range(n_totals)]
    for total in totals:
        total.add_incoming(ir.Constant(kind, [0] * kind.count), before)
    advanced = step(builder.mul(count, _word(step_bytes)), totals)
    done = builder.add(count, _word(1))
    count.add_incoming(done, loop)
    for total, value in zip(totals, advanced, strict=True):
        total.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", done, steps), loop, after)
    builder.position_at_end(after)
    return advanced


def _store_lane_sums(builder: Builder, totals: list[Value], address: Value) -> None:
    """Add up the lanes of each vector and store the sums one after the other as int32."""
    padded = totals + [_ZERO] * (-len(totals) % _LANES)
    for start in range(0, len(padded), _LANES):
        sums = _transposed_sum(builder, padded[start : start + _LANES])
        target = builder.add(address, _word(4 * start))
        builder.store(sums, builder.inttoptr(target, _v16.as_pointer()), align=1)


def _transposed_sum(builder: Builder, vectors: list[Value]) -> Value:
    """Lane k of the result is the sum of all lanes of vector k, for sixteen vectors.

    Four rounds halve the number of vectors: each pair is interleaved both ways and added. The
    first two rounds work within the 128-bit quarters that one instruction shuffles.
    """
    for low, high in _ROUNDS:
        masks = [ir.Constant(_v16, lanes) for lanes in (low, high)]
        vectors = [
            builder.add(*(builder.shuffle_vector(first, second, mask) for mask in masks))
            for first, second in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def _add_neighbours(builder: Builder, found: Value, sums: Value, place: int) -> None:
    """Add pairs of bytes as 16-bit words, and the second byte of each, to sums at two vectors."""
    pairs = builder.bitcast(found, _v32)
    seconds = builder.lshr(pairs, ir.Constant(_v32, [8] * (_VECTOR_BYTES // 2)))
    for half, values in enumerate((pairs, seconds)):
        address = builder.add(sums, _word((2 * place + half) * _VECTOR_BYTES))
        pointer = builder.inttoptr(address, _v32.as_pointer())
        added = builder.add(builder.load(pointer, align=1), values)
        builder.store(added, pointer, align=1)


def _vectors(builder: Builder, address: Value, count: int) -> list[Value]:
    """So many vectors of bytes, one after the other."""
    stride, start = _word(_VECTOR_BYTES), _word(0)
    return [_load(builder, address, stride, number, start, _v64) for number in range(count)]


def _load(
    builder: Builder, base: Value, stride: Value, row: int, offset: Value, kind: Any = _v16
) -> Value:
    """What is at `offset` of a row."""
    address = builder.add(builder.add(base, builder.mul(stride, _word(row))), offset)
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def _function(builder: Builder, name: str, arguments: list[Any], result: Any = _v16) -> Value:
    existing = builder.module.globals.get(name)
    return existing or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def _word(value: int) -> Value:
    return ir.Constant(_i64, value)
