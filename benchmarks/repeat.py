"""Repeated wall-clock times of one call."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLOW_SECONDS = 10.0
_REPETITIONS_IF_SLOW = 3


def wall_seconds(function: Callable[[], object], repetitions: int) -> list[float]:
    """Times of `repetitions` calls after a warm-up.

    A call of more than ten seconds needs no warming up: the first one counts, and three are enough.
    """
    first = _seconds(function)
    if first > _SLOW_SECONDS:
        more = min(repetitions, _REPETITIONS_IF_SLOW) - 1
        return [first, *(_seconds(function) for _ in range(more))]
    return [_seconds(function) for _ in range(repetitions)]


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
