"""Root of a monotone function by bisection, to neighbouring floating-point numbers.

It stands in for `scipy.optimize.brentq`, whose package takes long to import, in every command.
"""

from __future__ import annotations

from collections.abc import Callable


def bracket_root(
    function: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """Return the narrowest bracket of the root of an increasing function.

    Parameters
    ----------
    function
        Increasing function that is at most 0 at `low` and above 0 at `high`.
    low, high
        Bracket of the root.

    Returns
    -------
    tuple of (float, float)
        Neighbouring numbers: the function is at most 0 at the first and above 0 at the second.
    """
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return low, high
        if function(middle) <= 0:
            low = middle
        else:
            high = middle
