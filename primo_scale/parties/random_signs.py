"""Random signs of the mixtures of people, from a public seed (Wu et al., Algorithm 2).

The k x n matrix of signs is never held. The Philox generator is a function of a key and a counter:
the seed is the key, and a person's position in the roster is the counter, so that every party finds
the same k signs of a person, in any order of the people and in any number of pieces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SEED_DIGITS = 32
_BITS_PER_COUNT = 256  # Philox gives four words of 64 bits for each value of its counter


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
