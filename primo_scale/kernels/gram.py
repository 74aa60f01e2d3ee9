"""Exact integer products through floating-point BLAS.

A sum of integer products is exact in floating point as long as no partial sum can leave the
mantissa, whatever order BLAS adds in: 2^24 for float32, 2^53 for float64. Every function here
cuts the summed axis so that the bound holds, and adds the cuts in int64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]

_FLOAT32_EXACT = 2**24
_FLOAT64_EXACT = 2**53
# Below this many summed entries a call, float32 saves nothing over float64.
_SHORTEST_FLOAT32_RUN = 256
_CONVERSION_ENTRIES = 1 << 24


def add_gram(total: Int64, left: Int8, right: Int8, max_code: int) -> None:
    """Add ``left @ right.T`` to `total`, exactly.

    Parameters
    ----------
    total
        Shape (a, b), int64; changed in place.
    left, right
        Coded genotypes, shapes (a, r) and (b, r), int8. The same object for a diagonal tile,
        which lets BLAS use the symmetry.
    max_code
        Public bound on the absolute value of every code.
    """
    run = _FLOAT32_EXACT // max(1, max_code * max_code)
    kind: np.dtype[np.floating[Any]] = np.dtype(np.float32)
    if run < min(_SHORTEST_FLOAT32_RUN, left.shape[1]):
        run, kind = _FLOAT64_EXACT // (max_code * max_code), np.dtype(np.float64)
    run = min(run, max(1, _CONVERSION_ENTRIES // max(left.shape[0], right.shape[0])))
    for start in range(0, left.shape[1], run):
        first = left[:, start : start + run].astype(kind)
        # numpy hands a product of an array with its own transpose to SYRK: half the work.
        second = first if right is left else right[:, start : start + run].astype(kind)
        total += (first @ second.T).astype(np.int64)


def add_cross(total: Int64, genotypes: Int8, outcomes: Int16, max_code: int) -> None:
    """Add ``genotypes @ outcomes`` to `total`, exactly.

    Parameters
    ----------
    total
        Shape (a, q), int64; changed in place.
    genotypes
        Coded genotypes, shape (a, r), int8, at most `max_code` in absolute value.
    outcomes
        Lattice values, shape (r, q), int16.
    """
    run = _FLOAT64_EXACT // (max_code * 2**15)
    run = min(run, max(1, _CONVERSION_ENTRIES // max(genotypes.shape[0], outcomes.shape[1])))
    for start in range(0, genotypes.shape[1], run):
        stop = start + run
        product = genotypes[:, start:stop].astype(np.float64) @ outcomes[start:stop].astype(
            np.float64
        )
        total += product.astype(np.int64)


def outcome_gram(outcomes: Int16) -> Int64:
    """``outcomes.T @ outcomes`` for lattice values of shape (r, q), exactly, as int64 (q, q)."""
    total = np.zeros((outcomes.shape[1], outcomes.shape[1]), dtype=np.int64)
    run = min(_FLOAT64_EXACT // 2**30, max(1, _CONVERSION_ENTRIES // outcomes.shape[1]))
    for start in range(0, outcomes.shape[0], run):
        values = outcomes[start : start + run].astype(np.float64)
        total += (values.T @ values).astype(np.int64)
    return total
