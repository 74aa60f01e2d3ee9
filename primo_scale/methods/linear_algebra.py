"""Eigenvectors of symmetric matrices and what noise does to them, for many LD blocks at a time.

LAPACK reduces a matrix to a tridiagonal one, whose eigenvectors Z take little time; those of the
matrix are V = Q Z, with a product Q of reflections. Only products of V with a few columns are
needed, and to reflect these takes far less time than to reflect all of Z, which is a third of a
whole decomposition.

SciPy holds the interpreter lock while LAPACK runs, minutes for an LD block of 20,000 variants, so
that the process cannot handle signals. ctypes releases the lock. LAPACK is the library that SciPy
installs and exports to Cython.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy
from threadpoolctl import threadpool_limits

from primo_scale.machine import usable_cpus
from primo_scale.storage.tiles import in_threads

Float64 = npt.NDArray[np.float64]

LARGEST_SIDE_BY_SIDE = 2048
"""Number of variants up to which LD blocks are solved side by side."""
FLOOR_SHARE = 0.3
"""Eigenvalues of a noisy Gram matrix below this share of the noise norm carry no information
(docs/maths/estimation.md, Theorem 4)."""

# LAPACK's ``dormqr`` keeps the factors of a block of reflections in so many numbers. The length of
# work that ``dormtr`` asks for leaves them out, and with a few columns every reflection is then
# applied alone, which takes several times as long.
_BLOCK_FACTORS = 65 * 64
_Result = TypeVar("_Result")
_Argument = bytes | int | float | Float64 | npt.NDArray[np.intc]


@dataclass(frozen=True, eq=False)
class Eigenvectors:
    """Eigenvectors in columns: V = Q Z, in ascending order of their eigenvalues."""

    tridiagonal: Float64  # Z, shape (d, d)
    # Vectors and factors of the reflections, shapes (d, d) and (d,); None stands for Q = I.
    reflections: tuple[Float64, Float64] | None

    def coordinates(self, columns: Float64) -> Float64:
        """Return V' times `columns`, shape (d, l)."""
        if self.reflections is not None:
            columns = _reflected(self.reflections, b"T", columns.copy(order="F"))
        return np.asarray(self.tridiagonal.T @ columns)

    def combinations(self, coefficients: Float64) -> Float64:
        """Return V times `coefficients`, shape (d, l)."""
        found = self.tridiagonal @ coefficients
        return found if self.reflections is None else _reflected(self.reflections, b"N", found)


def eigenvectors(symmetric: Float64, n_columns: int) -> tuple[Float64, Eigenvectors]:
    """Return the ascending eigenvalues and the eigenvectors, for products with `n_columns` columns.

    The matrix is overwritten if it is C-contiguous. LAPACK reads a matrix in C order as its
    transpose, which is the same matrix. Two matrices of its size are in memory; for a block of up
    to `LARGEST_SIDE_BY_SIDE` variants three.
    """
    matrix = np.ascontiguousarray(symmetric, dtype=np.float64)
    size = len(matrix)
    diagonal, beside, factors = np.empty(size), np.empty(size), np.empty(size)
    _call_with_work("dsytrd", b"L", size, matrix, size, diagonal, beside, factors)
    values, vectors = _eigenvectors_of_tridiagonal(diagonal, beside)
    reflections = matrix, factors
    if 2 * n_columns < size:
        return values, Eigenvectors(vectors, reflections)
    return values, Eigenvectors(_reflected(reflections, b"N", vectors), None)


def _eigenvectors_of_tridiagonal(diagonal: Float64, beside: Float64) -> tuple[Float64, Float64]:
    """Return the eigenvalues and eigenvectors of a tridiagonal matrix, which is kept.

    Divide and conquer (``dstedc``) takes half to nine tenths of the time of ``dstemr``, and a third
    matrix in memory, which large blocks do without. ``dstemr`` can fail, although no such matrix is
    known from practice.
    """
    size = len(diagonal)
    values, vectors = diagonal.copy(), np.empty((size, size), order="F")
    if size > LARGEST_SIDE_BY_SIDE:
        integers = [np.empty(length, dtype=np.intc) for length in (1, 2 * size, 1, 10 * size)]
        integers[2][0] = 1
        failure = _call(
            "dstemr", b"V", b"A", size, diagonal.copy(), beside.copy(), 0.0, 0.0, 0, 0, integers[0],
            values, vectors, size, size, integers[1], integers[2],
            np.empty(18 * size), 18 * size, integers[3], 10 * size,
        )  # fmt: skip
        if not failure:
            return values, vectors
        values = diagonal.copy()
    work, places = np.empty(1 + 4 * size + size**2), np.empty(3 + 5 * size, dtype=np.intc)
    matrices = values, beside.copy(), vectors, size
    if failure := _call("dstedc", b"I", size, *matrices, work, len(work), places, len(places)):
        raise np.linalg.LinAlgError(f"dstedc failed with {failure}")
    return values, vectors


