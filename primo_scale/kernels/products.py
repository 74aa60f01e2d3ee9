"""Exact products of int8 matrices along people: one interface, and one way to sum them.

A kernel adds ``left @ right.T`` to an int32 array modulo 2^32. That is exact as long as the true
sum fits int32, whatever wraps on the way, so `ProductSum` moves the int32 sum to int64 before it
could stop fitting. Which kernel did the work can therefore not be seen in the result.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

LARGEST_INT32 = 2**31 - 1
LARGEST_BYTE = 128
"""Largest magnitude of an int8."""
_SQUARE = 128  # entries a side, whose transpose stays in the cache
_LINE = 64  # bytes of a cache line, and of the widest vector


class ProductKernel(Protocol):
    """One way to multiply.

    Attributes
    ----------
    name
        As ``--kernel`` calls it.
    needs
        What a machine must have to run it.
    """

    name: str
    needs: str

    def is_available(self) -> bool:
        """Whether this machine can run it."""

    def zeros(self, rows: int, columns: int) -> Any:
        """An empty sum, of whatever type the kernel adds to."""

    def add(self, total: Any, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32, for shapes (rows, people) and (columns, people).

        There is at least one person. If both are one object, entries below the diagonal may be
        left out.
        """

    def read(self, total: Any) -> Int32:
        """The sum as an array, shape (rows, columns)."""


class ArraySums:
    """The sums of a kernel that adds to numpy arrays."""

    def zeros(self, rows: int, columns: int) -> Int32:
        """An empty sum."""
        return np.zeros((rows, columns), dtype=np.int32)

    def read(self, total: Int32) -> Int32:
        """The sum as an array."""
        return total


class ProductSum:
    """``sum of left @ right.T`` over any number of people, exactly.

    Parameters
    ----------
    kernel
        Who multiplies.
    shape
        Rows of left and of right.
    largest
        Bound on the magnitude of what one person can add to one entry.
    """

    def __init__(self, kernel: ProductKernel, shape: tuple[int, int], largest: int) -> None:
        self._kernel, self._shape = kernel, shape
        self._most_people = LARGEST_INT32 // max(1, largest)
        self._narrow: Any = None
        self._people = 0
        self._wide: Int64 | None = None

    def add(self, left: Int8, right: Int8) -> None:
        """Add the people of one read; the same object twice for a product with itself."""
        people = left.shape[1]
        if people == 0:  # a read of which nobody was sampled
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
        """The sum so far, int32 if that was wide enough for it; lower triangles may be missing."""
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
    """The symmetric matrix with this upper triangle, in place."""
    for start in range(0, len(upper), _SQUARE):
        rows = slice(start, start + _SQUARE)
        on_diagonal = upper[rows, rows]
        on_diagonal[...] = np.triu(on_diagonal) + np.triu(on_diagonal, 1).T
        for right in range(start + _SQUARE, len(upper), _SQUARE):
            columns = slice(right, right + _SQUARE)
            upper[columns, rows] = upper[rows, columns].T
    return upper


def row_stride(people: int) -> int:
    """Bytes between rows that are whole cache lines and not a power of two apart.

    Rows a power of two apart compete for the same few places in a cache.
    """
    return -(-people // _LINE) * _LINE + _LINE


def spread_rows(rows: int, people: int) -> Int8:
    """Uninitialised int8 of shape (rows, people), aligned and `row_stride` apart."""
    stride = row_stride(people)
    memory = np.empty(rows * stride + _LINE, dtype=np.int8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + rows * stride].reshape(rows, stride)[:, :people]


def whole_vectors(codes: Int8, row_multiple: int = 1) -> Int8:
    """The same array where it is whole vectors of people in `spread_rows`, else a copy.

    Rows are made a multiple of `row_multiple`; whatever is added is zero.
    """
    rows, people = codes.shape
    height, width = -(-rows // row_multiple) * row_multiple, -(-people // _LINE) * _LINE
    if codes.shape == (height, width) and codes.strides == (row_stride(width), 1):
        return codes
    copy = spread_rows(height, width)
    copy[:rows, :people] = codes
    copy[rows:], copy[:rows, people:] = 0, 0
    return copy


def whole_rows(codes: Int8) -> Int8:
    """Rows of `spread_rows` with the room between them: contiguous, as compilers like it."""
    return np.lib.stride_tricks.as_strided(codes, (len(codes), codes.strides[0]))


def byte_planes(rows: Int16) -> Int8:
    """Split int16 into two signed bytes, people last: ``z = 256 high + low + 128``.

    Parameters
    ----------
    rows : ndarray of int16, shape (people, q)

    Returns
    -------
    ndarray of int8, shape (2 q, people)
        High bytes, then low bytes.
    """
    columns = np.ascontiguousarray(rows.T)
    return np.vstack([(columns >> 8).astype(np.int8), ((columns & 255) - 128).astype(np.int8)])


def with_ones(planes: Int8) -> Int8:
    """The planes and a row of ones, which `from_byte_planes` needs for the 128."""
    rows, people = planes.shape
    result = spread_rows(rows + 1, people)
    result[:rows] = planes
    result[rows] = 1
    return result


def from_byte_planes(sums: npt.NDArray[np.signedinteger[Any]]) -> Int64:
    """``codes @ z``, shape (v, q), from codes times planes and ones, shape (v, 2 q + 1)."""
    wide = sums.astype(np.int64)
    q = wide.shape[1] // 2
    return np.asarray(256 * wide[:, :q] + wide[:, q : 2 * q] + 128 * wide[:, 2 * q :])
