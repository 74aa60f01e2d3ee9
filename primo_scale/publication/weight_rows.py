"""Rows of text with weights, formatted by compiled code, which a verifier does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.decimal_text import decimal_rows

_CELLS_AT_ONCE = 1 << 12


@dataclass(frozen=True, eq=False)
class RowBeginnings:
    """Texts of rows before their weights."""

    text: npt.NDArray[np.uint8]  # of all rows, in UTF-8
    ends: npt.NDArray[np.int64]  # place in `text` where each one ends, shape (rows,)

    @classmethod
    def of(cls, texts: Iterable[str]) -> RowBeginnings:
        """Return the beginnings with these texts."""
        encoded = [text.encode() for text in texts]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    def with_weights(self, weights: npt.NDArray[np.float64]) -> Iterator[bytes]:
        """Yield the rows in parts; finite weights as by `weights.weights_in_text`."""
        height = max(1, _CELLS_AT_ONCE // weights.shape[1])
        for start in range(0, len(weights), height):
            rows = slice(start, start + height)
            first = self.ends[start - 1] if start else 0
            text = self.text[first : self.ends[rows][-1]]
            yield decimal_rows(text, self.ends[rows] - first, weights[rows])
