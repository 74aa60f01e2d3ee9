"""Product kernels of vector instructions (AMX, AVX-512 VNNI, AVX2), and the choice of a kernel.

Numba does not offer the instructions of the inner loops, so that functions here emit them
(`compiling`). Addresses and numbers of bytes are integers.
"""

from __future__ import annotations

import ctypes
import math
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from primo_scale.errors import Field, UsageError
from primo_scale.kernels import AUTOMATIC, KERNELS, compiling, products
from primo_scale.kernels.compiling import I8, I32, Builder, Value, host_features, pointer, word
from primo_scale.kernels.packed import add_squared_norms, decode
from primo_scale.kernels.products import UNCLIPPED, Int8, Int32, ProductKernel, ProductSum
from primo_scale.ranges import whole_multiple

LANES = 16
VECTOR_BYTES = 64

I16 = ir.IntType(16)
V16 = ir.VectorType(I32, LANES)
ZERO = ir.Constant(V16, [0] * LANES)
# Shuffle masks of two vectors with lanes 0-15 and 16-31: their first halves interleaved, and their
# second halves interleaved.
_HALVES = [
    ir.Constant(V16, [start + lane // 2 + lane % 2 * LANES for lane in range(LANES)])
    for start in (0, LANES // 2)
]


def choose_kernel(name: str, largest_code: int) -> ProductKernel:
    """Return the kernel called `name`, or the fastest kernel that this machine can run.

    All kernels return the same integers, so machines of one cluster may choose different kernels.
    `largest_code` bounds the magnitude of the codes on both sides. It determines how the BLAS
    kernel splits its sums, and does not affect the choice.
    """
    if name == AUTOMATIC:
        return _fastest(largest_code)
    kernel = kernel_named(name, largest_code)
    if not kernel.is_available():
        raise UsageError(
            f"this machine cannot run the kernel, which needs {kernel.needs}",
            where=Field("kernel"),
            value=name,
            remedy="Leave the option out, to use the fastest kernel that the machine can run",
        )
    return kernel


def kernel_named(name: str, largest_code: int) -> ProductKernel:
    """Return the kernel of a name, whether this machine can run it or not."""
    kind: type[ProductKernel] = pkgutil.resolve_name(KERNELS[name])
    return kind(largest_code)


@cache
def _fastest(largest_code: int) -> ProductKernel:
    kernels = (kernel_named(name, largest_code) for name in KERNELS)
    return next(kernel for kernel in kernels if kernel.is_available())


def warmed_up(name: str, largest_code: int) -> str:
    """Compile the kernel that `choose_kernel` chooses, and return its name.

    Workers then load the compiled functions from the disk, and do not compile them themselves.
    """
    kernel = choose_kernel(name, largest_code)
    # Two rows, because Numba compiles a different version for a single, contiguous row.
    packed, table = np.zeros((2, 1), dtype=np.uint8), np.zeros((2, 4), dtype=np.int8)
    codes = decode(packed, table, 4)
    products.scale_columns(codes, np.full(4, UNCLIPPED))
    add_squared_norms(np.zeros(4, dtype=np.int64), packed, table)
    ProductSum(kernel, (2, 2), 1).add(codes, codes)
    return kernel.name


# ---- Instructions -------------------------------------------------------------------------------


def loop(
    builder: Builder,
    steps: Value,
    step_bytes: int,
    zeros: list[Value],
    step: Callable[[Value, list[Value]], list[Value]],
    *,
    unrolled: bool = True,
) -> list[Value]:
    """Emit a loop of `steps` iterations of `step`, which gets its byte offset and the totals.

    `zeros` are the totals before the first iteration, and the last totals are returned. LLVM may
    unroll the loop unless `unrolled` is false; unrolling slows a loop of few iterations.
    """
    before = builder.block
    again, after = (builder.append_basic_block(name) for name in ("loop", "after"))
    builder.branch(again)
    builder.position_at_end(again)
    count = builder.phi(compiling.I64)
    count.add_incoming(word(0), before)
    totals = [builder.phi(zero.type) for zero in zeros]
    for total, zero in zip(totals, zeros, strict=True):
        total.add_incoming(zero, before)
    advanced = step(builder.mul(count, word(step_bytes)), totals)
    done, last = builder.add(count, word(1)), builder.block  # another one after an inner loop
    count.add_incoming(done, last)
    for total, value in zip(totals, advanced, strict=True):
        total.add_incoming(value, last)
    branch = builder.cbranch(builder.icmp_signed("<", done, steps), again, after)
    if not unrolled:
        name = ir.MetaDataString(builder.module, "llvm.loop.unroll.disable")
        node = builder.module.add_metadata([builder.module.add_metadata([name])])
        node.operands = (node, *node.operands)  # LLVM requires that the first one is the node
        branch.set_metadata("llvm.loop", node)
    builder.position_at_end(after)
    return advanced


def load(
    builder: Builder, base: Value, stride: Value, row: int, offset: Value, kind: Any = V16
) -> Value:
    """Emit a load of the vector at byte `offset` of a row."""
    address = builder.add(builder.add(base, builder.mul(stride, word(row))), offset)
    return builder.load(pointer(builder, address, kind), align=1)


def interleaved(builder: Builder, vectors: list[Value]) -> list[Value]:
    """Return the transpose of a square of 16 x 16 words of 32 bits, as sixteen vectors.

    Interleaving the upper half of the rows with the lower half rotates the bits of each word's
    index by one; after four times, row and column numbers are exchanged.
    """
    for _ in range(4):
        vectors = [
            builder.shuffle_vector(upper, lower, half)
            for upper, lower in zip(vectors[:8], vectors[8:], strict=True)
            for half in _HALVES
        ]
    return vectors


# ---- AMX -----------------------------------------------------------------------------------------
#
# A tile is one of eight registers of 16 rows of 64 bytes. Four tiles hold the sums of a 32 x 32
# block, and the others hold the operands: each loaded operand is multiplied twice.

AMX_FEATURES = frozenset({"amx-tile", "amx-int8", "avx512f"})
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
_AMX_SUMS, _AMX_LEFT, _AMX_RIGHT = (0, 1, 2, 3), (4, 5), (6, 7)


# Input of `_configure_tiles`: palette 1, bytes per row and rows of every tile.
_WHOLE_TILES = np.zeros(64, dtype=np.uint8)
_WHOLE_TILES[0] = 1
_WHOLE_TILES[16 : 16 + 2 * _TILES].view(np.uint16)[:] = VECTOR_BYTES
_WHOLE_TILES[48 : 48 + _TILES] = _TILE_ROWS


class Amx(ProductKernel):
    """Kernel for any int8 codes, with 16,384 products per instruction."""

    name = "amx"
    needs = "a processor with AMX, and an operating system that permits it"

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
        right = products.whole_vectors(right)
        left = right if same else products.whole_vectors(left)
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
        tiles = (_n_blocks(left) + _n_blocks(right)) * _BLOCK_ROWS * products.row_stride(people)
        copies = products.copied_bytes(left, right, people, same=same)
        return max(tiles + copies, left * right * np.dtype(np.int32).itemsize)


def _n_blocks(rows: int) -> int:
    return -(-rows // _BLOCK_ROWS)


def _tiles(codes: Int8, *, on_the_right: bool) -> Int8:
    """Return the tiles, shape (blocks of 32 rows, steps of 64 people, bytes of two tiles)."""
    shape = _n_blocks(len(codes)), codes.shape[1] // VECTOR_BYTES, _STEP_BYTES
    tiles = products.spread_rows(1, math.prod(shape)).reshape(shape)
    _write_tiles(codes, _last_block(codes), tiles, on_the_right)
    return tiles


def _last_block(codes: Int8) -> Int8:
    """Return the last rows, zero-padded to a whole block, in the layout of `whole_vectors`."""
    whole = len(codes) // _BLOCK_ROWS * _BLOCK_ROWS
    block = products.spread_rows(_BLOCK_ROWS, codes.shape[1])
    block[: len(codes) - whole] = codes[whole:]
    block[len(codes) - whole :] = 0
    return block


@compiling.inlined
def _address(codes: Any, last: Any, block: Any) -> Any:
    """Return the address of a block of 32 rows."""
    if (block + 1) * _BLOCK_ROWS > codes.shape[0]:
        return last.ctypes.data
    return codes.ctypes.data + block * _BLOCK_ROWS * codes.strides[0]


@compiling.compiled
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


@compiling.compiled
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


@compiling.compiled
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
    if sys.platform != "linux" or not host_features() >= AMX_FEATURES:
        return False
    status = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return int(status) == 0


@compiling.emitted()
def _configure_tiles(builder: Builder, configuration: Value) -> None:
    """Configure eight tiles for this thread, with the sizes stored at an address."""
    _emit(builder, "ldtilecfg", pointer(builder, configuration, I8))


@compiling.emitted()
def _release_tiles(builder: Builder) -> None:
    """Release this thread's tiles, so that the system does not need to save them."""
    _emit(builder, "tilerelease")


@compiling.emitted()
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
        _move(builder, "tileloadd64", _AMX_LEFT[0], rows, 0)
        _move(builder, "tileloadd64", _AMX_RIGHT[0], columns, 0)
        _multiply(builder, _AMX_SUMS[0], _AMX_LEFT[0], _AMX_RIGHT[0])
        _move(builder, "tileloadd64", _AMX_RIGHT[1], columns, 1)
        _multiply(builder, _AMX_SUMS[1], _AMX_LEFT[0], _AMX_RIGHT[1])
        _move(builder, "tileloadd64", _AMX_LEFT[1], rows, 1)
        _multiply(builder, _AMX_SUMS[2], _AMX_LEFT[1], _AMX_RIGHT[0])
        _multiply(builder, _AMX_SUMS[3], _AMX_LEFT[1], _AMX_RIGHT[1])
        return []

    for number, tile in enumerate(_AMX_SUMS):
        _move(builder, "tileloadd64", tile, sums, number)
    loop(builder, steps, _STEP_BYTES, [], step)
    for number, tile in enumerate(_AMX_SUMS):
        _move(builder, "tilestored64", tile, sums, number)


@compiling.emitted()
def _stack(builder: Builder, rows: Value, stride: Value, tile: Value) -> None:
    """Store 64 bytes of 16 rows as a left operand, one row after another.

    `stride` is the number of bytes from one row to the next.
    """
    _store(builder, _amx_rows(builder, rows, stride), tile)


@compiling.emitted()
def _interleave(builder: Builder, rows: Value, stride: Value, tile: Value) -> None:
    """Store 64 bytes of 16 rows as a right operand: four bytes of each row, then the next four.

    `stride` is the number of bytes from one row to the next.
    """
    _store(builder, interleaved(builder, _amx_rows(builder, rows, stride)), tile)


def _amx_rows(builder: Builder, rows: Value, stride: Value) -> list[Value]:
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
    builder.call(compiling.function(builder, f"llvm.x86.{name}", kinds, ir.VoidType()), operands)


# ---- AVX-512 VNNI --------------------------------------------------------------------------------
#
# A tile is the product of a few left rows with a few right rows along one run of people. All sums
# of a tile stay in registers for the whole run, and the lanes of each sum are added at its end.

VNNI_FEATURES = frozenset({"avx512f", "avx512bw", "avx512vnni"})
"""Processor features of these instructions, by LLVM's names."""

# A panel of right rows stays in the second-level cache (1 MiB or more per core) during the loop
# over left rows. Longer runs of people spend less time on adding lanes.
_VNNI_RUN = 8192
_VNNI_PANEL_ROWS = 120
_VNNI_LEFT_ROWS, _VNNI_RIGHT_ROWS = 6, 4
_VNNI_SUMS = 32  # int32 values that a tile writes: 6 x 4 sums, rounded up to whole vectors
_VNNI_MULTIPLY = "llvm.x86.avx512.vpdpbusd.512"
_QUARTERS = range(0, LANES, 4)
# Lanes of two vectors, numbered 0-15 and 16-31, that each round of `_transposed_sum` selects.
_ROUNDS = [
    *(
        [[quarter + lane for quarter in _QUARTERS for lane in half] for half in halves]
        for halves in (((0, 16, 1, 17), (2, 18, 3, 19)), ((0, 1, 16, 17), (2, 3, 18, 19)))
    ),
    *2 * [[[lane for lane in range(2 * LANES) if lane // 4 % 2 == odd] for odd in (0, 1)]],
]


class Vnni(ProductKernel):
    """Kernel for any int8 codes, with 64 products per instruction."""

    name = "vnni"
    needs = "a processor with AVX-512 VNNI"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return host_features() >= VNNI_FEATURES

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        same = left is right
        right = products.whole_vectors(right, _VNNI_RIGHT_ROWS)
        left = right if same else products.whole_vectors(left)
        unsigned = products.spread_rows(whole_multiple(len(left), _VNNI_LEFT_ROWS), left.shape[1])
        surplus, sums = (np.empty(size, dtype=np.int32) for size in (len(right), _VNNI_SUMS))
        _add_byte_products(total, left, (unsigned, surplus, sums), right, same)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of the unsigned left operand and copies of both operands.

        The operands are copied because the last people of a row group do not fill whole vectors.
        """
        return left * products.row_stride(people) + products.copied_bytes(
            left, right, people, same=same
        )


@compiling.compiled
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
    for first in range(0, left.shape[1], _VNNI_RUN):
        steps = min(_VNNI_RUN, left.shape[1] - first) // VECTOR_BYTES
        for j in range(right.shape[0]):
            surplus[j] = _code_sum(right.ctypes.data + j * stride + first, steps) << np.int32(7)
        for panel in range(0, total.shape[1], _VNNI_PANEL_ROWS):
            stop = min(panel + _VNNI_PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], _VNNI_LEFT_ROWS):
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // _VNNI_RIGHT_ROWS * _VNNI_RIGHT_ROWS) if same else panel
                for j in range(start, stop, _VNNI_RIGHT_ROWS):
                    _tile(
                        unsigned.ctypes.data + i * stride + first,
                        right.ctypes.data + j * stride + first,
                        stride,
                        steps,
                        sums.ctypes.data,
                    )
                    for row in range(min(_VNNI_LEFT_ROWS, total.shape[0] - i)):
                        for column in range(min(_VNNI_RIGHT_ROWS, stop - j)):
                            found = sums[row * _VNNI_RIGHT_ROWS + column]
                            total[i + row, j + column] += found - surplus[j + column]


@compiling.emitted()
def _tile(
    builder: Builder, left: Value, right: Value, stride: Value, steps: Value, sums: Value
) -> None:
    """Multiply 6 rows of uint8 by 4 rows of int8: ``sums[6 x 4] = left @ right.T``.

    ``vpdpbusd`` multiplies 64 pairs and adds every four products to an int32 lane, modulo 2^32. The
    operands and the sums are addresses, `stride` is the number of bytes from one row of an operand
    to the next, and there is at least one step of 64 people.
    """
    multiply = compiling.function(builder, _VNNI_MULTIPLY, [V16] * 3, V16)

    def step(offset: Value, totals: list[Value]) -> list[Value]:
        """Add the products of 64 people to the sums of each row with each column."""
        columns = [load(builder, right, stride, j, offset) for j in range(_VNNI_RIGHT_ROWS)]
        rows = (load(builder, left, stride, i, offset) for i in range(_VNNI_LEFT_ROWS))
        pairs = [(row, column) for row in rows for column in columns]
        calls = zip(totals, pairs, strict=True)
        return [builder.call(multiply, [total, *pair]) for total, pair in calls]

    zeros = [ZERO] * (_VNNI_LEFT_ROWS * _VNNI_RIGHT_ROWS)
    _store_lane_sums(builder, loop(builder, steps, VECTOR_BYTES, zeros, step), sums)


@compiling.emitted()
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


@compiling.emitted("int32")
def _code_sum(builder: Builder, codes: Value, steps: Value) -> Value:
    """Return the int32 sum of ``64 * steps`` int8 values at an address."""
    multiply = compiling.function(builder, _VNNI_MULTIPLY, [V16] * 3, V16)
    add_lanes = compiling.function(builder, "llvm.vector.reduce.add.v16i32", [V16], I32)
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


# ---- AVX2 ----------------------------------------------------------------------------------------
#
# `vpmaddubsw` multiplies 32 unsigned bytes by 32 signed bytes, and adds each two products to an
# int16. A tile is the product of 6 left rows with 16 right rows along one run of people. A step
# multiplies 4 people: those of each left row, repeated over a vector, by those of 8 right rows. The
# right rows are packed in this order, so that each lane of a sum belongs to one right row.
#
# The int16 sums of a tile are added to int32 sums before they can overflow. After how many steps
# depends on the largest values of the rows, so a constant is subtracted from each row first: the
# least code of a left row, and the middle code of a right row. Codes of genotypes have small
# ranges, and most tiles add the products of several steps in int16. If fewer than two steps fit,
# the tile is computed for the upper and for the lower four bits of the left rows, of which at least
# eight fit.

_BYTES, _SHORTS, _AVX2_SUMS = (ir.VectorType(kind, 256 // kind.width) for kind in (I8, I16, I32))
_ONES = ir.Constant(_SHORTS, [1] * _SHORTS.count)
_STEP = 4  # people
# Twelve int16 sums, two vectors of right rows, one of a left row, and a product fill the sixteen
# registers. The left rows of a tile stay in the first-level cache for a run (12 of 32 KiB), and a
# panel of right rows in the second-level cache (256 KiB).
_AVX2_LEFT_ROWS, _AVX2_RIGHT_ROWS = 6, 16
_AVX2_RUN = 2048  # people
_STRIDE = products.row_stride(_AVX2_RUN)
_AVX2_PANEL_ROWS = 128
_LARGEST_PRODUCT = (2**15 - 1) // 2  # an int16 holds the sum of two
_HALF_BITS, _LARGEST_HALF = 4, 15
_BASE, _AVX2_SUM, _LARGEST = range(3)  # rows of a table of an operand's rows


class Avx2(ProductKernel):
    """Kernel for any int8 codes, with 32 products per instruction."""

    name = "avx2"
    needs = "a processor with AVX2"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return "avx2" in host_features()

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        height = whole_multiple(len(left), _AVX2_LEFT_ROWS)
        width = whole_multiple(len(right), _AVX2_RIGHT_ROWS)
        tables = [np.zeros((3, rows), dtype=np.int32) for rows in (height, width)]
        lowered, halves, centred = (
            products.whole_rows(products.spread_rows(rows, _AVX2_RUN))
            for rows in (height, 2 * _AVX2_LEFT_ROWS, _AVX2_RIGHT_ROWS)
        )
        packed = products.spread_rows(1, width * _AVX2_RUN)
        tile = products.spread_rows(1, _AVX2_LEFT_ROWS * VECTOR_BYTES).view(np.int32)
        sums = tile.reshape(_AVX2_LEFT_ROWS, -1)
        memory = lowered.view(np.uint8), halves.view(np.uint8), centred, packed, sums
        _add_products(total, left, right, (*memory, *tables), left is right)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of one run of both operands, of the tables of their rows, and of tiles.

        The last term is more than the halves of left rows, the right rows before they are packed,
        the sums and the alignment of arrays.
        """
        rows = whole_multiple(left, _AVX2_LEFT_ROWS) + whole_multiple(right, _AVX2_RIGHT_ROWS)
        rows += 3 * _AVX2_LEFT_ROWS + _AVX2_RIGHT_ROWS
        return rows * (_STRIDE + 3 * np.dtype(np.int32).itemsize)


@compiling.compiled
def _add_products(total: Any, left: Any, right: Any, memory: Any, same: Any) -> None:
    """Add ``left @ right.T``, with memory for both operands, sums, and tables of the rows.

    With ``left = l + b`` and ``right = r + c``, for the subtracted constants b and c of the rows,
    ``left @ right.T = l @ r.T + b sum(right) + c sum(l)``. The sums of rows after the last are not
    used.
    """
    lowered, halves, _, packed, sums, left_rows, right_rows = memory
    for first in range(0, left.shape[1], _AVX2_RUN):
        last = min(first + _AVX2_RUN, left.shape[1])
        _prepare(left[:, first:last], right[:, first:last], memory)
        steps = (last - first + _STEP - 1) // _STEP
        for panel in range(0, total.shape[1], _AVX2_PANEL_ROWS):
            stop = min(panel + _AVX2_PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], _AVX2_LEFT_ROWS):
                rows, halved = lowered[i : i + _AVX2_LEFT_ROWS], False
                largest = _largest(left_rows, i, _AVX2_LEFT_ROWS)
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // _AVX2_RIGHT_ROWS * _AVX2_RIGHT_ROWS) if same else panel
                for j in range(start, stop, _AVX2_RIGHT_ROWS):
                    columns = packed.ctypes.data + j * _AVX2_RUN
                    largest_right = _largest(right_rows, j, _AVX2_RIGHT_ROWS)
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


@compiling.inlined
def _prepare(left: Any, right: Any, memory: Any) -> None:
    """Subtract a constant from every row of one run, and pack the right rows.

    A row that both operands have is read once from the memory.
    """
    lowered, _, centred, packed, _, left_rows, right_rows = memory
    for row in range(max(left.shape[0], right.shape[0])):
        if row < left.shape[0]:
            _shift(left[row], False, lowered[row], left_rows[:, row])
        if row < right.shape[0]:
            within = row % _AVX2_RIGHT_ROWS
            _shift(right[row], True, centred[within], right_rows[:, row])
            if within == _AVX2_RIGHT_ROWS - 1 or row == right.shape[0] - 1:
                _pack(centred.ctypes.data, packed.ctypes.data + (row - within) * _AVX2_RUN)


@compiling.inlined
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
    row[_BASE], row[_AVX2_SUM] = base, total if middle else total - codes.shape[0] * base
    row[_LARGEST] = base - least if middle else largest - base


@compiling.inlined
def _largest(table: Any, first: Any, count: Any) -> Any:
    """Return the largest value of some rows, at least 1."""
    largest = 1
    for row in range(first, first + count):
        largest = max(largest, table[_LARGEST, row])
    return largest


@compiling.inlined
def _halve(rows: Any, halves: Any) -> None:
    """Store the upper four bits of the left rows of a tile, and then the lower four bits."""
    for row in range(_AVX2_LEFT_ROWS):
        source, upper, lower = rows[row], halves[row], halves[_AVX2_LEFT_ROWS + row]
        for person in range(source.shape[0]):
            upper[person] = source[person] >> _HALF_BITS
            lower[person] = source[person] & _LARGEST_HALF


@compiling.inlined
def _multiply_halves(halves: Any, right: Any, steps: Any, most: Any, sums: Any) -> None:
    """Multiply a tile by both halves of the bits of its left rows."""
    sums[:] = 0
    _add_tile(halves.ctypes.data, right, steps, most, sums.ctypes.data)
    for row in range(_AVX2_LEFT_ROWS):
        for column in range(_AVX2_RIGHT_ROWS):
            sums[row, column] <<= _HALF_BITS
    _add_tile(halves[_AVX2_LEFT_ROWS:].ctypes.data, right, steps, most, sums.ctypes.data)


@compiling.inlined
def _add_sums(sums: Any, left: Any, i: Any, right: Any, j: Any, total: Any) -> None:
    """Add the sums of a tile at row i and column j, and the terms of the subtracted constants."""
    columns = slice(j, j + _AVX2_RIGHT_ROWS)
    right_base, right_sum = right[_BASE, columns], right[_AVX2_SUM, columns]
    for row in range(min(_AVX2_LEFT_ROWS, total.shape[0] - i)):
        found, target = sums[row], total[i + row, columns]
        left_base, left_sum = left[_BASE, i + row], left[_AVX2_SUM, i + row]
        for column in range(target.shape[0]):
            constants = left_base * right_sum[column] + left_sum * right_base[column]
            target[column] += found[column] + constants


@compiling.emitted()
def _pack(builder: Builder, rows: Value, target: Value) -> None:
    """Store 4 bytes of each of 16 rows, then the next 4, and so on for a run of people."""

    def block(number: Value, _totals: list[Value]) -> list[Value]:
        """Store 64 bytes of each row."""
        offset = builder.mul(number, word(VECTOR_BYTES))
        vectors = [
            load(builder, rows, word(_STRIDE), row, offset) for row in range(_AVX2_RIGHT_ROWS)
        ]
        place = builder.add(target, builder.mul(offset, word(_AVX2_RIGHT_ROWS)))
        for step, vector in enumerate(interleaved(builder, vectors)):
            address = builder.add(place, word(step * VECTOR_BYTES))
            builder.store(vector, pointer(builder, address, vector.type), align=VECTOR_BYTES)
        return []

    loop(builder, word(_AVX2_RUN // VECTOR_BYTES), 1, [], block)


@compiling.emitted()
def _add_tile(
    builder: Builder, left: Value, right: Value, steps: Value, most: Value, sums: Value
) -> None:
    """Multiply 6 rows of uint8 by 16 rows of int8: ``sums[6 x 16] += left @ right.T``.

    The operands and the sums are addresses. The products of `most` steps, at least 2, do not
    overflow an int16. There is at least one step; the left bytes after the last are zero, and those
    of one further step are multiplied if a group has a single step.
    """
    add_pairs = compiling.function(builder, "llvm.x86.avx2.pmadd.wd", [_SHORTS] * 2, _AVX2_SUMS)

    def step(_number: Value, state: list[Value]) -> list[Value]:
        """Add the products of one step to the int16 sums."""
        *shorts, rows, columns = state
        *added, rows, columns = _products(builder, rows, columns)
        return [*map(builder.add, shorts, added), rows, columns]

    def group(_number: Value, state: list[Value]) -> list[Value]:
        """Add the products of `most` steps, or of those that are left, to the int32 sums."""
        rows, columns, rest = state
        count = builder.select(builder.icmp_signed("<", rest, most), rest, most)
        begun, others = _products(builder, rows, columns), builder.sub(count, word(1))
        *shorts, rows, columns = loop(builder, others, 1, begun, step, unrolled=False)
        # Without this, LLVM moves the int32 sums to the stack, which is not aligned to vectors.
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
        for number, short in enumerate(shorts):
            address = builder.add(sums, word(number * _AVX2_SUMS.count * 4))
            place = pointer(builder, address, _AVX2_SUMS)
            pairs = builder.call(add_pairs, [short, _ONES])
            builder.store(builder.add(builder.load(place), pairs), place)
        return [rows, columns, builder.sub(rest, most)]

    groups = builder.sdiv(builder.add(steps, builder.sub(most, word(1))), most)
    loop(builder, groups, 1, [left, right, steps], group)


def _products(builder: Builder, rows: Value, columns: Value) -> list[Value]:
    """Return the products of one step as vectors of int16, and both addresses of the next step."""
    multiply = compiling.function(builder, "llvm.x86.avx2.pmadd.ub.sw", [_BYTES] * 2, _SHORTS)
    undefined = ir.Constant(_AVX2_SUMS, ir.Undefined)
    first_lane = ir.Constant(_AVX2_SUMS, [0] * _AVX2_SUMS.count)
    vectors = [load(builder, columns, word(32), half, word(0), _BYTES) for half in range(2)]
    found = []
    for row in range(_AVX2_LEFT_ROWS):
        people = load(builder, rows, word(_STRIDE), row, word(0), I32)
        lane = builder.insert_element(undefined, people, ir.Constant(I32, 0))
        repeated = builder.bitcast(builder.shuffle_vector(lane, undefined, first_lane), _BYTES)
        found += [builder.call(multiply, [repeated, vector]) for vector in vectors]
    ends = builder.add(rows, word(_STEP)), builder.add(columns, word(_STEP * _AVX2_RIGHT_ROWS))
    return [*found, *ends]
