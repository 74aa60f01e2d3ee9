"""Stores cut into pieces so small that a matrix of a few dozen variants has many of them."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from primo_scale.storage import tiles


@contextmanager
def pieces_of(side, panel_entries):
    """Tiles of `side` and panels of so many entries, in place of the format's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE", side)
        patch.setattr(tiles, "PANEL_ENTRIES", panel_entries)
        yield
