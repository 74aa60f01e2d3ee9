"""Exact Gaussian draws by rejection, decided by three uniform random numbers of 448 bits.

One attempt to draw ``N ~ N(0, 1)`` has three steps. A bin of width 1/64 is chosen with probability
proportional to the density at its inner edge. A position in the bin is chosen uniformly. The
position is accepted with probability ``exp(-a)``, the ratio of the densities at the position and at
the edge. An accepted position is Gaussian, and ``scale * N`` is rounded to an integer.

`decide` evaluates an attempt with big integers. `decide_from_prefixes` is compiled and evaluates
the leading 64 bits. It returns UNDECIDED for about one attempt in 25,000, where these bits do not
suffice, so the two functions never disagree. Neither uses floating-point numbers. The distribution
is that of the rounded Gaussian up to a total variation distance of 4e-119
(docs/maths/sampler.md, Theorems 2 and 3).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import uint64 as u64

from primo_scale.kernels.compiling import compiled, inlined

WORDS_PER_ATTEMPT = 3
EXTENSION_BYTES = 48  # further bytes of each uniform number
REJECTED, ACCEPTED, UNDECIDED = 0, 1, 2

SMALLEST_SCALE = 2.0**32
LARGEST_SCALE = 2.0**58

# The proof in docs/maths/sampler.md holds for these constants.
BINS_PER_SIGMA = 64
TAIL_SIGMAS = 24  # a Gaussian exceeds it with probability 3e-127
N_BINS = TAIL_SIGMAS * BINS_PER_SIGMA
EXTENSION_BITS = 8 * EXTENSION_BYTES
OFFSET_BITS = 64 + EXTENSION_BITS
BIN_BITS = OFFSET_BITS - 1  # the lowest bit of the first word is the sign
_GUIDE_BITS = 11
_TAILS_AT = range(0, WORDS_PER_ATTEMPT * EXTENSION_BYTES, EXTENSION_BYTES)

# 2^448 has 135 digits, and Decimal's exp is correctly rounded. Its error is far smaller than that
# of taking the integer part.
_CONTEXT = Context(prec=150)


@dataclass(frozen=True)
class BinTable:
    """Cumulative probabilities C_j of the bins."""

    # ``2^447 C_j`` rounded down for j = 0 to 1536; bin j is ``C_j <= U < C_(j+1)``.
    thresholds: tuple[int, ...]
    prefixes: npt.NDArray[np.uint64]  # leading 63 bits of the thresholds, shape (1537,)
    # Bin of the smallest U with given leading 11 bits, shape (2048,).
    guide: npt.NDArray[np.int64]


@cache
def bin_table() -> BinTable:
    """Return the table, which is computed once per process in about 0.1 s."""
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
    """Return ``2^448 (1 - exp(-a))`` rounded up, the smallest third uniform that is accepted.

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

    The multiplier is in (2^52, 2^53], the shift is 1 to 27.
    """

    multiplier: int
    shift: int

    @classmethod
    def of(cls, scale: float) -> Scale:
        """Return the exact decomposition of a float64 from 2^32 to 2^58."""
        exponent = math.frexp(math.nextafter(scale, 0))[1]
        return cls(int(math.ldexp(scale, 53 - exponent)), 59 - exponent)


def decide(words: tuple[int, int, int], extension: bytes, scale: Scale) -> int | None:
    """Evaluate one attempt with big integers.

    `words` are the leading 64 bits of the uniform numbers that choose the bin and the sign, the
    position in the bin, and whether it is accepted. `extension` is the further 384 bits of each
    number: 144 bytes, little-endian. The result is ``scale * N`` rounded to the nearest integer, or
    None if the attempt is rejected.
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
    # floor(V + 1/2): shift by one bit less, add 1, and shift by the last bit.
    magnitude = ((place >> (scale.shift + OFFSET_BITS - 1)) + 1) >> 1
    return -magnitude if words[0] & 1 else magnitude


@inlined
def _high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the 128-bit product."""
    low32 = u64(0xFFFFFFFF)
    a1, a0 = a >> u64(32), a & low32
    b1, b0 = b >> u64(32), b & low32
    middle = a1 * b0 + ((a0 * b0) >> u64(32))
    other = a0 * b1 + (middle & low32)
    return a1 * b1 + (middle >> u64(32)) + (other >> u64(32))


@inlined
def _exponent(bin_: Any, offset: Any) -> Any:
    """Return ``2^64 a`` exactly for an offset of at most 16 bits, in units of 2^-16."""
    return (offset * ((bin_ << u64(17)) + offset)) << u64(19)


@inlined
def _kept(bin_: Any, offset: Any, third: Any) -> Any:
    """Return the verdict by ``a - a^2/2 < 1 - exp(-a) < a`` and the leading bits."""
    above = _exponent(bin_, (offset >> u64(48)) + u64(1))
    if third >= above:
        return ACCEPTED
    root = (above >> u64(32)) + u64(1)
    half_square = ((root * root) >> u64(1)) + u64(1)
    if third + half_square < _exponent(bin_, offset >> u64(48)):
        return REJECTED
    return UNDECIDED


def decide_from_prefixes(
    words: npt.NDArray[u64], scale: Scale
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Evaluate attempts by their leading 64 bits, where these suffice.

    `words` are those of `decide`, shape (attempts, 3). The result is the drawn value where the
    verdict is ACCEPTED, shape (attempts,), and the verdicts REJECTED, ACCEPTED or UNDECIDED.
    """
    values = np.empty(len(words), dtype=np.int64)
    verdicts = np.empty(len(words), dtype=np.uint8)
    table = bin_table()
    multiplier, shift = u64(scale.multiplier), u64(scale.shift)
    _decide(words, table.prefixes, table.guide, (multiplier, shift), values, verdicts)
    return values, verdicts


@compiled
def _decide(words: Any, prefixes: Any, guide: Any, scale: Any, values: Any, verdicts: Any) -> None:
    multiplier, shift = scale
    one = u64(1)
    for i in range(words.shape[0]):
        first, offset, third = words[i, 0] >> one, words[i, 1], words[i, 2]
        found = guide[first >> u64(63 - _GUIDE_BITS)]
        while prefixes[found + 1] <= first:
            found += 1
        bin_ = u64(found)
        verdict = _kept(bin_, offset, third)

        # scale |N| = (high + low / 2^64) / 2^shift, where the further bits add less than multiplier
        # to low.
        low = multiplier * offset
        high = multiplier * bin_ + _high_product(multiplier, offset)
        twice = high >> (shift - one)
        magnitude = np.int64((twice + one) >> one)
        may_carry = low + multiplier < low and (high + one) >> (shift - one) != twice
        at_threshold = first == prefixes[found] and found > 0
        values[i] = -magnitude if words[i, 0] & one else magnitude
        verdicts[i] = UNDECIDED if at_threshold or may_carry else verdict
