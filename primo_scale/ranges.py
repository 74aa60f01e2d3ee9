"""Ranges of positions in arrays: runs of equal neighbours, pieces, and whole multiples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt


def runs_of(values: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Return the half-open index ranges of equal neighbours."""
    if not len(values):
        return []
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return list(pairwise([0, *changes.tolist(), len(values)]))


def pieces(size: int, step: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `step` positions, which together are `size` positions."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def whole_multiple(size: int, factor: int) -> int:
    """Return the least multiple of a factor that is not below a size."""
    return -(-size // factor) * factor
