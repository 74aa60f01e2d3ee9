"""Exact products of int8 matrices, and functions of one person's row in integers.

A kernel adds ``left @ right.T`` to an int32 array modulo 2^32. The result is exact if the true sum
fits int32, even if intermediate values wrap. `ProductSum` moves the int32 sum to int64 before the
true sum could exceed int32. The result therefore does not depend on the kernel.

Clipping is to an integer squared norm, without floating point. A row ``q`` with ``||q||^2 > N`` is
multiplied by ``r / 2^31``, where ``r = isqrt(floor(2^62 N / ||q||^2))``, and every entry is rounded
toward zero. Then

    ``sum_j floor(|q_j| r / 2^31)^2 <= ||q||^2 r^2 / 2^62 <= N``.

The inequality, on which the privacy guarantee depends, thus holds for every input, whatever the
compiler or the processor does with floats (docs/maths/planning.md, Theorem 1).

Output i of a linear map is ``clip(round(m_i (A x)_i / 2^24), -127, 127)`` for the codes x of a
person, an int8 matrix A and positive multipliers m. It is a function of one row and of public
numbers, so that it costs no privacy (docs/maths/weights.md, Theorem 1). Every step is exact,
so that the outputs do not depend on the kernel.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.compiling import compiled
from primo_scale.ranges import pieces, whole_multiple

Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

LARGEST_INT32 = 2**31 - 1
LARGEST_BYTE = 128
"""Largest magnitude of an int8."""
_SQUARE = 128  # side of a square whose transpose stays in the cache
_LINE = 64  # bytes of a cache line, and of the widest vector
_LARGEST_EXACT_FLOAT = 2**24  # largest integer below which float32 holds all
_CONVERTED_ENTRIES = 1 << 23
# Buffer of OpenBLAS for every thread that multiplies (measured: 15 MiB).
_BLAS_BUFFER = 16 << 20


class ProductKernel(ABC):
    """Kernel whose sums are numpy arrays, unless it overrides `zeros` and `read`.

    `largest_code` bounds the magnitude of the codes on both sides.
    """

    name: str  # a value of `kernel`
    needs: str  # hardware and software that the kernel requires, for an error message

    def __init__(self, largest_code: int) -> None:
        self._largest_code = largest_code

    @abstractmethod
    def is_available(self) -> bool:
        """Return whether this machine can run the kernel."""

    def zeros(self, rows: int, columns: int) -> Any:
        """Return a zero sum, of a type that the kernel chooses."""
        return np.zeros((rows, columns), dtype=np.int32)

    @abstractmethod
    def add(self, total: Any, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32, for shapes (rows, people) and (columns, people).

        There is at least one person. If both are the same object, the kernel may skip entries below
        the diagonal.
        """

    def read(self, total: Any) -> Int32:
        """Return the sum as an array, shape (rows, columns)."""
        return np.asarray(total, dtype=np.int32)

    @abstractmethod
    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return an upper bound on the memory that `add` and `read` need besides the sum, in bytes.

        `left` and `right` are the numbers of rows of the operands, which may be the same array.
        """


class Float32(ProductKernel):
    """Kernel that multiplies by BLAS in float32, on any processor.

    A sum of integer products is exact in floating point, in any order of addition, if no partial
    sum exceeds 2^24. The larger the codes can be, the fewer people a partial sum can hold exactly.
    """

    name = "float32"
    needs = "nothing"

    def is_available(self) -> bool:
        """Return True: every machine can run this kernel."""
        return True

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32."""
        run = self._run(len(left), len(right))
        for start in range(0, left.shape[1], run):
            first = left[:, start : start + run].astype(np.float32)
            # numpy uses SYRK for an array times its own transpose, which halves the work.
            second = first if right is left else right[:, start : start + run].astype(np.float32)
            total += (first @ second.T).astype(np.int32)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of converted operands, and of a product and its conversion to int32."""
        piece, product = 4 * min(people, self._run(left, right)), 4 * left * right
        # The first operand of a run is converted while those of the previous run still exist.
        converted = (right if same else left + right) * piece
        return _BLAS_BUFFER + converted + max(left * piece, 2 * product)

    def _run(self, left: int, right: int) -> int:
        """Return the number of people whose products are summed in floating point."""
        exact = _LARGEST_EXACT_FLOAT // max(1, self._largest_code**2)
        return max(1, min(exact, _CONVERTED_ENTRIES // max(left, right)))


class ProductSum:
    """Exact sum of ``left @ right.T`` over any number of people.

    `shape` has the numbers of rows of left and right, and `largest` bounds the magnitude of one
    person's contribution to an entry.
    """

    def __init__(self, kernel: ProductKernel, shape: tuple[int, int], largest: int) -> None:
        self._kernel, self._shape = kernel, shape
        self._most_people = LARGEST_INT32 // max(1, largest)
        self._narrow: Any = None
        self._people = 0
        self._wide: Int64 | None = None

    def add(self, left: Int8, right: Int8) -> None:
        """Add the people of one read. Pass the same object twice for a product with itself."""
        people = left.shape[1]
        if people == 0:
            return
        if people > self._most_people:
            for part in pieces(people, self._most_people):
                piece = left[:, part]
                self.add(piece, piece if right is left else right[:, part])
            return
        if self._people + people > self._most_people:
            self._widen()
        if self._narrow is None:
            self._narrow = self._kernel.zeros(*self._shape)
        self._kernel.add(self._narrow, left, right)
        self._people += people

    def total(self) -> Int32 | Int64:
        """Return the sum, as int32 if it was never moved to int64.

        If left and right were the same object, the lower triangle may be missing.
        """
        if self._wide is None and self._narrow is not None:
            return self._kernel.read(self._narrow)
        self._widen()
        return np.zeros(self._shape, dtype=np.int64) if self._wide is None else self._wide

    def _widen(self) -> None:
        if self._narrow is not None:
            found = self._kernel.read(self._narrow)
            if self._wide is None:
                self._wide = found.astype(np.int64)
            else:
                self._wide += found
        self._narrow, self._people = None, 0


def mirrored(upper: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy the upper triangle to the lower triangle, in place, and return the symmetric matrix."""
    for start in range(0, len(upper), _SQUARE):
        rows = slice(start, start + _SQUARE)
        on_diagonal = upper[rows, rows]
        on_diagonal[...] = np.triu(on_diagonal) + np.triu(on_diagonal, 1).T
        for right in range(start + _SQUARE, len(upper), _SQUARE):
            columns = slice(right, right + _SQUARE)
            upper[columns, rows] = upper[rows, columns].T
    return upper


