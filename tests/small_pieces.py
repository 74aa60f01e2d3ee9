"""Small pieces of stores, so that a matrix of a few dozen variants has many of them."""

from contextlib import contextmanager

import pytest

from primo_scale.storage import tiles


@contextmanager
def pieces_of(side, panel_entries):
    """Replace the format's sizes of tiles and panels during the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE", side)
        patch.setattr(tiles, "PANEL_ENTRIES", panel_entries)
        yield
