"""Rows of text with weights, read and written by compiled code, which a verifier may lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.kernels.decimal_text import decimal_rows, read_decimals

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


def weights_in(texts: Sequence[str], width: int) -> npt.NDArray[np.float64] | None:
    """Return the weights in texts of `width` weights each, with tabs between them, (rows, width).

    None stands for a text of another length, or with a weight that `read_decimals` leaves to the
    caller, or one of -0, which `RowBeginnings.with_weights` does not write.
    """
    content = np.frombuffer(_lines(texts), np.uint8)
    weights, is_plain = np.empty((len(texts), width)), np.empty(len(texts), np.bool_)
    read_decimals(content, np.arange(width), weights, is_plain, 0, content[:0].copy())
    has_minus_zero = bool(np.any(np.signbit(weights) & (weights == 0)))
    return weights if is_plain.all() and not has_minus_zero else None


def are_as_written(texts: Sequence[str], width: int) -> bool:
    """Return whether the texts are those of finite weights, as `weights.weights_in_text` writes.

    The answer is also False for weights that `weights_in` does not return.
    """
    weights = weights_in(texts, width)
    if weights is None or not np.isfinite(weights).all():
        return False
    rows = RowBeginnings.of([""] * len(texts)).with_weights(weights)
    return b"".join(rows) == _lines(texts)


def _lines(texts: Sequence[str]) -> bytes:
    return ("\n".join(texts) + "\n").encode()
