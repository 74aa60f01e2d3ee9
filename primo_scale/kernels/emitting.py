"""Emission of LLVM instructions into kernels.

The module serves what Numba does not offer: `product_avx2`, `product_avx512` and `product_amx` use
instructions of one kind of processor, and `genotypes.bed` calls libc. Addresses are integers, since
Numba has no pointers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

LANES = 16
VECTOR_BYTES = 64

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
V16 = ir.VectorType(I32, LANES)
ZERO = ir.Constant(V16, [0] * LANES)
# Shuffle masks of two vectors with lanes 0-15 and 16-31: their first halves interleaved, and their
# second halves interleaved.
_HALVES = [
    ir.Constant(V16, [start + lane // 2 + lane % 2 * LANES for lane in range(LANES)])
    for start in (0, LANES // 2)
]

Builder = Any  # llvmlite has no types
Value = Any

EMITTERS: list[tuple[Callable[..., Any], str]] = []
"""Functions that emit instructions and Numba does not know yet, with the types of their results."""


def emitted(result: str = "void") -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a function of a builder callable from kernels of its module.

    The function gets the builder, and integers for addresses and counts. It emits instructions, and
    returns a value of the type `result`, by Numba's name.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        EMITTERS.append((emit, result))
        return _nothing

    return decorate


def _nothing(*_arguments: int) -> None:
    """Stand for emitted instructions where Numba does not compile (``NUMBA_DISABLE_JIT``)."""


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
    before, again, after = (
        builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    )  # fmt: skip
    builder.branch(again)
    builder.position_at_end(again)
    count = builder.phi(I64)
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
        branch.set_metadata("llvm.loop", _not_unrolled(builder))
    builder.position_at_end(after)
    return advanced


def _not_unrolled(builder: Builder) -> Value:
    """Return the metadata of a loop that is not unrolled, whose first operand is itself."""
    name = ir.MetaDataString(builder.module, "llvm.loop.unroll.disable")
    node = builder.module.add_metadata([builder.module.add_metadata([name])])
    node.operands = (node, *node.operands)
    return node


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


def pointer(builder: Builder, address: Value, kind: Any) -> Value:
    """Return an address as an LLVM pointer."""
    return builder.inttoptr(address, kind.as_pointer())


def function(builder: Builder, name: str, arguments: list[Any], result: Any = V16) -> Value:
    """Return LLVM's function for an instruction."""
    existing = builder.module.globals.get(name)
    return existing or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def word(value: int) -> Value:
    """Return a 64-bit constant."""
    return ir.Constant(I64, value)
