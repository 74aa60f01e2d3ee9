"""Functions of one person's row in integers: clipping to a norm, and public linear maps.

Clipping is to an integer squared norm, without floating point. A row ``q`` with ``||q||^2 > N`` is
multiplied by ``r / 2^31``, where ``r = isqrt(floor(2^62 N / ||q||^2))``, and every entry is rounded
toward zero. Then

    ``sum_j floor(|q_j| r / 2^31)^2 <= ||q||^2 r^2 / 2^62 <= N``.

The inequality, on which the privacy guarantee depends, thus holds for every input, whatever the
compiler or the processor does with floats (docs/maths/clipping-and-integers.md, Theorem 1).

Output i of a linear map is ``clip(round(m_i (A x)_i / 2^24), -127, 127)`` for the codes x of a
person, an int8 matrix A and positive multipliers m. It is a function of one row and of public
numbers, so that it costs no privacy (docs/maths/ld-components.md, Theorem 1). Every step is exact,
so that the outputs do not depend on the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.products import (
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    ProductKernel,
    spread_rows,
)

u32 = np.uint32

_FRACTION_BITS = 31
_HALF, _LOW_HALF = 16, (1 << 16) - 1
_LARGEST = 2**15 - 1  # of int16

UNCLIPPED = 1 << _FRACTION_BITS
"""Multiplier of a row that is not clipped."""

_Entry = TypeVar("_Entry", np.int8, np.int16, np.int32)


def squared_norms(rows: npt.NDArray[np.signedinteger[Any]]) -> Int64:
    """Return the exact squared norm of every row of at most 32-bit integers."""
    # With dtype=, einsum converts in a small buffer instead of copying the whole tile to int64.
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.int64, casting="safe"))


def row_multipliers(norms: Int64 | Float64, limit: int | Int64) -> Int64:
    """Return the multipliers, in units of 2^-31, that reduce squared norms to at most `limit`.

    A multiplier is ``UNCLIPPED`` for a row within the limit, else ``isqrt(floor(2^62 limit /
    norm))``, which is smaller. A single limit may be an integer of any size, not negative. Norms
    are integers, of type float64 where they may exceed 64 bits.
    """
    limits = np.broadcast_to(np.array(limit, dtype=object), norms.shape)
    if np.min(limits, initial=0) < 0:
        raise ValueError(f"a squared norm cannot be limited to {limit}")
    multipliers = np.full(norms.shape, UNCLIPPED, dtype=np.int64)
    for person in np.flatnonzero(norms > limit):
        # Python integers: 2^62 limit / norm has no fixed width.
        scaled = int(limits[person]) << 2 * _FRACTION_BITS
        multipliers[person] = math.isqrt(scaled // int(norms[person]))
    return multipliers


def scale_entries(entries: npt.NDArray[_Entry], multipliers: Int64) -> npt.NDArray[_Entry]:
    """Multiply entries by ``multiplier / 2^31``, rounding toward zero.

    Entries have at most 32 bits and multipliers are in ``[0, 2^31]``, so that the product fits
    int64. Both are broadcast.
    """
    shape = np.broadcast_shapes(entries.shape, multipliers.shape)
    scaled = np.empty(shape, entries.dtype)
    _scale(np.broadcast_to(entries, shape), np.broadcast_to(multipliers, shape), scaled)
    return scaled


def clip_rows(rows: Int16, columns: slice, limit: int | Int64, step: int = 1) -> Int16:
    """Return rows, shape (people, columns), with some columns clipped together to a squared norm.

    The other columns are copied. `limit` is the largest squared norm, not negative, for all rows or
    for each. The clipped columns are rounded to multiples of `step`, a power of two, each row as
    near as its limit permits: to the nearest multiples within int16, or with a lower threshold for
    rounding away from zero. Rounding toward zero always fits.
    """
    clipped = rows.copy()
    part = clipped[:, columns]
    part[...] = scale_entries(part, row_multipliers(squared_norms(part), limit)[:, None])
    if step > 1:
        limits = np.full(len(rows), limit, dtype=np.int64)
        _round_rows(part, limits, step, np.empty(part.shape[1], dtype=np.int32))
    return clipped


@compiled
def _round_rows(rows: Any, limits: Any, step: Any, rounded: Any) -> None:
    for row in range(rows.shape[0]):
        for sixteenths in (8, 7, 6, 4, 0):  # of a step, added before rounding toward zero
            added = np.int32(step * sixteenths // 16)
            norm = np.int64(0)
            for column in range(rows.shape[1]):
                magnitude = min(abs(np.int32(rows[row, column])) + added, np.int32(_LARGEST))
                rounded[column] = magnitude & np.int32(-step)
                norm += np.int64(rounded[column]) * np.int64(rounded[column])
            if norm <= limits[row]:
                break
        for column in range(rows.shape[1]):
            rows[row, column] = rounded[column] if rows[row, column] >= 0 else -rounded[column]


@compiled
def _scale(entries: Any, multipliers: Any, scaled: Any) -> None:
    for row in range(entries.shape[0]):
        for column in range(entries.shape[1]):
            entry = np.int64(entries[row, column])
            # A shift rounds down, so applying it to the magnitude rounds toward zero.
            magnitude = (abs(entry) * multipliers[row, column]) >> _FRACTION_BITS
            scaled[row, column] = magnitude if entry >= 0 else -magnitude


def scale_columns(codes: Int8, multipliers: Int64) -> None:
    """Apply `scale_entries` to all columns of int8 codes, in place.

    One instruction scales several neighbours, `UNCLIPPED` ones among them. Scaling chosen columns
    one by one takes five times as long if half of them are chosen, and as long for a tenth.
    """
    halves = (multipliers >> _HALF, multipliers & _LOW_HALF)
    _scale_codes(codes, *(half.astype(np.uint32) for half in halves))


@compiled
def _scale_codes(codes: Any, high: Any, low: Any) -> None:
    # A multiplier is r = 2^16 high + low, and floor(q r / 2^31) is
    # floor((q high + floor(q low / 2^16)) / 2^15), within 32 bits. The casts prevent Numba from
    # widening to 64 bits, for which AVX2 has no multiplication.
    for row in range(codes.shape[0]):
        entries = codes[row]
        for column in range(entries.shape[0]):
            entry = np.int32(entries[column])
            magnitude = u32(abs(entry))
            carried = u32(u32(magnitude * low[column]) >> u32(_HALF))
            total = u32(u32(magnitude * high[column]) + carried)
            scaled = np.int32(total >> u32(_FRACTION_BITS - _HALF))
            entries[column] = scaled if entry >= 0 else -scaled


FRACTION_BITS = 24
LARGEST_OUTPUT = 127
PEOPLE_MAPPED = 1024
"""Number of people at a time, whose int32 outputs stay in a second-level cache."""
_SQUARE = 64  # side of a square that is transposed in the first-level cache


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Integer map from k inputs to m outputs."""

    matrix: Int8  # A, shape (m, k)
    multipliers: Int64  # m_i, from 0 to 2^31 - 1, shape (m,)

    @property
    def real(self) -> npt.NDArray[np.float64]:
        """Map without rounding and clipping, shape (m, k)."""
        scales = np.ldexp(self.multipliers.astype(np.float64), -FRACTION_BITS)
        return np.asarray(self.matrix.astype(np.float64) * scales[:, None])

    def apply_into(self, outputs: Int8, codes: Int8, kernel: ProductKernel) -> Int8:
        """Write the outputs of every person to `outputs`, shape (m, people), and return them.

        `codes` has the shape (k, people). A code and an entry of the matrix are at most 127, so
        that the sums fit int32 for k below 133,000. `kernel` is made for such codes.
        """
        for part, sums in self._sums(codes, kernel):
            _requantise(sums, self.multipliers, outputs[:, part])
        return outputs[:, : codes.shape[1]]

    def add_into(self, totals: Int64, codes: Int8, kernel: ProductKernel) -> None:
        """Add the outputs of every person, which are not clipped, to `totals`, (m, people)."""
        for part, sums in self._sums(codes, kernel):
            _add_requantised(sums, self.multipliers, totals[:, part])

    def _sums(self, codes: Int8, kernel: ProductKernel) -> Iterator[tuple[slice, Int32]]:
        """Yield ``A x`` of people, shape (m, part)."""
        m, people = len(self.matrix), codes.shape[1]
        rows = spread_rows(min(people, PEOPLE_MAPPED), len(codes))
        for start in range(0, people, PEOPLE_MAPPED):
            part = slice(start, min(start + PEOPLE_MAPPED, people))
            here = rows[: part.stop - start]
            _transpose(codes[:, part], here)
            total = kernel.zeros(m, len(here))
            kernel.add(total, self.matrix, here)
            yield part, kernel.read(total)