def _reflected(
    reflections: tuple[Float64, Float64], transposed: bytes, columns: Float64
) -> Float64:
    """Return Q, or its transpose, times `columns`; a matrix in Fortran order is overwritten."""
    vectors, factors = reflections
    found = np.asfortranarray(columns)
    size, width = found.shape
    _call_with_work(
        "dormtr", b"L", b"L", transposed, size, width, vectors, size, factors, found, size
    )
    return found


def _call_with_work(name: str, *arguments: _Argument) -> None:
    """Call a routine of LAPACK whose last arguments are a work array, its length and the failure.

    Raises a LinAlgError if LAPACK fails.
    """
    work = np.empty(1)
    failure = _call(name, *arguments, work, -1)
    work = np.empty(int(work[0]) + _BLOCK_FACTORS)
    failure = failure or _call(name, *arguments, work, len(work))
    if failure:
        raise np.linalg.LinAlgError(f"{name} failed with {failure}")


def _call(name: str, *arguments: _Argument) -> int:
    """Call a routine of SciPy's LAPACK by pointers, and return its last argument, the failure."""
    failure = ctypes.c_int()
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = scipy.linalg.cython_lapack.__pyx_capi__[name]
    address = python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule))
    pointers = [*map(_pointer, arguments), ctypes.byref(failure)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(address)(*pointers)
    return failure.value


def _pointer(argument: _Argument) -> object:
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, int):
        return ctypes.byref(ctypes.c_int(argument))
    if isinstance(argument, float):
        return ctypes.byref(ctypes.c_double(argument))
    return argument.ctypes


def map_blocks(function: Callable[[int], _Result], sizes: Sequence[int]) -> list[_Result]:
    """Apply `function` to the number of each LD block, and return the results in order.

    `function` should release the interpreter lock: numpy.linalg does, and scipy.linalg does not.

    Small blocks are solved side by side, each on one BLAS thread. BLAS threads that share a small
    matrix wait for each other, and spin while they wait (docs/benchmarks.md). A large block has the
    memory and all CPUs for itself.
    """
    threads = usable_cpus()
    found: dict[int, _Result] = {}
    large = [block for block, size in enumerate(sizes) if size > LARGEST_SIDE_BY_SIDE]
    small = [block for block, size in enumerate(sizes) if size <= LARGEST_SIDE_BY_SIDE]
    for blocks, side_by_side in ((large, 1), (small, threads)):
        if not blocks:
            continue
        with threadpool_limits(threads // side_by_side, user_api="blas"):
            found |= zip(blocks, in_threads(function, blocks, side_by_side), strict=True)
    return [found[block] for block in range(len(sizes))]


def noise_norm(sigma: float, size: int) -> float:
    """Return a bound on the spectral norm of symmetric noise in the svec layout.

    ``P(norm > sigma (sqrt(2 size) + 3))`` is below 3% (docs/maths/estimation.md, Theorem 5).
    """
    return sigma * (float(np.sqrt(2 * size)) + 3)


def floored_at_zero(eigenvalues: Float64, rounding: float = 0.0) -> Float64:
    """Return a symmetric matrix' eigenvalues with negative and negligible values set to zero.

    `rounding` is the rounding error of the matrix itself, if it is the difference of larger ones.
    """
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = max(len(eigenvalues) * np.finfo(np.float64).eps * largest, rounding)
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def quotient(numerator: Float64, denominator: Float64) -> Float64:
    """Return ``numerator / denominator``, or 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator != 0)
