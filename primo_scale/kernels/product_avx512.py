"""Exact int8 products on processors with AVX-512 VNNI and VPOPCNTDQ, compiled by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from primo_scale.kernels.avx512 import (
    BYTE_FEATURES,
    LEFT_ROWS,
    RIGHT_ROWS,
    SIGN_FEATURES,
    SIGN_LEFT_ROWS,
    SIGN_RIGHT_ROWS,
    SUMS,
    byte_tile,
    code_sum,
    sign_tile,
    store_signs,
    store_unsigned,
)
from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.processor import host_features
from primo_scale.kernels.products import ArraySums, Int8, Int32, spread_rows, whole_vectors

_VECTOR = 64
# A panel of right rows stays in the second-level cache (1 MiB or more a core) while all left
# rows pass by; longer runs of people spend less time on adding up lanes.
_RUN = 8192
_PANEL_ROWS = 120
_SIGN_PANEL_ROWS = 240
_MASK_PAIR_PEOPLE = 512


class Vnni(ArraySums):
    """Any int8 codes, 64 products an instruction."""

    name = "vnni"
    needs = "a processor with AVX-512 VNNI"
    largest_code = 128

    def is_available(self) -> bool:
        """Whether this processor has the instructions."""
        return host_features() >= BYTE_FEATURES

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T`` modulo 2^32; above the diagonal alone if they are one array."""
        same = left is right
        right = whole_vectors(right, RIGHT_ROWS)
        left = right if same else whole_vectors(left)
        unsigned = spread_rows(-(-len(left) // LEFT_ROWS) * LEFT_ROWS, left.shape[1])
        _add_byte_products(total, left, unsigned, right, same)


class Signs(ArraySums):
    """Codes of -1, 0 and 1, which is what genotypes coded about 1 are: 512 products at a time."""

    name = "signs"
    needs = "a processor with AVX-512 VPOPCNTDQ"
    largest_code = 1

    def is_available(self) -> bool:
        """Whether this processor has the instructions."""
        return host_features() >= SIGN_FEATURES

    def add(self, total: Int32, left: Int8, right: Int8) -> None:
        """Add ``left @ right.T``; above the diagonal alone if they are one array."""
        same = left is right
        right_masks = _masks(_whole_masks(right))
        left_masks = right_masks if same else _masks(_whole_masks(left))
        _add_sign_products(total, left_masks, right_masks, same)


def _whole_masks(codes: Int8) -> Int8:
    """The same array where it is whole masks and contiguous along people, else a copy."""
    rows, people = codes.shape
    width = -(-people // _MASK_PAIR_PEOPLE) * _MASK_PAIR_PEOPLE
    if people == width and codes.strides[1] == 1:
        return codes
    copy = spread_rows(rows, width)
    copy[:, :people], copy[:, people:] = codes, 0
    return copy


@compiled
def _add_byte_products(total: Any, left: Any, unsigned: Any, right: Any, same: Any) -> None:
    """Add ``left @ right.T``, of operands laid out alike and zero beyond their people.

    ``vpdpbusd`` wants one side unsigned: it gets ``left + 128``, and ``128 sum(right)`` is taken
    off again, modulo 2^32 as everything here.
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
                # Of a product with itself, only tiles that reach the diagonal or lie above it.
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


@compiled
def _masks(codes: Any) -> Any:
    """Two masks, not 0 and negative, for every 512 people of every row, and empty rows to spare."""
    rows, people = codes.shape
    spare = max(SIGN_LEFT_ROWS, SIGN_RIGHT_ROWS) - 1
    masks = np.empty((rows + spare, people // 4 + _VECTOR), dtype=np.uint8)  # no power of 2 apart
    masks[rows:] = 0
    for row in range(rows):
        source = codes.ctypes.data + row * codes.strides[0]
        target = masks.ctypes.data + row * masks.strides[0]
        for k in range(0, people, _VECTOR):
            place = target + k // _MASK_PAIR_PEOPLE * 2 * _VECTOR + k % _MASK_PAIR_PEOPLE // 8
            store_signs(source + k, place, place + _VECTOR)
    return masks


@compiled
def _add_sign_products(total: Any, left: Any, right: Any, same: Any) -> None:
    stride = right.strides[0]
    steps = (right.shape[1] - _VECTOR) // (2 * _VECTOR)
    sums = np.empty(SUMS, dtype=np.int32)
    for panel in range(0, total.shape[1], _SIGN_PANEL_ROWS):
        panel_stop = min(panel + _SIGN_PANEL_ROWS, total.shape[1])
        for i in range(0, total.shape[0], SIGN_LEFT_ROWS):
            if same and i >= panel_stop:
                break
            for j in range(panel, panel_stop, SIGN_RIGHT_ROWS):
                if same and j + SIGN_RIGHT_ROWS <= i:
                    continue
                sign_tile(
                    left.ctypes.data + i * stride,
                    right.ctypes.data + j * stride,
                    stride,
                    steps,
                    sums.ctypes.data,
                )
                for row in range(min(SIGN_LEFT_ROWS, total.shape[0] - i)):
                    for column in range(min(SIGN_RIGHT_ROWS, panel_stop - j)):
                        total[i + row, j + column] += sums[row * SIGN_RIGHT_ROWS + column]
