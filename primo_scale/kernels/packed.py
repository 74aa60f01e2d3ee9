"""Compiled passes over packed genotypes in PLINK's bit layout, four per byte, variant-major.

A packed row holds one variant; its byte ``b`` holds samples ``4b .. 4b+3``, the first in the two
lowest bits. The raw values are those of the PLINK 1 .bed format: 0 homozygous A1, 1 missing,
2 heterozygous, 3 homozygous A2. Bits after the last sample are padding, which is ignored on reading
and zero on writing.

Every kernel releases the GIL. The arithmetic has no branches, so that the compiler vectorises it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.compiling import compiled, inlined
from primo_scale.kernels.products import Int8, Int64, spread_rows, whole_rows
from primo_scale.ranges import whole_multiple

PackedGenotypes = npt.NDArray[np.uint8]
"""Packed genotypes, shape (v, ceil(n / 4)) for v variants and n samples."""

MISSING = 1  # raw value of a missing genotype
GENOTYPES_PER_BYTE = 4

u32, u64 = np.uint32, np.uint64

_EACH_BYTE = u32(0x01010101)
_EACH_SHORT = u64(0x0001000100010001)
_LARGEST_SHORT = 2**16 - 1
_WORDS_PER_PASS = 256  # whose sums, 16 KiB, stay in the first-level cache


def packed_width(n_samples: int) -> int:
    """Return the number of bytes of one packed row."""
    return -(-n_samples // GENOTYPES_PER_BYTE)


def decode(packed: PackedGenotypes, table: Int8, n_samples: int) -> Int8:
    """Replace every raw genotype by its variant's code.

    `table` has the code of raw value 0, 1, 2, 3 for each variant, shape (v, 4). The codes, int8 of
    shape (v, n_samples), have the layout of `kernels.products.spread_rows`.
    """
    codes = spread_rows(len(packed), GENOTYPES_PER_BYTE * packed.shape[1])
    return decode_into(codes, packed, table)[:, :n_samples]


def decode_into(codes: Int8, packed: PackedGenotypes, table: Int8) -> Int8:
    """Decode all samples of whole bytes into existing memory, and return the part written.

    Allocating new memory takes several times longer than decoding. `codes` is from
    `kernels.products.spread_rows`, with at least as many rows and samples as `packed`.
    """
    n_variants, width = packed.shape
    written = codes[:n_variants, : GENOTYPES_PER_BYTE * width]
    words = whole_rows(written).view("<u4")
    _decode_words(read_only(packed), np.ascontiguousarray(table).view(np.uint8), words)
    return written


def add_squared_norms(norms: Int64, packed: PackedGenotypes, table: Int8) -> None:
    """Add the squared norm of every sample over these variants, without decoding them first.

    The sums in `norms`, shape (n,), change in place; `table` is that of `decode`.
    """
    squares = table.astype(np.int64) ** 2
    most = _LARGEST_SHORT // max(1, int(squares.max(initial=0)))
    words = _as_words(packed)
    sums = np.zeros((32, words.shape[1]), dtype=np.uint64)
    short = np.zeros((8, _WORDS_PER_PASS), dtype=np.uint64)
    _add_squares(words, squares.astype(np.uint64), most, short, sums)
    norms += sums.view(np.int64).T.ravel()[: len(norms)]


def count_genotypes(packed: PackedGenotypes, n_samples: int) -> Int64:
    """Return how many samples have each raw value in each variant, int64 of shape (v, 4).

    Column r is for raw value r, and every row sums to `n_samples`.
    """
    counts = np.empty((len(packed), 4), dtype=np.int64)
    _count(_as_words(packed), n_samples, counts)
    return counts


def repack(packed: PackedGenotypes, keep: npt.NDArray[np.intp]) -> PackedGenotypes:
    """Return the packed genotypes of the samples at the positions `keep`, in that order."""
    width = packed_width(len(keep))
    is_aligned = len(keep) > 0 and keep[0] % GENOTYPES_PER_BYTE == 0
    if is_aligned and np.all(np.diff(keep) == 1):
        first = int(keep[0]) // GENOTYPES_PER_BYTE
        result = packed[:, first : first + width].copy()
        if len(keep) % GENOTYPES_PER_BYTE:
            result[:, -1] &= (1 << 2 * (len(keep) % GENOTYPES_PER_BYTE)) - 1
        return result
    result = np.empty((len(packed), width), dtype=np.uint8)
    # Four consecutive samples are one byte or parts of two bytes, and are moved together.
    of_four, *others = keep[: len(keep) // 4 * 4].reshape(-1, 4).T
    runs = np.logical_and.reduce([other == of_four + k for k, other in enumerate(others, start=1)])
    # The byte of every position, and the place of its lowest bit in the byte.
    _repack(packed, keep >> 2, ((keep & 3) << 1).astype(np.uint32), runs, result)
    return result


def _as_words(packed: PackedGenotypes) -> npt.NDArray[np.uint64]:
    """Return 64-bit words of 32 samples, the first in the lowest bits, zero after the last."""
    if packed.shape[1] % 8:
        padded = np.zeros((len(packed), whole_multiple(packed.shape[1], 8)), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        packed = padded
    return read_only(np.ascontiguousarray(packed).view("<u8"))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view, so that Numba does not compile a version for writable arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


@compiled
def _decode_words(packed: Any, table: Any, words: Any) -> None:
    # One 32-bit word per packed byte: its four 2-bit fields are spread to four bytes, and the code
    # is the exclusive or of masked differences, which cannot carry from one byte to the next.
    # The casts prevent Numba from widening to 64 bits, which would halve the number of lanes.
    for v in range(packed.shape[0]):
        source, target = packed[v], words[v]
        t0, t1 = u32(table[v, 0]), u32(table[v, 1])
        t2, t3 = u32(table[v, 2]), u32(table[v, 3])
        base = u32(t0 * _EACH_BYTE)
        low_code = u32((t0 ^ t1) * _EACH_BYTE)
        high_code = u32((t0 ^ t2) * _EACH_BYTE)
        both_code = u32((t0 ^ t1 ^ t2 ^ t3) * _EACH_BYTE)
        for b in range(source.shape[0]):
            byte = u32(source[b])
            spread = u32(byte | u32(byte << u32(6)) | u32(byte << u32(12)) | u32(byte << u32(18)))
            low = u32(spread & _EACH_BYTE)
            high = u32(u32(spread >> u32(1)) & _EACH_BYTE)
            low = u32(u32(low << u32(8)) - low)  # 0x01 to 0xff in each byte, modulo 2**32
            high = u32(u32(high << u32(8)) - high)
            target[b] = u32(
                base ^ u32(low & low_code) ^ u32(high & high_code) ^ u32(low & high & both_code)
            )


@compiled
def _add_squares(words: Any, squares: Any, most: Any, short: Any, sums: Any) -> None:
    # Every eighth field of a word is added at a time, in 16 bits each of `short`, which hold the
    # squares of `most` variants. The exclusive or is that of _decode_words. All words have 64 bits,
    # because Numba widens narrower words to them, at a third of the speed.
    for first in range(0, words.shape[1], _WORDS_PER_PASS):
        last = min(first + _WORDS_PER_PASS, words.shape[1])
        for start in range(0, words.shape[0], most):
            for v in range(start, min(start + most, words.shape[0])):
                source = words[v, first:last]
                base = squares[v, 0] * _EACH_SHORT
                low_square = base ^ squares[v, 1] * _EACH_SHORT
                high_square = base ^ squares[v, 2] * _EACH_SHORT
                both_square = low_square ^ (squares[v, 2] ^ squares[v, 3]) * _EACH_SHORT
                for field in range(8):
                    target = short[field]
                    shift = u64(2 * field)
                    for w in range(source.shape[0]):
                        value = source[w] >> shift
                        low = value & _EACH_SHORT
                        high = (value >> u64(1)) & _EACH_SHORT
                        low = (low << u64(16)) - low  # 0x0001 to 0xffff in each, modulo 2**64
                        high = (high << u64(16)) - high
                        target[w] += (
                            base
                            ^ (low & low_square)
                            ^ (high & high_square)
                            ^ (low & high & both_square)
                        )
            for field in range(32):
                source = short[field % 8]
                target = sums[field, first:last]
                shift = u64(field // 8 * 16)
                for w in range(target.shape[0]):
                    target[w] += (source[w] >> shift) & u64(_LARGEST_SHORT)
            short[:] = 0


@compiled
def _count(words: Any, n_samples: Any, counts: Any) -> None:
    # Eight bytes at a time; the flags of one word are in the even bits, and `_ones` counts them.
    even = np.uint64(0x5555555555555555)
    whole = n_samples // 32
    last = (np.uint64(1) << np.uint64(2 * (n_samples % 32))) - np.uint64(1)
    for v in range(words.shape[0]):
        missing = het = hom2 = np.uint64(0)
        for w in range(words.shape[1]):
            word = words[v, w] if w < whole else words[v, w] & last
            low = word & even
            high = (word >> np.uint64(1)) & even
            missing += _ones(low & ~high)
            het += _ones(high & ~low)
            hom2 += _ones(low & high)
        counts[v, 0] = n_samples - missing - het - hom2
        counts[v, 1] = missing
        counts[v, 2] = het
        counts[v, 3] = hom2


@inlined
def _ones(flags: Any) -> Any:
    """Return the number of bits set in a word with bits only in even positions."""
    pairs = (flags + (flags >> np.uint64(2))) & np.uint64(0x3333333333333333)
    bytes_ = (pairs + (pairs >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bytes_ * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def pack_copies(copies: Any, result: Any) -> None:
    """Pack copies of A1, shape (v, n), negative where missing, into `result` (v, ceil(n / 4))."""
    n = copies.shape[1]
    for v in range(copies.shape[0]):
        row = copies[v]
        for b in range(n // 4):
            byte = u32(0)
            for k in range(4):
                byte |= _code(row[4 * b + k]) << u32(2 * k)
            result[v, b] = np.uint8(byte)
        if n % 4:
            byte = u32(0)
            for k in range(n % 4):
                byte |= _code(row[n // 4 * 4 + k]) << u32(2 * k)
            result[v, n // 4] = np.uint8(byte)


@inlined
def _code(copies: Any) -> Any:
    """Return the raw value of 0, 1 or 2 copies of A1, or of a missing genotype (negative)."""
    return u32((copies <= 0) | (u32((copies >= 0) & (copies < 2)) << u32(1)))


@compiled
def _repack(packed: Any, source: Any, shifts: Any, runs: Any, result: Any) -> None:
    whole, rest = source.shape[0] // 4, source.shape[0] % 4
    for v in range(packed.shape[0]):
        row = packed[v]
        for b in range(whole):
            k = 4 * b
            if runs[b]:
                # source[k + 3] is the byte of the run's last sample: the next one, or the same.
                pair = u32(row[source[k]]) | u32(row[source[k + 3]]) << u32(8)
                result[v, b] = np.uint8(pair >> shifts[k])
            else:
                result[v, b] = _gather(row, source, shifts, k, 4)
        if rest:
            result[v, whole] = _gather(row, source, shifts, 4 * whole, rest)


@inlined
def _gather(row: Any, source: Any, shifts: Any, start: Any, count: Any) -> Any:
    byte = u32(0)
    for k in range(count):
        value = (u32(row[source[start + k]]) >> shifts[start + k]) & u32(3)
        byte |= value << u32(2 * k)
    return np.uint8(byte)
