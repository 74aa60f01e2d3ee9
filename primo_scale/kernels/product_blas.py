"""Exact integer products through floating-point BLAS, on any processor.

A sum of integer products is exact in floating point, in any order of addition, if no partial sum
exceeds the mantissa: 2^24 for float32, 2^53 for float64. People are split so that the bound holds
and every part fits int32.
"""

from __future__ import annotations

import numpy as np

from primo_scale.kernels.products import LARGEST_INT32, ArraySums, Int8, Int32

_CONVERTED_ENTRIES = 1 << 23
# Buffer of OpenBLAS for every thread that multiplies (measured: 15 MiB).
_BLAS_BUFFER = 16 << 20


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
        run = self._run(len(left), len(right))
        for start in range(0, left.shape[1], run):
            first = left[:, start : start + run].astype(self.name)
            # numpy uses SYRK for an array times its own transpose, which halves the work.
            second = first if right is left else right[:, start : start + run].astype(self.name)
            total += (first @ second.T).astype(np.int32)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of converted operands, and of a product and its conversion to int32."""
        itemsize, product = np.dtype(self.name).itemsize, left * right
        piece = min(people, self._run(left, right)) * itemsize
        # The first operand of a run is converted while those of the previous run still exist.
        converted = (right if same else left + right) * piece
        integers = product * np.dtype(np.int32).itemsize
        return _BLAS_BUFFER + converted + max(left * piece, product * itemsize + integers)

    def _run(self, left: int, right: int) -> int:
        """Return the number of people whose products are summed in floating point."""
        exact = self.largest_sum // max(1, self._largest_code**2)
        return max(1, min(exact, _CONVERTED_ENTRIES // max(left, right)))


class Float64(Float32):
    """Kernel that multiplies in float64."""

    name = "float64"
    largest_sum = LARGEST_INT32
