"""Writing of whole matrices of a block as the pieces of a store."""

from __future__ import annotations


def write_gram(writer, layout, block, values, copy=0):
    """Write X_b' X_b, without the part below the diagonal tiles."""
    for tile in layout.tiles(block):
        writer.write_gram_tile(block, tile, values[tile.selection], copy)


def write_cross(writer, layout, block, values):
    """Write X_b' Z."""
    for panel in layout.panels(block):
        writer.write_cross_panel(block, panel, values[panel.rows])
