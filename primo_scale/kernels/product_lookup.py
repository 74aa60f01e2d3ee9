"""Exact products of codes -1, 0 and 1 by looking them up, on processors with AVX-512 VBMI.

Four codes of a row are one of 81 *digits*. What four codes of one row and four of another multiply
and add up to is therefore an entry of a table of 81 by 81, and one instruction finds the entries
of 64 columns: 256 products at a time, and one addition for all of them.
"""

from __future__ import annotations

import itertools
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from primo_scale.kernels.avx512 import (
    LOOKUP_FEATURES,
    LOOKUP_LEFT_ROWS,
    LOOKUP_VECTORS,
    TABLE_BYTES,
    lookup_64,
    lookup_128,
    lookup_192,
    lookup_256,
)
from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.processor import host_features
from primo_scale.kernels.products import ArraySums, Int8, Int32, row_stride, spread_rows, whole_rows

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]

_CODES_PER_DIGIT = 4
_WORD = 8  # digits in 64 bits
_VECTOR = 64
_PANEL = _VECTOR * LOOKUP_VECTORS
# Entries of a table are raised by this, so that none is negative.
_RAISE = _CODES_PER_DIGIT
# As many entries as add up to less than 256; and then as many of these as fit 16 bits, which is
# also what of a panel stays in the second-level cache.
_STEPS = 255 // (2 * _RAISE)
_RUN = _STEPS * 67

u16, u64 = np.uint16, np.uint64
_ONES, _THREES = u64(0x0101010101010101), u64(0x0303030303030303)


