"""Exact int8 products on processors with AVX-512 VNNI, compiled by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from primo_scale.kernels.avx512 import (
    BYTE_FEATURES,
    LEFT_ROWS,
    RIGHT_ROWS,
    SUMS,
    byte_tile,
    code_sum,
    store_unsigned,
)
from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.processor import host_features
from primo_scale.kernels.products import (
    ArraySums,
    Int8,
    Int32,
    copied_bytes,
    row_stride,
    spread_rows,
    whole_vectors,
)

_VECTOR = 64
# A panel of right rows stays in the second-level cache (1 MiB or more per core) during the loop
# over left rows. Longer runs of people spend less time on adding lanes.
_RUN = 8192
_PANEL_ROWS = 120


class Vnni(ArraySums):
    """Kernel for any int8 codes, with 64 products per instruction."""

    name = "vnni"
    needs = "a processor with AVX-512 VNNI"

    def is_available(self) -> bool:
        """Return whether this processor has the instructions."""
        return host_features() >= BYTE_FEATURES

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; only the upper triangle if both are one array."""
        same = left is right
        right = whole_vectors(right, RIGHT_ROWS)
        left = right if same else whole_vectors(left)
        unsigned = spread_rows(-(-len(left) // LEFT_ROWS) * LEFT_ROWS, left.shape[1])
        _add_byte_products(total, left, unsigned, right, same)

    def temporary_bytes(self, left: int, right: int, people: int, *, same: bool) -> int:
        """Return the memory of the unsigned left operand and copies of both operands.

        The operands are copied because the last people of a row group do not fill whole vectors.
        """
        return left * row_stride(people) + copied_bytes(left, right, people, same=same)


@compiled
def _add_byte_products(total: Any, left: Any, unsigned: Any, right: Any, same: Any) -> None:
    """Add ``left @ right.T`` for operands of the same layout, which are zero after the last person.

    ``vpdpbusd`` requires one unsigned operand: it gets ``left + 128``, and ``128 sum(right)`` is
    subtracted from the result. All arithmetic is modulo 2^32.
    """
    stride = right.strides[0]
    for i in range(left.shape[0]):
        source, target = left.ctypes.data + i * stride, unsigned.ctypes.data + i * stride
        store_unsigned(source, target, left.shape[1] // _VECTOR)
    sums = np.empty(SUMS, dtype=np.int32)
    surplus = np.empty(right.shape[0], dtype=np.int32)
    for first in range(0, left.shape[1], _RUN):
        steps = min(_RUN, left.shape[1] - first) // _VECTOR
        for j in range(right.shape[0]):
            surplus[j] = code_sum(right.ctypes.data + j * stride + first, steps) << np.int32(7)
        for panel in range(0, total.shape[1], _PANEL_ROWS):
            stop = min(panel + _PANEL_ROWS, total.shape[1])
            for i in range(0, total.shape[0], LEFT_ROWS):
                # For a product of an array with itself, only tiles on or above the diagonal.
                start = max(panel, i // RIGHT_ROWS * RIGHT_ROWS) if same else panel
                for j in range(start, stop, RIGHT_ROWS):
                    byte_tile(
                        unsigned.ctypes.data + i * stride + first,
                        right.ctypes.data + j * stride + first,
                        stride,
                        steps,
                        sums.ctypes.data,
                    )
                    for row in range(min(LEFT_ROWS, total.shape[0] - i)):
                        for column in range(min(RIGHT_ROWS, stop - j)):
                            found = sums[row * RIGHT_ROWS + column]
                            total[i + row, j + column] += found - surplus[j + column]
