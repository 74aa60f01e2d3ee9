"""Random mixtures of people by public signs, and their exact sums, which are PRIVATE.

The k x n matrix of signs (Wu et al., Algorithm 2) is never held: the Philox generator is a function
of a key and a counter. The public seed is the key, and a person's position in the roster is the
counter, so that every party finds the same k signs of a person, in any order of the people and in
any number of pieces.

The kernels of an accumulation multiply bits of signs, 0 or 1, by signed bytes of the values. A sum
with signs is twice the sum with bits, less the sum over all people.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import LARGEST_BYTE, Int8, Int64, ProductSum
from primo_scale.machine import usable_cpus
from primo_scale.storage.tiles import in_threads

SEED_DIGITS = 32
_BITS_PER_COUNT = 256  # Philox gives four words of 64 bits for each value of its counter
_BYTES_OF_SIGNS = 128  # 1,024 mixtures of 8,192 people are 8 MiB when unpacked
_SIGNED_BYTES = 3  # of values up to 2^20


@dataclass(frozen=True)
class RandomSigns:
    """Signs of n people in k mixtures."""

    # Public seed that all parties use, 32 hexadecimal digits. The guarantee holds for every seed,
    # because it holds for every matrix of signs.
    seed: str
    n_mixtures: int  # k

    @property
    def n_bytes(self) -> int:
        """Number of bytes that hold the bits of a person."""
        return math.ceil(self.n_mixtures / 8)

    def packed(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Return the bits of people, eight mixtures in a byte, shape (`n_bytes`, people).

        The highest bit is the first mixture. A bit of 1 stands for the sign 1, and 0 for -1.
        `positions` are those of the people in the roster, int64 of shape (people,).
        """
        counts = math.ceil(self.n_mixtures / _BITS_PER_COUNT)
        words = np.empty((len(positions), 4 * counts), dtype="<u8")
        key = int(self.seed, 16)
        for row, position in zip(words, positions.tolist(), strict=True):
            row[:] = np.random.Philox(key=key, counter=position * counts).random_raw(4 * counts)
        return np.ascontiguousarray(words.view(np.uint8).T[: self.n_bytes])


class MixtureSums:
    """Sums of k mixtures of `n_columns` columns, to which people are added."""

    def __init__(self, signs: RandomSigns, n_columns: int) -> None:
        self._signs, self._of_everybody = signs, np.zeros(n_columns, dtype=np.int64)
        self._parts = [
            slice(start, start + _BYTES_OF_SIGNS)
            for start in range(0, signs.n_bytes, _BYTES_OF_SIGNS)
        ]
        kernel = choose_kernel("auto", LARGEST_BYTE)
        # One sum for each part of the mixtures and each place value.
        self._sums: dict[tuple[int, int], ProductSum] = defaultdict(
            lambda: ProductSum(kernel, (n_columns, 8 * _BYTES_OF_SIGNS), LARGEST_BYTE)
        )

    def add(self, positions: npt.NDArray[np.int64], units: Int64) -> None:
        """Add people of these positions in the roster, with units of shape (people, columns).

        Units are from -2^20 to 2^20.
        """
        if not len(positions):
            return
        self._of_everybody += units.sum(axis=0)
        packed, planes = self._signs.packed(positions), _signed_bytes(units)

        def add_part(number: int) -> None:
            bits = _unpacked(packed[self._parts[number]])
            for place, plane in planes.items():
                self._sums[number, place].add(plane, bits)

        in_threads(add_part, range(len(self._parts)), usable_cpus())

    def total(self) -> Int64:
        """Return the sums, int64 of shape (k, columns)."""
        shape = (8 * _BYTES_OF_SIGNS * len(self._parts), len(self._of_everybody))
        with_bits = np.zeros(shape, dtype=np.int64)
        for (number, place), found in self._sums.items():
            rows = slice(8 * _BYTES_OF_SIGNS * number, 8 * _BYTES_OF_SIGNS * (number + 1))
            with_bits[rows] += found.total().T.astype(np.int64) * place
        return 2 * with_bits[: self._signs.n_mixtures] - self._of_everybody


def _signed_bytes(units: Int64) -> dict[int, Int8]:
    """Return signed bytes of the units by place value, without those that are all zero.

    The sum of the place values times the bytes, of shape (columns, people), is ``units.T``.
    """
    rest, planes = np.ascontiguousarray(units.T), {}
    for power in range(_SIGNED_BYTES):
        digit = ((rest + LARGEST_BYTE) & 255) - LARGEST_BYTE
        rest = (rest - digit) >> 8
        if digit.any():
            planes[256**power] = digit.astype(np.int8)
    return planes


def _unpacked(packed: npt.NDArray[np.uint8]) -> Int8:
    """Return the bits of bytes of shape (bytes, people), of shape (8 `_BYTES_OF_SIGNS`, people).

    Rows after the last byte are zero.
    """
    bits = np.zeros((_BYTES_OF_SIGNS, 8, packed.shape[1]), dtype=np.uint8)
    # The first mixture is the highest bit. np.unpackbits along this axis is 30 times slower.
    for place in range(8):
        bits[: len(packed), place] = (packed >> (7 - place)) & 1
    return bits.reshape(-1, packed.shape[1]).view(np.int8)
