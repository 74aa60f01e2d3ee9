"""Exact integer products through floating-point BLAS, on any processor.

A sum of integer products is exact in floating point, in any order of addition, if no partial sum
exceeds the mantissa: 2^24 for float32, 2^53 for float64. People are split so that the bound holds
and every part fits int32.
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
    """Kernel that multiplies in one floating-point type.

    Parameters
    ----------
    kind : type of np.floating[Any]
        Floating-point type, float32 or float64.
    largest_code : int
        Bound on the magnitude of the codes on both sides. The larger it is, the fewer people a
        partial sum can hold exactly.
    """

    def __init__(self, kind: type[np.floating[Any]], largest_code: int) -> None:
        self._kind: np.dtype[np.floating[Any]] = np.dtype(kind)
        self.name = str(self._kind)
        self.needs = "nothing"
        self._run = EXACT_SUM[self._kind] // max(1, largest_code**2)

    def is_available(self) -> bool:
        """Return True: every machine can run this kernel."""
        return True

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32."""
        run = min(self._run, max(1, CONVERTED_ENTRIES // max(len(left), len(right))))
        for start in range(0, left.shape[1], run):
            first = left[:, start : start + run].astype(self._kind)
            # numpy uses SYRK for an array times its own transpose, which halves the work.
            second = first if right is left else right[:, start : start + run].astype(self._kind)
            total += (first @ second.T).astype(np.int32)
