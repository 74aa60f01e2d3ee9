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

    def of_people(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the signs -1 and 1 of people, float64 of shape (people, k).

        `positions` are those of the people in the roster, int64 of shape (people,).
        """
        counts = math.ceil(self.n_mixtures / _BITS_PER_COUNT)
        words = np.empty((len(positions), 4 * counts), dtype="<u8")
        key = int(self.seed, 16)
        for row, position in zip(words, positions.tolist(), strict=True):
            row[:] = np.random.Philox(key=key, counter=position * counts).random_raw(4 * counts)
        bits = np.unpackbits(words.view(np.uint8), axis=1, count=self.n_mixtures)
        return bits * np.float64(2) - 1
