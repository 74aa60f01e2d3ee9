"""Matrices of a block that are small enough to be in memory, written as the pieces of a store."""

from __future__ import annotations


def write_gram(writer, layout, block, values, copy=0):
    """Store X_b' X_b: of what is below the diagonal tiles nothing is read."""
    for tile in layout.tiles(block):
        writer.write_gram_tile(block, tile, values[tile.selection], copy)


def write_cross(writer, layout, block, values):
    """Store X_b' Z."""
    for panel in layout.panels(block):
        writer.write_cross_panel(block, panel, values[panel.rows])
