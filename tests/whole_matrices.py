"""Small statistics, written to a store in its tiles and panels."""

import numpy as np

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.storage.block_matrices import BlockMatricesWriter


def write_gram(writer, layout, block, values, copy=0):
    """Store X_b'X_b; values below the diagonal tiles are not read."""
    for tile in layout.tiles(block):
        writer.write_gram_tile(block, tile, values[tile.selection], copy)


def write_matrices(path, layout, grams, crosses, outcome_gram, observed, **options):
    """Return a writer of statistics to which all matrices were written.

    `grams` and `crosses` hold X_b'X_b and X_b'Z of every block; every copy of a Gram matrix is the
    same, unless the matrices are given by block and copy.
    """
    writer = BlockMatricesWriter(path, "statistics", layout, **options)
    copies = range(options.get("gram_copies", 1))
    if not isinstance(grams, dict):
        grams = {(block, copy): gram for block, gram in enumerate(grams) for copy in copies}
    for (block, copy), gram in grams.items():
        write_gram(writer, layout, block, gram, copy)
    for block, cross in enumerate(crosses):
        for panel in layout.panels(block):
            writer.write_cross_panel(block, panel, cross[panel.rows])
    writer.write_outcome_gram(outcome_gram)
    writer.write_observed(observed)
    return writer


def zero_statistics(path, layout, **options):
    """Return statistics that are all zero, so that the private statistics are the noise."""
    q = layout.n_outcomes
    writer = write_matrices(
        path, layout, [np.zeros((size, size), np.int64) for size in layout.sizes],
        [np.zeros((size, q), np.int64) for size in layout.sizes], np.zeros((q, q), np.int64),
        np.zeros(1 + layout.n_phenotypes, np.int64), **options,
    )  # fmt: skip
    return RawStatistics(writer.finish({}), 1000, "digest", {})