def add_squared_outputs(norms: Int64, outputs: Int8) -> None:
    """Add the squared norm of every person's outputs, shape (m, people), to `norms`."""
    sums = np.zeros(len(norms), dtype=np.int32)
    _add_squares(outputs, sums)  # at most 127^2 m, which fits for m below 133,000
    norms += sums


@compiled
def _add_squares(outputs: Int8, sums: Int32) -> None:
    for i in range(outputs.shape[0]):
        for j in range(outputs.shape[1]):
            value = np.int32(outputs[i, j])
            sums[j] += value * value


@compiled
def _transpose(codes: Int8, rows: Int8) -> None:
    k, people = codes.shape
    for column in range(0, people, _SQUARE):
        for row in range(0, k, _SQUARE):
            for i in range(column, min(column + _SQUARE, people)):
                for j in range(row, min(row + _SQUARE, k)):
                    rows[i, j] = codes[j, i]


@compiled
def _requantise(sums: Int32, multipliers: Int64, outputs: Int8) -> None:
    half = np.int64(1) << (FRACTION_BITS - 1)
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            value = (np.int64(sums[i, j]) * multipliers[i] + half) >> FRACTION_BITS
            outputs[i, j] = np.int8(min(max(value, -LARGEST_OUTPUT), LARGEST_OUTPUT))


@compiled
def _add_requantised(sums: Int32, multipliers: Int64, totals: Int64) -> None:
    half = np.int64(1) << (FRACTION_BITS - 1)
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            totals[i, j] += (np.int64(sums[i, j]) * multipliers[i] + half) >> FRACTION_BITS