class Lookup(ArraySums):
    """Codes of -1, 0 and 1, which is what genotypes coded about 1 are: 256 products at a time."""

    name = "lookup"
    needs = "a processor with AVX-512 VBMI"
    largest_code = 1

    def is_available(self) -> bool:
        """Whether this processor has the instructions."""
        return host_features() >= LOOKUP_FEATURES

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T``; above the diagonal alone if they are one array."""
        same = left is right
        digits = _digits(left)
        panels = _panels(digits if same else _digits(right))
        _add_lookups(total, digits, panels, _TABLES, same)


def whole_panels(rows: int) -> int:
    """Rows of digits that are kept for so many rows: whole panels, and some that only pad."""
    return -(-rows // _PANEL) * _PANEL + LOOKUP_LEFT_ROWS


def _tables() -> UInt8:
    """Table after table, one for each digit on the left; aligned."""
    codes = np.array(list(itertools.product((-1, 0, 1), repeat=_CODES_PER_DIGIT)))[:, ::-1]
    memory = spread_rows(1, TABLE_BYTES**2)[0].view(np.uint8)
    tables: UInt8 = memory.reshape(TABLE_BYTES, TABLE_BYTES)
    tables[:] = 0
    tables[: len(codes), : len(codes)] = codes @ codes.T + _RAISE
    return tables


_TABLES = _tables()


def _digits(codes: Int8) -> UInt8:
    """The digits of every row: of people one, two and three quarters of the width apart.

    Returns
    -------
    ndarray of uint8, shape (whole panels of rows, a quarter of the people or a little more)
    """
    rows, people = codes.shape
    width = -(-people // (_CODES_PER_DIGIT * _WORD)) * _CODES_PER_DIGIT * _WORD
    if people != width or codes.strides != (row_stride(width), 1):
        copy = spread_rows(rows, width)
        copy[:, :people], copy[:, people:] = codes, 0
        codes = copy
    n_digits = width // _CODES_PER_DIGIT
    digits = whole_rows(spread_rows(whole_panels(rows), n_digits)).view(np.uint64)
    digits[rows:] = 0
    _write_digits(whole_rows(codes).view(np.uint64), n_digits // _WORD, digits)
    return digits.view(np.uint8)[:, :n_digits]


def _panels(digits: UInt8) -> UInt8:
    """The digits of 256 rows at a time, transposed.

    Returns
    -------
    ndarray of uint8, shape (panels, digits of a row, 256)
    """
    n_panels, width = len(digits) // _PANEL, digits.shape[1]
    memory = spread_rows(1, n_panels * width * _PANEL)[0].view(np.uint64)
    panels: UInt64 = memory.reshape(n_panels, width, _PANEL // _WORD)
    _transpose_digits(whole_rows(digits.view(np.int8)).view(np.uint64), panels)
    return panels.view(np.uint8)


@compiled
def _write_digits(codes: Any, width: Any, digits: Any) -> None:
    # Eight codes in each word. Codes are 255, 0, 1 as bytes; the sum of two is kept from carrying.
    for row in range(codes.shape[0]):
        source, target = codes[row], digits[row]
        for k in range(width):
            digit = u64(0)
            for quarter in range(_CODES_PER_DIGIT - 1, -1, -1):
                word = source[quarter * width + k]
                digit = digit * u64(3) + (((word & _THREES) + _ONES) & _THREES)
            target[k] = digit


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _exchange(first: Any, second: Any, shift: Any, mask: Any) -> None:
    """Swap what `mask` covers of `second` with what lies `shift` bits higher in `first`."""
    for k in range(first.shape[0]):
        swapped = ((first[k] >> shift) ^ second[k]) & mask
        second[k] ^= swapped
        first[k] ^= swapped << shift


@compiled
def _transpose_digits(digits: Any, panels: Any) -> None:
    # Squares of 8 x 8 bytes, for all words of eight rows at a time: halves, quarters, bytes.
    width = panels.shape[1] // _WORD
    square = np.empty((_WORD, width), dtype=np.uint64)
    for first in range(0, panels.shape[0] * _PANEL, _WORD):
        for row in range(_WORD):
            square[row] = digits[first + row, :width]
        for row in range(4):
            _exchange(square[row], square[row + 4], u64(32), u64(0x00000000FFFFFFFF))
        for row in (0, 1, 4, 5):
            _exchange(square[row], square[row + 2], u64(16), u64(0x0000FFFF0000FFFF))
        for row in (0, 2, 4, 6):
            _exchange(square[row], square[row + 1], u64(8), u64(0x00FF00FF00FF00FF))
        panel, place = first // _PANEL, first % _PANEL // _WORD
        for k in range(width):
            for row in range(_WORD):
                panels[panel, _WORD * k + row, place] = square[row, k]


@compiled
def _add_lookups(total: Any, left: Any, panels: Any, tables: Any, same: Any) -> None:
    width = panels.shape[1]
    sums = np.empty((LOOKUP_LEFT_ROWS, LOOKUP_VECTORS, 2, 32), dtype=np.uint16)
    found = np.empty(_PANEL, dtype=np.int32)
    for start in range(0, width, _RUN):
        stop = min(start + _RUN, width)
        for panel in range(panels.shape[0]):
            columns = min(_PANEL, total.shape[1] - panel * _PANEL)
            for i in range(0, total.shape[0], LOOKUP_LEFT_ROWS):
                # Vectors of columns that are all left of the diagonal.
                skipped = max(0, (i - panel * _PANEL) // _VECTOR) if same else 0
                vectors = -(-columns // _VECTOR) - skipped
                if vectors <= 0:
                    break
                sums[:] = 0
                for first in range(start, stop, _STEPS):
                    places = (
                        left.ctypes.data + i * left.strides[0] + first,
                        left.strides[0],
                        panels.ctypes.data + (panel * width + first) * _PANEL + skipped * _VECTOR,
                        min(_STEPS, stop - first),
                        tables.ctypes.data,
                        sums.ctypes.data + skipped * sums.strides[1],
                    )
                    _look_up(vectors, places)
                for row in range(min(LOOKUP_LEFT_ROWS, total.shape[0] - i)):
                    _take_apart(sums[row], (stop - start) * _RAISE, found)
                    target = total[i + row, panel * _PANEL :]
                    for column in range(skipped * _VECTOR, columns):
                        target[column] += found[column]


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _look_up(vectors: Any, places: Any) -> None:
    if vectors == 4:
        lookup_256(*places)
    elif vectors == 3:
        lookup_192(*places)
    elif vectors == 2:
        lookup_128(*places)
    else:
        lookup_64(*places)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _take_apart(sums: Any, surplus: Any, found: Any) -> None:
    """Separate the two neighbours in every sum, and take off what entries are raised by."""
    for vector in range(LOOKUP_VECTORS):
        for pair in range(32):
            second = sums[vector, 1, pair]
            first = u16(sums[vector, 0, pair] - u16(second << u16(8)))
            found[_VECTOR * vector + 2 * pair] = np.int32(first) - surplus
            found[_VECTOR * vector + 2 * pair + 1] = np.int32(second) - surplus
