"""Tiles and panels cover every entry of an upper triangle once, for all sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.storage import block_matrices
from primo_scale.storage.block_matrices import panels, upper_tiles, whole_tiles

SIZES = st.integers(0, 60)
SIDES = st.integers(1, 70)


def counted(size, parts):
    found = np.zeros((size, size), int)
    for part in parts:
        assert found[part.selection].shape == part.shape
        found[part.selection] += 1
    return found


@given(SIZES, SIDES)
def test_tiles_cover_the_upper_triangle_once(size, side):
    parts = list(upper_tiles(size, side))
    found = counted(size, parts)
    position = np.arange(size) // side
    square_above = position[:, None] <= position
    np.testing.assert_array_equal(found, square_above.astype(int))
    for part in parts:
        assert part.rows.start == part.row * side
        assert part.columns.start == part.column * side
        assert part.on_diagonal == (part.rows == part.columns)
        assert part.on_diagonal or part.rows.stop <= part.columns.start
        np.testing.assert_array_equal(found.T[part.mirrored], found[part.selection].T)


@given(SIZES, SIDES, SIDES)
def test_a_tile_can_be_cut_by_another_grid(size, side, finer):
    whole = np.arange(size * size).reshape(size, size)
    for region in upper_tiles(size, side):
        parts = list(region.cut(finer))
        found = counted(size, parts)[region.selection]
        assert found.size == 0 or found.max() == 1
        upper = np.triu(np.ones((size, size), bool))[region.selection]
        assert found[upper].all()
        for part in parts:
            inside = whole[region.selection][part.inside(region)]
            np.testing.assert_array_equal(inside, whole[part.selection])


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 90))
def test_panels_cover_all_rows_once(height, width, entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_matrices, "PANEL_ENTRIES", entries)
        found = list(panels(height, width))
    rows = [row for panel in found for row in range(height)[panel]]
    assert rows == list(range(height))
    for panel in found:
        assert (panel.stop - panel.start) * width <= max(entries, width)


def test_the_stored_format_is_the_documented_one():
    assert block_matrices.TILE == 1024
    assert list(panels(2**20, 1)) == [slice(0, 2**20)]
    assert len(list(panels(2**20 + 1, 1))) == 2
    assert (whole_tiles(1), whole_tiles(1024), whole_tiles(1025)) == (1024, 1024, 2048)
    assert len(list(upper_tiles(20_000))) == 210
