"""Formatting of numbers and lists for people, the same in every message."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Relative margin: the epsilon composed from charges can exceed a budget that they spend completely
# by less than this (`primo_scale.gaussian.calibration.composed_epsilon`).
_COMPOSITION_MARGIN = 1e-5
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400  # seconds


def bytes_in_words(size: float) -> str:
    """Format a number of bytes in KiB, MiB or GiB, with a value of at most about ten thousand."""
    if size < 10 * 2**20:
        return f"{size / 2**10:.0f} KiB"
    return f"{size / 2**20:.0f} MiB" if size < 10 * 2**30 else f"{size / 2**30:.1f} GiB"


def spent_in_words(amount: float, limit: float = math.inf) -> str:
    """Format an amount of spent privacy, epsilon or mu^2, or its limit, with five digits.

    Both sides of a comparison are rounded in the same way, so that a spent amount is never printed
    as more than a limit that covers it. An excess of one part in 10,000 is always visible. `limit`
    is the budget that the amount is spent from, in the same unit.
    """
    covered = amount <= limit * (1 + _COMPOSITION_MARGIN)
    return f"{min(amount, limit) if covered else amount:.5g}"


def duration_in_words(seconds: float) -> str:
    """Format a duration: ``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        hours, rest = divmod(round(seconds / _MINUTE), 60)
        return f"{hours} h {rest} min"
    days, rest = divmod(round(seconds / _HOUR), 24)
    return f"{days} d {rest} h"


def rate_in_words(per_second: float) -> str:
    """Format a rate as a number for each minute, with about three digits."""
    rate = 60 * per_second
    return f"{rate:.3g}" if rate < 1000 else f"{rate:.0f}"


def examples(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, followed by dots if there are more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, ..."
