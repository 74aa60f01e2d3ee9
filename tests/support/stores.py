"""Small stores, statistics in small tiles and panels, and damage to files."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.storage import block_matrices
from primo_scale.storage.block_matrices import BlockMatricesWriter
from primo_scale.storage.groups import create_group, mark_complete, write_array, write_strings
from primo_scale.storage.locations import Location

VALUES = np.arange(24, dtype=np.int64).reshape(4, 6)


def write_store(path: Location, kind: str = "statistics", offset: int = 0) -> Location:
    group = create_group(path, kind, {"first": "guess-me"})
    for number, name in enumerate(("a", "b")):
        write_array(group, name, VALUES + 100 * number + offset, (2, 6))
    write_strings(group, "names", [f"x{offset}", "y"])
    write_strings(group, "others", ["y", f"x{offset}"])
    mark_complete(group, {"sha256": "confirm-me"})
    return path


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def swap(one: Path, other: Path) -> None:
    one.rename(one.with_name("kept"))
    other.rename(one)
    one.with_name("kept").rename(other)


@contextmanager
def pieces_of(side, panel_entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_matrices, "TILE", side)
        patch.setattr(block_matrices, "PANEL_ENTRIES", panel_entries)
        yield


def write_gram(writer, layout, block, values, copy=0):
    """Store X_b'X_b; values below the diagonal tiles are not read."""
    for tile in layout.tiles(block):
        writer.write_gram_tile(block, tile, values[tile.selection], copy)


def write_matrices(path, layout, grams, crosses, outcome_gram, observed, **options):
    """Return a writer with all matrices, where Gram matrices may be given by block and copy."""
    writer = BlockMatricesWriter(path, "statistics", layout, **options)
    copies = range(options.get("gram_copies", 1))
    if not isinstance(grams, dict):
        grams = {(block, copy): gram for block, gram in enumerate(grams) for copy in copies}
    for (block, copy), gram in grams.items():
        write_gram(writer, layout, block, gram, copy)
    for block, cross in enumerate(crosses):
        for panel in layout.panels(block):
            writer.write_cross_panel(block, panel, cross[panel])
    writer.write_outcome_gram(outcome_gram)
    writer.write_observed(observed)
    return writer


def zero_statistics(path, layout, **options):
    q = layout.n_outcomes
    writer = write_matrices(
        path, layout, [np.zeros((size, size), np.int64) for size in layout.sizes],
        [np.zeros((size, q), np.int64) for size in layout.sizes], np.zeros((q, q), np.int64),
        np.zeros(1 + layout.n_phenotypes, np.int64), **options,
    )  # fmt: skip
    return RawStatistics(writer.finish({}), 1000, "digest", {})