def row_stride(people: int) -> int:
    """Return a row stride in bytes, in whole cache lines and not a power of two.

    Rows at a distance of a power of two compete for the same few sets of a cache.
    """
    return whole_multiple(people, _LINE) + _LINE


def copied_bytes(left: int, right: int, people: int, *, same: bool) -> int:
    """Return the bytes of copies of both operands, or of one copy if they are the same array."""
    return (right if same else left + right) * row_stride(people)


def spread_rows(rows: int, people: int) -> Int8:
    """Return an uninitialised int8 array of shape (rows, people), aligned, with `row_stride`."""
    stride = row_stride(people)
    memory = np.empty(rows * stride + _LINE, dtype=np.int8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + rows * stride].reshape(rows, stride)[:, :people]


def whole_vectors(codes: Int8, row_multiple: int = 1) -> Int8:
    """Return the array itself if it has whole vectors in the layout of `spread_rows`, else a copy.

    A copy is zero-padded to whole vectors, and its number of rows to a multiple of `row_multiple`.
    """
    rows, people = codes.shape
    height, width = whole_multiple(rows, row_multiple), whole_multiple(people, _LINE)
    if codes.shape == (height, width) and codes.strides == (row_stride(width), 1):
        return codes
    copy = spread_rows(height, width)
    copy[:rows, :people] = codes
    copy[rows:], copy[:rows, people:] = 0, 0
    return copy


def whole_rows(codes: Int8) -> Int8:
    """Return the rows of `spread_rows` with their padding, which makes them contiguous."""
    return np.lib.stride_tricks.as_strided(codes, (len(codes), codes.strides[0]))


def byte_planes(rows: Int16, n_low: int) -> Int8:
    """Split values z, shape (people, q), into signed bytes, shape (q + n_low, people).

    The planes of high bytes come first, then the low bytes of the first `n_low` columns, where
    ``z = 256 high + low + 128``. In the other columns ``z = 256 high``.
    """
    columns = np.ascontiguousarray(rows.T)
    low = (columns[:n_low] & 255) - 128
    return np.vstack([(columns >> 8).astype(np.int8), low.astype(np.int8)])


def with_ones(planes: Int8) -> Int8:
    """Return the planes and a row of ones, which `from_byte_planes` needs for the term 128."""
    rows, people = planes.shape
    result = spread_rows(rows + 1, people)
    result[:rows] = planes
    result[rows] = 1
    return result


def from_byte_planes(sums: npt.NDArray[np.signedinteger[Any]], q: int) -> Int64:
    """Return ``codes @ z``, shape (v, q), from codes times planes and ones, shape (v, planes)."""
    wide = sums.astype(np.int64)
    low, ones = wide[:, q:-1], wide[:, -1:]
    result = 256 * wide[:, :q]
    result[:, : low.shape[1]] += low + 128 * ones
    return result


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
_TRANSPOSED = 64  # side of a square that is transposed in the first-level cache


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
        for part in pieces(people, PEOPLE_MAPPED):
            here = rows[: part.stop - part.start]
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
    for column in range(0, people, _TRANSPOSED):
        for row in range(0, k, _TRANSPOSED):
            for i in range(column, min(column + _TRANSPOSED, people)):
                for j in range(row, min(row + _TRANSPOSED, k)):
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
