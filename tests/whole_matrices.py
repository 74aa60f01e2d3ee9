"""Small statistics, written to a store in its tiles and panels."""

from __future__ import annotations

import numpy as np

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.storage.block_matrices import BlockMatricesWriter


def write_gram(writer, layout, block, values, copy=0):
    """Store X_b'X_b; values below the diagonal tiles are not read."""
    for tile in layout.tiles(block):
        writer.write_gram_tile(block, tile, values[tile.selection], copy)


def write_cross(writer, layout, block, values):
    """Store X_b'Z."""
    for panel in layout.panels(block):
        writer.write_cross_panel(block, panel, values[panel.rows])


def zero_statistics(path, layout, *, n_samples=1000, **options):
    """Return statistics that are all zero, so that the private statistics are the noise."""
    writer, q = BlockMatricesWriter(path, "statistics", layout, **options), layout.n_outcomes
    for block, size in enumerate(layout.sizes):
        write_gram(writer, layout, block, np.zeros((size, size), np.int64))
        write_cross(writer, layout, block, np.zeros((size, q), np.int64))
    writer.write_outcome_gram(np.zeros((q, q), np.int64))
    writer.write_observed(np.zeros(layout.n_phenotypes, np.int64))
    return RawStatistics(writer.finish({}), n_samples, "digest", {})
