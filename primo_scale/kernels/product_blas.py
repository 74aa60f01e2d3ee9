"""Exact integer products through floating-point BLAS, on any processor.

A sum of integer products is exact in floating point, in any order of addition, if no partial sum
exceeds the mantissa: 2^24 for float32, 2^53 for float64. People are split so that the bound holds
and every part fits int32.
"""

from __future__ import annotations

import numpy as np

from primo_scale.kernels.products import LARGEST_INT32, ArraySums, Int8, Int32

CONVERTED_ENTRIES = 1 << 23


class Float32(ArraySums):
    """Kernel that multiplies in float32.

    The larger the codes can be, the fewer people a partial sum can hold exactly.
    """

    name = "float32"
    needs = "nothing"
    largest_sum = 2**24
    """Largest partial sum that is exact and fits int32."""

    def is_available(self) -> bool:
        """Return True: every machine can run this kernel."""
        return True

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32."""
        run = self.largest_sum // max(1, self._largest_code**2)
        run = min(run, max(1, CONVERTED_ENTRIES // max(len(left), len(right))))
        for start in range(0, left.shape[1], run):
            first = left[:, start : start + run].astype(self.name)
            # numpy uses SYRK for an array times its own transpose, which halves the work.
            second = first if right is left else right[:, start : start + run].astype(self.name)
            total += (first @ second.T).astype(np.int32)


class Float64(Float32):
    """Kernel that multiplies in float64."""

    name = "float64"
    largest_sum = LARGEST_INT32
