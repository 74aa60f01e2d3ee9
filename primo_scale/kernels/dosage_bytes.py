"""Compiled passes over dosages of allele A1, one byte for each sample, variant-major.

A byte t from 0 to 254 stands for ``t / 127`` copies of A1, so that 0, 1 and 2 copies are exact, and
255 for a missing genotype. The functions have the signatures of those of `kernels.packed`, and take
the same table of codes: that of a dosage is ``round(k t / 127) - m``, where the codes of 0, 1 and 2
copies are ``-m``, ``k - m`` and ``2k - m``. No dosage lies halfway between two codes, as 127 is
odd.

Every kernel releases the GIL. The arithmetic has no branches, so that the compiler vectorises it:
on AVX-512 it takes 0.4 of the time of a look-up in a table of 256 codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.kernels import compiling, packed, products

DosageBytes = npt.NDArray[np.uint8]
"""Dosages, shape (v, n) for v variants and n samples."""

STEPS = 127
"""Steps of one copy."""
MISSING_BYTE = 255
_ROWS_WITHIN_INT32 = 1 << 16  # squares of codes are at most 2^14
UNITS = 1 << 14
"""Units of one copy in plink2's dosages."""

i32 = np.int32
# floor(x / 127) is x * _RECIPROCAL >> _SHIFT for all x up to 127 * 254 + 63, within int32.
_RECIPROCAL, _SHIFT, _HALF = i32(33027), i32(22), i32(STEPS // 2)


def decode_into(codes: products.Int8, dosages: DosageBytes, table: products.Int8) -> products.Int8:
    """Decode all samples into existing memory, and return the part written.

    The arguments are those of `kernels.packed.decode_into`.
    """
    written = codes[: len(dosages), : dosages.shape[1]]
    _decode(packed.read_only(dosages), packed.read_only(table), written)
    return written


def add_squared_norms(norms: products.Int64, dosages: DosageBytes, table: products.Int8) -> None:
    """Add the squared norm of every sample over these variants, in place."""
    for start in range(0, len(dosages), _ROWS_WITHIN_INT32):
        part = slice(start, start + _ROWS_WITHIN_INT32)
        sums = np.zeros(len(norms), dtype=np.int32)
        _add_squares(packed.read_only(dosages[part]), packed.read_only(table[part]), sums)
        norms += sums


def count_dosages(dosages: DosageBytes, n_samples: int) -> products.Int64:
    """Return how many samples have 2 copies, none known, between 0 and 2, and 0: int64 (v, 4)."""
    counts = np.empty((len(dosages), 4), dtype=np.int64)
    _count(packed.read_only(dosages[:, :n_samples]), counts)
    return counts


def select(dosages: DosageBytes, keep: npt.NDArray[np.intp]) -> DosageBytes:
    """Return the dosages of the samples at the positions `keep`, in that order."""
    return np.take(dosages, keep, axis=1)


def steps_or_missing(dosages: DosageBytes, n_samples: int) -> products.Int16:
    """Return the steps of each dosage, -1 where it is missing, int16 of shape (v, n_samples)."""
    steps = dosages[:, :n_samples].astype(np.int16)
    steps[steps == MISSING_BYTE] = -1
    return steps


@compiling.inlined
def byte_of_units(units: Any) -> Any:
    """Return the byte of a dosage in units of 1/16384 of a copy, or of a missing one (negative).

    It is the nearest step, and of two equally near ones that nearer to one copy, so that counting
    the other allele gives ``254 - t``.
    """
    step = (STEPS * units + UNITS // 2 - (units > UNITS)) >> 14
    return np.uint8(step if units >= 0 else MISSING_BYTE)


@compiling.inlined
def _code(byte: Any, k: Any, m: Any, missing: Any) -> Any:
    step = i32(i32(i32(i32(byte) * k + _HALF) * _RECIPROCAL) >> _SHIFT)
    return i32(step - m) if byte != MISSING_BYTE else missing


@compiling.compiled
def _decode(dosages: Any, table: Any, codes: Any) -> None:
    for v in range(dosages.shape[0]):
        k, m, missing = i32(table[v, 2]) - i32(table[v, 3]), -i32(table[v, 3]), i32(table[v, 1])
        source, target = dosages[v], codes[v]
        for i in range(source.shape[0]):
            target[i] = np.int8(_code(source[i], i32(k), i32(m), missing))


@compiling.compiled
def _add_squares(dosages: Any, table: Any, sums: Any) -> None:
    for v in range(dosages.shape[0]):
        k, m, missing = i32(table[v, 2]) - i32(table[v, 3]), -i32(table[v, 3]), i32(table[v, 1])
        source = dosages[v]
        for i in range(sums.shape[0]):
            code = _code(source[i], i32(k), i32(m), missing)
            sums[i] += i32(code * code)


@compiling.compiled
def _count(dosages: Any, counts: Any) -> None:
    for v in range(dosages.shape[0]):
        both = missing = none = 0
        for byte in dosages[v]:
            both += byte == 2 * STEPS
            missing += byte == MISSING_BYTE
            none += byte == 0
        counts[v, 0], counts[v, 1], counts[v, 3] = both, missing, none
        counts[v, 2] = dosages.shape[1] - both - missing - none


@compiling.compiled
def bytes_of_copies(copies: Any, result: Any) -> Any:
    """Write the bytes of numbers of copies, missing if nan or negative, shape (v, n), to `result`.

    A number is first rounded to a multiple of 1/16384, as plink2 does when it imports dosages.
    Returns whether every number is at most 2.
    """
    possible: Any = True
    for v in range(copies.shape[0]):
        for i in range(copies.shape[1]):
            known = 0 <= copies[v, i] <= 3  # int64 has no infinity
            units = np.int64(copies[v, i] * UNITS + np.float64(0.5)) if known else np.int64(-1)
            possible &= units <= 2 * UNITS and not copies[v, i] > 3
            result[v, i] = byte_of_units(units)
    return possible
