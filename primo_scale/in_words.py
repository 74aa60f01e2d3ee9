"""Numbers as people read them, the same on every terminal line."""

from __future__ import annotations


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
