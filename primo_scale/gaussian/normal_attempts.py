"""Exact Gaussian draws by rejection, as decisions about three long uniform numbers.

One attempt at a draw of ``N ~ N(0, 1)``: a bin of width 1/64 is chosen with probability
proportional to the density at its inner edge, a place in the bin uniformly, and the place is kept
with probability ``exp(-a)``, the ratio of the densities there and at the edge. What is kept is
Gaussian; ``scale * N`` is then rounded to an integer.

`decide` takes these decisions with big integers, from uniform numbers of 448 bits.
`decide_from_prefixes` takes them, compiled, from the leading 64 bits where those settle them, and
says UNDECIDED where they do not (about once in 25,000), so the two never disagree. There is no
floating point in either:
the law is the rounded Gaussian's up to a total variation of 4e-119 (proof: docs/maths/sampler.md).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numpy import uint64 as u64

WORDS_PER_ATTEMPT = 3
EXTENSION_BYTES = 48  # of each word
REJECTED, ACCEPTED, UNDECIDED = 0, 1, 2

SMALLEST_SCALE = 2.0**32
LARGEST_SCALE = 2.0**58

# The proof in docs/maths/sampler.md needs every one of these to be what it is.
BINS_PER_SIGMA = 64
TAIL_SIGMAS = 24  # beyond lies 3e-127
N_BINS = TAIL_SIGMAS * BINS_PER_SIGMA
EXTENSION_BITS = 8 * EXTENSION_BYTES
OFFSET_BITS = 64 + EXTENSION_BITS
BIN_BITS = OFFSET_BITS - 1  # the lowest bit of the first word is the sign
_GUIDE_BITS = 11
_TAILS_AT = range(0, WORDS_PER_ATTEMPT * EXTENSION_BYTES, EXTENSION_BYTES)

# 2^448 has 135 digits, and Decimal's exp is correctly rounded: what is lost here is far less than
# what taking the integer part loses.
_CONTEXT = Context(prec=150)


@dataclass(frozen=True)
class BinTable:
    """Cumulative probabilities of the bins.

    Attributes
    ----------
    thresholds
        ``2^447 C_j`` rounded down for j = 0 to 1536; bin j is ``C_j <= U < C_(j+1)``.
    prefixes
        Their leading 63 bits: uint64, shape (1537,).
    guide
        The bin of the smallest U with given leading 11 bits: int64, shape (2048,).
    """

    thresholds: tuple[int, ...]
    prefixes: npt.NDArray[np.uint64]
    guide: npt.NDArray[np.int64]


@cache
def bin_table() -> BinTable:
    """Compute the table, once a process (about 0.1 s)."""
    sums = [Decimal(0)]
    for bin_ in range(N_BINS):
        edge_density = _CONTEXT.exp(_CONTEXT.divide(-(bin_**2), 2 * BINS_PER_SIGMA**2))
        sums.append(_CONTEXT.add(sums[-1], edge_density))
    thresholds = tuple(_in_units(_CONTEXT.divide(s, sums[-1]), BIN_BITS) for s in sums)
    prefixes = np.array([t >> EXTENSION_BITS for t in thresholds], dtype=np.uint64)
    starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << u64(63 - _GUIDE_BITS)
    guide = np.searchsorted(prefixes, starts, side="right") - 1
    return BinTable(thresholds, prefixes, guide.astype(np.int64))


def keep_threshold(bin_: int, offset: int) -> int:
    """``2^448 (1 - exp(-a))`` rounded up: a place is kept if the third uniform reaches it.

    With t = `offset` / 2^448, a is ``((bin + t)^2 - bin^2) / (2 * 64^2)``.
    """
    a = offset * ((bin_ << (OFFSET_BITS + 1)) + offset)
    unit = BINS_PER_SIGMA**2 << (2 * OFFSET_BITS + 1)
    kept = _CONTEXT.exp(_CONTEXT.divide(Decimal(-a), Decimal(unit)))
    return (1 << OFFSET_BITS) - _in_units(kept, OFFSET_BITS)


def _in_units(probability: Decimal, bits: int) -> int:
    return int(_CONTEXT.multiply(probability, 1 << bits))


@dataclass(frozen=True)
class Scale:
    """Standard deviation ``multiplier * 2^(6 - shift)``, exactly.

    Attributes
    ----------
    multiplier
        In (2^52, 2^53].
    shift
        In 1 to 27.
    """

    multiplier: int
    shift: int

    @classmethod
    def of(cls, scale: float) -> Scale:
        """Take a float64 from 2^32 to 2^58 apart."""
        exponent = math.frexp(math.nextafter(scale, 0))[1]
        return cls(int(math.ldexp(scale, 53 - exponent)), 59 - exponent)


def decide(words: tuple[int, int, int], extension: bytes, scale: Scale) -> int | None:
    """Take one attempt's decisions with big integers.

    Parameters
    ----------
    words
        Leading 64 bits of the uniform numbers that choose the bin (and sign), the place in it,
        and whether it is kept.
    extension
        The further 384 bits of each, 144 bytes, little-endian.
    scale
        Standard deviation.

    Returns
    -------
    int or None
        ``scale * N`` rounded to the nearest integer; None: rejected.
    """
    tails = [int.from_bytes(extension[i : i + EXTENSION_BYTES], "little") for i in _TAILS_AT]
    first, second, third = (
        (word << EXTENSION_BITS) | tail
        for word, tail in zip((words[0] >> 1, words[1], words[2]), tails, strict=True)
    )
    bin_ = bisect_right(bin_table().thresholds, first) - 1
    if third < keep_threshold(bin_, second):
        return None
    place = scale.multiplier * ((bin_ << OFFSET_BITS) + second)
    # Half a unit is added after a shift that is one short: floor(V + 1/2).
    magnitude = ((place >> (scale.shift + OFFSET_BITS - 1)) + 1) >> 1
    return -magnitude if words[0] & 1 else magnitude


def _kernel(function: Any) -> Any:
    return numba.njit(nogil=True, cache=True, boundscheck=False)(function)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _high_product(a: Any, b: Any) -> Any:
    """Upper 64 bits of the 128-bit product."""
    low32 = u64(0xFFFFFFFF)
    a1, a0 = a >> u64(32), a & low32
    b1, b0 = b >> u64(32), b & low32
    middle = a1 * b0 + ((a0 * b0) >> u64(32))
    other = a0 * b1 + (middle & low32)
    return a1 * b1 + (middle >> u64(32)) + (other >> u64(32))


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _exponent(bin_: Any, offset: Any) -> Any:
    """``2^64 a`` at an offset of at most 16 bits, in 1/2^16: exact."""
    return (offset * ((bin_ << u64(17)) + offset)) << u64(19)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _kept(bin_: Any, offset: Any, third: Any) -> Any:
    """Whether the place is kept, from ``a - a^2/2 < 1 - exp(-a) < a`` and the leading bits."""
    above = _exponent(bin_, (offset >> u64(48)) + u64(1))
    if third >= above:
        return ACCEPTED
    root = (above >> u64(32)) + u64(1)
    half_square = ((root * root) >> u64(1)) + u64(1)
    if third + half_square < _exponent(bin_, offset >> u64(48)):
        return REJECTED
    return UNDECIDED


@_kernel
def decide_from_prefixes(
    words: Any, prefixes: Any, guide: Any, multiplier: Any, shift: Any
) -> tuple[Any, Any]:
    """Take the decisions that the leading 64 bits settle.

    Parameters
    ----------
    words
        uint64, shape (attempts, 3); see `decide`.
    prefixes, guide
        Of `BinTable`.
    multiplier, shift
        uint64; `Scale`.

    Returns
    -------
    values
        int64, shape (attempts,): what was drawn, where it was accepted.
    verdicts
        uint8, shape (attempts,): REJECTED, ACCEPTED or UNDECIDED.
    """
    one = u64(1)
    values = np.empty(words.shape[0], dtype=np.int64)
    verdicts = np.empty(words.shape[0], dtype=np.uint8)
    for i in range(words.shape[0]):
        first, offset, third = words[i, 0] >> one, words[i, 1], words[i, 2]
        found = guide[first >> u64(63 - _GUIDE_BITS)]
        while prefixes[found + 1] <= first:
            found += 1
        bin_ = u64(found)
        verdict = _kept(bin_, offset, third)

        # scale |N| = (high + low / 2^64) / 2^shift, where less than multiplier may add to low.
        low = multiplier * offset
        high = multiplier * bin_ + _high_product(multiplier, offset)
        twice = high >> (shift - one)
        magnitude = np.int64((twice + one) >> one)
        may_carry = low + multiplier < low and (high + one) >> (shift - one) != twice
        at_threshold = first == prefixes[found] and found > 0
        values[i] = -magnitude if words[i, 0] & one else magnitude
        verdicts[i] = UNDECIDED if at_threshold or may_carry else verdict
    return values, verdicts
