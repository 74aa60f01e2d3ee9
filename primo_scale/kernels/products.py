"""Exact products of int8 matrices, summed over people: the interface of kernels, and the sum.

A kernel adds ``left @ right.T`` to an int32 array modulo 2^32. The result is exact if the true sum
fits int32, even if intermediate values wrap. `ProductSum` moves the int32 sum to int64 before the
true sum could exceed int32. The result therefore does not depend on the kernel.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from primo_scale.ranges import whole_multiple

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


class ProductKernel(Protocol):
    """Interface of the kernels; `largest_code` bounds the magnitude of the codes on both sides."""

    name: str  # a value of ``--kernel``
    needs: str  # hardware and software that the kernel requires, for an error message

    def __init__(self, largest_code: int) -> None: ...

    def is_available(self) -> bool:
        """Return whether this machine can run the kernel."""

    def zeros(self, rows: int, columns: int) -> Any:
        """Return a zero sum, of a type that the kernel chooses."""

    def add(self, total: Any, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32, for shapes (rows, people) and (columns, people).

        There is at least one person. If both are the same object, the kernel may skip entries below
        the diagonal.
        """

    def read(self, total: Any) -> Int32:
        """Return the sum as an array, shape (rows, columns)."""

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return an upper bound on the memory that `add` and `read` need besides the sum, in bytes.

        `left` and `right` are the numbers of rows of the operands, which may be the same array.
        """


class ArraySums:
    """Base class of kernels whose sums are numpy arrays."""

    def __init__(self, largest_code: int) -> None:
        self._largest_code = largest_code

    def zeros(self, rows: int, columns: int) -> Int32:
        """Return a zero sum."""
        return np.zeros((rows, columns), dtype=np.int32)

    def read(self, total: Int32) -> Int32:
        """Return the sum as an array."""
        return total


class Float32(ArraySums):
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
            for start in range(0, people, self._most_people):
                part = slice(start, start + self._most_people)
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
