"""Genotypes of one variant of a BGEN file, as hard calls or dosages.

Both begin with the expected number of copies of the first allele, rounded to a multiple of 1/16384
as plink2 does. It is called as with ``plink2 --hard-call-threshold 0.1`` if it is within 0.1 of 0,
1 or 2, and is missing otherwise; or it is the dosage. Phase is ignored, and one copy of a haploid
person counts as two.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.compiling import compiled, inlined
from primo_scale.kernels.dosage_bytes import UNITS, byte_of_units

_THRESHOLD = UNITS // 10


class Block(NamedTuple):
    """Decompressed genotypes of one variant."""

    ploidy: npt.NDArray[np.uint8]  # with the flag of a missing genotype, shape (n,)
    phased: bool
    bits: int  # of one probability
    probabilities: npt.NDArray[np.uint8]


def copies_of_first(block: Block, sample: int) -> float:
    """Return the copies of the first allele in whole units, or nan if they are missing, slowly."""
    ploidy = int(block.ploidy[sample]) & 63
    if block.ploidy[sample] >> 7 or not ploidy:
        return math.nan
    before = int((block.ploidy[:sample] & 63).sum()) * block.bits
    first, last = before // 8, (before + ploidy * block.bits + 7) // 8
    number = int.from_bytes(block.probabilities[first:last].tobytes(), "little") >> before % 8
    most = (1 << block.bits) - 1
    one, two = number & most, number >> block.bits & most
    of_first = 2 * one if ploidy == 1 else one + two if block.phased else 2 * one + two
    return (2 * of_first * UNITS + most) // (2 * most) / UNITS


def hard_call(copies: float) -> float:
    """Return the nearest whole number, or nan if it is not within 0.1."""
    return next((call for call in (0.0, 1.0, 2.0) if abs(copies - call) <= 0.1), math.nan)


@compiled
def call_genotypes(block: Any, counts_first: Any, copies: Any) -> Any:
    """Write hard calls, and return -1, or the number of a malformed genotype.

    `counts_first` tells whether the first allele is counted, or the second.
    """
    ploidy, phased, bits, probabilities = block
    bits, place = np.int64(bits), np.int64(0)
    # The last sum of 0 copies, the first and last of 1, and the first of 2.
    cuts = (
        _largest_sum(bits, _THRESHOLD),
        _largest_sum(bits, UNITS - _THRESHOLD - 1) + 1,
        _largest_sum(bits, UNITS + _THRESHOLD),
        _largest_sum(bits, 2 * UNITS - _THRESHOLD - 1) + 1,
    )
    for i in range(ploidy.shape[0]):
        count = np.int64(ploidy[i] & 63)
        total = _expected_sum(probabilities, place, bits, count, phased)
        if total < 0:
            return i
        place += count * bits
        # Without branches, because the processor would predict most of them wrongly.
        called = np.int8(total >= cuts[1]) + np.int8(total >= cuts[3])
        known = (total <= cuts[0]) | ((total >= cuts[1]) & (total <= cuts[2])) | (total >= cuts[3])
        known &= (count > 0) & (ploidy[i] < 128)
        copies[i] = known * ((called if counts_first else 2 - called) + 1) - 1
    return -1


@compiled
def read_dosages(block: Any, counts_first: Any, dosages: Any) -> Any:
    """Write dosages as bytes, and return -1, or the number of a malformed genotype."""
    ploidy, phased, bits, probabilities = block
    bits, place = np.int64(bits), np.int64(0)
    most = (np.int64(1) << bits) - np.int64(1)
    for i in range(ploidy.shape[0]):
        count = np.int64(ploidy[i] & 63)
        total = _expected_sum(probabilities, place, bits, count, phased)
        if total < 0:
            return i
        place += count * bits
        units = (2 * total * UNITS + most) // (2 * most)
        units = units if counts_first else 2 * UNITS - units
        dosages[i] = byte_of_units(units if count > 0 and ploidy[i] < 128 else np.int64(-1))
    return -1


@inlined
def _largest_sum(bits: Any, units: Any) -> Any:
    """Return the largest `_expected_sum` that is rounded to at most this multiple of 1/16384."""
    most = (np.int64(1) << bits) - np.int64(1)
    return (most * (2 * units + 1) - 1) // (2 * UNITS)


@inlined
def _expected_sum(probabilities: Any, place: Any, bits: Any, count: Any, phased: Any) -> Any:
    """Return the expected copies times 2^bits - 1, where one copy counts as two.

    The probabilities of `count` copies begin at bit `place`. The result is -1 if they are
    impossible or incomplete, or the ploidy is above 2.
    """
    if count > 2 or place + count * bits > 8 * probabilities.shape[0]:
        return np.int64(-1)
    most = (np.int64(1) << bits) - np.int64(1)
    one = _value(probabilities, place, bits, most) if count > 0 else np.int64(0)
    two = _value(probabilities, place + bits, bits, most) if count > 1 else np.int64(0)
    if not phased and one + two > most:
        return np.int64(-1)
    return one + two if phased and count > 1 else 2 * one + two


@inlined
def _value(probabilities: Any, place: Any, bits: Any, most: Any) -> Any:
    """Return the number of `bits` bits that begins at bit `place`."""
    first = place >> 3
    if bits == 8:
        return np.int64(probabilities[first])
    number = np.int64(0)
    for k in range(((place & 7) + bits + 7) >> 3):
        number |= np.int64(probabilities[first + k]) << np.int64(8 * k)
    return (number >> (place & 7)) & most
