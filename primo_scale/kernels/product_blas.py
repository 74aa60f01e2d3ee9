"""Exact integer products through floating-point BLAS, on any processor.

A sum of integer products is exact in floating point as long as no partial sum can leave the
mantissa, whatever order BLAS adds in: 2^24 for float32, 2^53 for float64. People are cut so that
the bound holds, and that every part fits int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from primo_scale.kernels.products import LARGEST_INT32, ArraySums, Int8, Int32

EXACT_SUM: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): 2**24,
    np.dtype(np.float64): LARGEST_INT32,
}
CONVERTED_ENTRIES = 1 << 23


class Blas(ArraySums):
    """Products in one floating-point type.

    Parameters
    ----------
    kind
        float32 or float64.
    largest_code
        Bound on the magnitude of the codes on both sides. The larger it is, the fewer people a
        partial sum can hold exactly.
    """

    def __init__(self, kind: type[np.floating[Any]], largest_code: int) -> None:
        self._kind: np.dtype[np.floating[Any]] = np.dtype(kind)
        self.name = str(self._kind)
        self.needs = "nothing"
        self._run = EXACT_SUM[self._kind] // max(1, largest_code**2)

    def is_available(self) -> bool:
        """Everywhere."""
        return True

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32."""
        run = min(self._run, max(1, CONVERTED_ENTRIES // max(len(left), len(right))))
        for start in range(0, left.shape[1], run):
            first = left[:, start : start + run].astype(self._kind)
            # numpy hands a product of an array with its own transpose to SYRK: half the work.
            second = first if right is left else right[:, start : start + run].astype(self._kind)
            total += (first @ second.T).astype(np.int32)
