"""Peak of the memory that Python and numpy allocate."""

import tracemalloc
from collections.abc import Callable

_CALLS = 2


def least_peak(function: Callable[[], object]) -> int:
    """Return the smallest peak of several calls in bytes, because other threads only raise it."""
    function()
    peaks = []
    for _ in range(_CALLS):
        tracemalloc.start()
        function()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(peaks)
