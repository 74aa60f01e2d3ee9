"""Numbers as people read them, the same on every terminal line."""

from __future__ import annotations

import math

# Relative: an epsilon composed from charges exceeds a budget that they spend to the last digit by
# less than this (`primo_scale.privacy.calibration.composed_epsilon`).
_COMPOSITION_MARGIN = 1e-5


def bytes_in_words(size: float) -> str:
    """A number of bytes in a unit of which there are few, about ten thousand at most.

    Parameters
    ----------
    size
        Bytes, not negative.
    """
    if size < 10 * 2**20:
        return f"{size / 2**10:.0f} KiB"
    return f"{size / 2**20:.0f} MiB" if size < 10 * 2**30 else f"{size / 2**30:.1f} GiB"


def spent_in_words(amount: float, limit: float = math.inf) -> str:
    """Format a spent amount of privacy, or its limit, with five significant digits.

    Both sides of a comparison are rounded in the same way, so that a spent amount is never printed
    as more than a limit that covers it. An excess of one part in 10,000 is always visible.

    Parameters
    ----------
    amount
        Epsilon or mu^2, not negative.
    limit
        Budget that the amount is spent of, in the same unit.
    """
    covered = amount <= limit * (1 + _COMPOSITION_MARGIN)
    return f"{min(amount, limit) if covered else amount:.5g}"
