"""Peak of the memory that Python and numpy allocate."""

import tracemalloc
from collections.abc import Callable

_CALLS = 2


def least_peak(function: Callable[[], object]) -> int:
    """Return the peak of a call in bytes, the smallest of several after one that imports and warms.

    `tracemalloc` counts the allocations of every thread. The event loops that earlier tests have
    started in this process allocate now and then, which can only raise a peak.
    """
    function()
    peaks = []
    for _ in range(_CALLS):
        tracemalloc.start()
        function()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(peaks)
