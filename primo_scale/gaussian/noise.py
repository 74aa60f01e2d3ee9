"""Gaussian noise on integers, from a keystream that its key reproduces (docs/maths/noise.md).

A Gaussian on the lattice ``2^-k Z``, with at least 2^32 lattice steps per standard deviation, is
added to every entry, and the sum is rounded to an integer. Up to a difference that the margin of
the calibration covers (Theorem 13), this is post-processing of the ideal Gaussian
mechanism. No floating-point number is added to the data, which prevents attacks on low-order bits.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from decimal import Context, Decimal
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy import uint64 as u64

from primo_scale.errors import UsageError
from primo_scale.kernels.compiling import compiled, inlined
from primo_scale.machine import in_threads, usable_cpus

Integers = npt.NDArray[np.int64]

# Largest sigma for which 24 standard deviations, which no draw exceeds, fit in 64 bits.
LARGEST_FINE_SIGMA = 2.0**58
SMALLEST_SIGMA = 2.0**-20
_STEPS_PER_SIGMA_BITS = 32


def fine_bits(sigma: float) -> int:
    """Return the smallest k >= 0 of a lattice ``2^-k Z`` with ``sigma 2^k >= 2^32``."""
    return max(0, _STEPS_PER_SIGMA_BITS + 1 - math.frexp(sigma)[1])


def off_diagonal_sigma(sigma: float) -> float:
    """Return the off-diagonal scale of svec noise with `sigma` on the diagonal, rounded up.

    With ``sigma / sqrt(2)`` off the diagonal, the noise is that of the symmetrised matrix
    ``(E + E') / 2``, and the sensitivity is the Frobenius norm.
    """
    return math.nextafter(sigma / math.sqrt(2), math.inf)


def check_sigma(sigma: float, *, remedy: str, where: str | None = None) -> None:
    """Refuse a standard deviation, in lattice units, that is not between 2^-20 and 2^58.

    `where` is the option that asks for the noise, if it is one.
    """
    if not SMALLEST_SIGMA <= sigma <= LARGEST_FINE_SIGMA:
        raise UsageError(
            "the noise scale cannot be sampled exactly",
            where=where,
            value=sigma,
            limit=f"{SMALLEST_SIGMA:g} to {LARGEST_FINE_SIGMA:g}",
            remedy=remedy,
        )


def lattice_noise(
    size: int, sigma: float, *, bits: int | None = None, source: KeystreamNoise, label: str
) -> Integers:
    """Return `size` independent draws whose sum with an integer is the rounded Gaussian mechanism.

    `sigma`, in lattice units of the statistic, is used exactly as given. `bits` is the exponent k
    of the lattice ``2^-k Z``, by default `fine_bits(sigma)`. `label` names the statistic; a
    keystream draws each label once. A `sigma` that is not between 2^-20 and 2^58, and a label that
    was used before, raise a UsageError.
    """
    check_sigma(sigma, remedy="Change the public bounds or the scale of the lattice")
    bits = fine_bits(sigma) if bits is None else bits
    return rounded_shift(source.draw(label, size, math.ldexp(sigma, bits)), bits)


def rounded_shift(fine: Integers, bits: int) -> Integers:
    """Return ``fine / 2^bits`` rounded to the nearest integer, ties upward."""
    return fine if bits == 0 else (fine + (1 << (bits - 1))) >> bits


def add_lattice_noise(
    values: Integers, sigma: float, *, source: KeystreamNoise, label: str, bits: int | None = None
) -> Integers:
    """Add independent noise to every entry of an integer array of any shape."""
    noise = lattice_noise(values.size, sigma, bits=bits, source=source, label=label)
    return values + noise.reshape(values.shape)


def add_symmetric_noise(
    gram: Integers, sigma: float, *, source: KeystreamNoise, label: str
) -> Integers:
    """Add symmetric noise to a symmetric integer matrix, shape (d, d).

    The standard deviation is `sigma` on the diagonal and `off_diagonal_sigma` off it; both are
    drawn on the lattice of the smaller one. The entries (j, k) and (k, j) share one draw.
    """
    size = len(gram)
    noisy = gram.copy()
    above_sigma = off_diagonal_sigma(sigma)
    draw = partial(lattice_noise, bits=fine_bits(above_sigma), source=source)
    noisy[np.diag_indices(size)] += draw(size, sigma, label=f"{label}, diagonal")
    above = draw(size * (size - 1) // 2, above_sigma, label=f"{label}, above the diagonal")
    start = 0
    for j in range(size - 1):
        stop = start + size - 1 - j
        noisy[j, j + 1 :] += above[start:stop]
        noisy[j + 1 :, j] = noisy[j, j + 1 :]
        start = stop
    return noisy


KEY_BYTES = 32
_DOMAIN = b"primo-scale Gaussian noise, 1"
_BLOCK_BYTES = 16
# Draws per chunk. Each chunk has its own key, because the advantage of distinguishing AES blocks,
# which are distinct, from random ones grows with the square of their number under one key. A chunk
# is also the unit of work of a thread, and it fits in a core's cache.
_CHUNK_DRAWS = 1 << 14
# Fewer draws use no threads: the pieces of small LD blocks are drawn side by side already.
_THREADED_DRAWS = 1 << 19
# Share and number of spare attempts: 0.62% are rejected, plus eight standard deviations.
_SPARE_SHARE, _SPARE_ATTEMPTS = 128, 64
# Extensions use the upper half of a chunk's counters: 9 blocks each, 16 blocks apart.
_EXTENSIONS_FROM, _EXTENSION_STRIDE = 1 << 127, 16


class KeystreamNoise:
    """Source of the noise of one release: independent Gaussian integers on the fine lattice.

    The same key, label, count and scale give the same draws on any machine and any number of cores.
    If any of them differs, the draws are independent.

    The key is a uniform secret of 32 bytes from `os.urandom`, used for one release only. A key of
    another length raises a UsageError.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError("a noise key has a fixed length", value=len(key), limit=KEY_BYTES)
        self._key = key
        self._drawn: set[str] = set()

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Draw ``scale * N(0, 1)`` rounded to the nearest integer, independently; shape (count,).

        Many draws are computed on every core that this process may use. The label names the
        statistic, block and part that the noise is for. The scale, from 2^32 to 2^58 lattice steps,
        is used exactly as given. A label that was used before, and a scale out of range, raise a
        UsageError.
        """
        if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise UsageError(
                "the noise scale cannot be sampled exactly",
                value=scale,
                limit=f"{SMALLEST_SCALE:g} to {LARGEST_SCALE:g} lattice steps",
            )
        if label in self._drawn:
            raise UsageError(
                "noise was already drawn for this label, and equal noise would cancel out",
                value=label,
                remedy="Give every statistic and block its own label",
            )
        self._drawn.add(label)
        noise = np.empty(count, dtype=np.int64)

        def fill(chunk: int) -> None:
            part = noise[chunk * _CHUNK_DRAWS : (chunk + 1) * _CHUNK_DRAWS]
            request = struct.pack("<QQd", chunk, count, scale) + label.encode()
            key = HKDFExpand(SHA256(), KEY_BYTES, _DOMAIN + request).derive(self._key)
            _fill_chunk(key, exact_scale(scale), part)

        chunks = range(-(-count // _CHUNK_DRAWS))
        if count < _THREADED_DRAWS:
            list(map(fill, chunks))
        else:
            in_threads(fill, chunks, usable_cpus())
        return noise


def keystream(key: bytes, first_block: int, size: int) -> bytes:
    """Return `size` bytes of AES-CTR keystream from a value of the 128-bit block counter on."""
    counter = CTR(first_block.to_bytes(_BLOCK_BYTES, "big"))
    return Cipher(AES(key), counter).encryptor().update(bytes(size))


def _fill_chunk(key: bytes, scale: Scale, noise: Integers) -> None:
    """Fill `noise` with the accepted attempts of the stream under `key`, in order."""
    n_done = n_attempts = 0
    while n_done < len(noise):
        missing = len(noise) - n_done
        batch = missing + missing // _SPARE_SHARE + _SPARE_ATTEMPTS
        batch += batch % 2  # two attempts are three blocks
        drawn = _accepted(key, scale, n_attempts, batch)[:missing]
        noise[n_done : n_done + len(drawn)] = drawn
        n_done += len(drawn)
        n_attempts += batch


def _accepted(key: bytes, scale: Scale, start: int, count: int) -> Integers:
    """Return the accepted values of attempts `start` (even) to ``start + count`` of a stream."""
    attempt_bytes = 8 * WORDS_PER_ATTEMPT
    stream = keystream(key, start * attempt_bytes // _BLOCK_BYTES, count * attempt_bytes)
    words = np.frombuffer(stream, dtype="<u8").reshape(count, WORDS_PER_ATTEMPT)
    values, verdicts = decide_from_prefixes(words, scale)
    accepted = verdicts == ACCEPTED
    for i in np.flatnonzero(verdicts == UNDECIDED):
        block = _EXTENSIONS_FROM + _EXTENSION_STRIDE * (start + int(i))
        extension = keystream(key, block, WORDS_PER_ATTEMPT * EXTENSION_BYTES)
        value = decide((int(words[i, 0]), int(words[i, 1]), int(words[i, 2])), extension, scale)
        if value is not None:
            values[i], accepted[i] = value, True
    drawn: Integers = values[accepted]
    return drawn


# ---- Attempts ------------------------------------------------------------------------------------
#
# One attempt to draw N ~ N(0, 1) has three steps. A bin of width 1/64 is chosen with probability
# proportional to the density at its inner edge. A position in the bin is chosen uniformly. The
# position is accepted with probability exp(-a), the ratio of the densities at the position and at
# the edge. An accepted position is Gaussian, and scale * N is rounded to an integer.
#
# `decide` evaluates an attempt with big integers. `decide_from_prefixes` is compiled and evaluates
# the leading 64 bits of three uniform random numbers of 448. It returns UNDECIDED for about one
# attempt in 25,000, where these bits do not suffice, so the two never disagree. Neither uses
# floating-point numbers (docs/maths/noise.md, Theorems 11 and 12).


WORDS_PER_ATTEMPT = 3
EXTENSION_BYTES = 48  # further bytes of each uniform number
REJECTED, ACCEPTED, UNDECIDED = 0, 1, 2

SMALLEST_SCALE = 2.0**32
LARGEST_SCALE = 2.0**58

# The proof in docs/maths/noise.md holds for these constants.
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


@cache
def bin_table() -> tuple[tuple[int, ...], npt.NDArray[u64], npt.NDArray[np.int64]]:
    """Return the cumulative probabilities C_j of the bins: thresholds, prefixes and guide.

    The thresholds are ``2^447 C_j`` rounded down for j = 0 to 1536; bin j is ``C_j <= U <
    C_(j+1)``. The prefixes are their leading 63 bits, shape (1537,). The guide has the bin of the
    smallest U with given leading 11 bits, shape (2048,). Computed once per process in about 0.1 s.
    """
    sums = [Decimal(0)]
    for bin_ in range(N_BINS):
        edge_density = _CONTEXT.exp(_CONTEXT.divide(-(bin_**2), 2 * BINS_PER_SIGMA**2))
        sums.append(_CONTEXT.add(sums[-1], edge_density))
    thresholds = tuple(_in_units(_CONTEXT.divide(s, sums[-1]), BIN_BITS) for s in sums)
    prefixes = np.array([t >> EXTENSION_BITS for t in thresholds], dtype=np.uint64)
    starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << u64(63 - _GUIDE_BITS)
    guide = np.searchsorted(prefixes, starts, side="right") - 1
    return thresholds, prefixes, guide.astype(np.int64)


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


# Multiplier in (2^52, 2^53] and shift, 1 to 27, of the standard deviation
# ``multiplier * 2^(6 - shift)``, exactly.
Scale = tuple[int, int]


def exact_scale(scale: float) -> Scale:
    """Return the exact decomposition of a float64 from 2^32 to 2^58."""
    exponent = math.frexp(math.nextafter(scale, 0))[1]
    return int(math.ldexp(scale, 53 - exponent)), 59 - exponent


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
    bin_ = bisect_right(bin_table()[0], first) - 1
    if third < keep_threshold(bin_, second):
        return None
    multiplier, shift = scale
    place = multiplier * ((bin_ << OFFSET_BITS) + second)
    # floor(V + 1/2): shift by one bit less, add 1, and shift by the last bit.
    magnitude = ((place >> (shift + OFFSET_BITS - 1)) + 1) >> 1
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
    _, prefixes, guide = bin_table()
    multiplier, shift = map(u64, scale)
    _decide(words, prefixes, guide, (multiplier, shift), values, verdicts)
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
