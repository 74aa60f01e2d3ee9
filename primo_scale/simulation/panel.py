"""Public panel of real genotypes, tiled to the requested number of variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.bed import open_fileset
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.tables import LARGEST_POSITION, VariantTable
from primo_scale.kernels.packed import decode

A1_COPIES = np.array([2.0, np.nan, 1.0, 0.0])
"""Copies of A1 by raw PLINK value; nan for a missing call."""

_AUTOSOMES = 22
_GAP_BETWEEN_TILES = 1_000  # base pairs


@dataclass(frozen=True, eq=False)
class ReferencePanel:
    """Genotypes of real people, small enough for memory.

    `codes`, shape (variants, members), holds raw PLINK values: 0 for two copies of A1, 1 for a
    missing call, 2 for one copy, 3 for no copy.
    """

    variants: VariantTable
    codes: npt.NDArray[np.uint8]

    @property
    def a1_frequency(self) -> npt.NDArray[np.float64]:
        """Frequency of A1, shape (variants,); 0 for a variant without any call."""
        called = (self.codes != 1).sum(axis=1)
        copies = np.nan_to_num(A1_COPIES)[self.codes].sum(axis=1)
        return np.asarray(copies / np.maximum(2 * called, 1))


@dataclass(frozen=True, eq=False)
class Sites:
    """Variants of a simulated cohort, and the row of the panel that each one copies.

    `chromosome_starts` marks the first variant of each chromosome and of each copy of the panel. LD
    does not cross such a variant.
    """

    variants: VariantTable
    panel_row: npt.NDArray[np.int32]
    chromosome_starts: npt.NDArray[np.bool_]


def read_panel(prefix: str) -> ReferencePanel:
    """Read a whole PLINK 1 fileset into memory."""
    fileset = open_fileset(Path(prefix), SourceFiles((Path(prefix),)))
    n_variants, n_members = len(fileset.variants), len(fileset.samples)
    packed = fileset.read(np.arange(n_variants), np.arange(n_members))
    raw_values = np.tile(np.arange(4, dtype=np.int8), (n_variants, 1))
    return ReferencePanel(fileset.variants, decode(packed, raw_values, n_members).view(np.uint8))


def lay_out_sites(panel: ReferencePanel, n_variants: int) -> Sites:
    """Take the panel's first variants, or tile the panel if more variants are requested.

    Variants of a tile are renamed (``rs123`` becomes ``rs123_2`` in the second tile). Tiles are
    distributed in order over chromosomes 1 to 22, each after the end of the previous tile.
    """
    size = len(panel.variants)
    index = np.arange(n_variants)
    row, tile = index % size, index // size
    variants = panel.variants.select(row)
    starts = np.append(True, variants.chromosome[1:] != variants.chromosome[:-1])
    if n_variants > size:
        if len(set(panel.variants.chromosome)) > 1:
            raise InputError(
                "a panel of several chromosomes cannot be tiled",
                value=f"{n_variants} variants",
                limit=f"{size} variants",
                remedy="Ask for fewer variants, or give one chromosome",
            )
        variants = _renamed(variants, tile)
    return Sites(variants, row.astype(np.int32), starts | (row == 0))


def _renamed(variants: VariantTable, tile: npt.NDArray[np.int64]) -> VariantTable:
    n_tiles = int(tile[-1]) + 1
    chromosome = tile * _AUTOSOMES // n_tiles + 1
    first_tile = -(-(chromosome - 1) * n_tiles // _AUTOSOMES)
    span = int(variants.position.max()) + _GAP_BETWEEN_TILES
    position = variants.position + (tile - first_tile) * span
    if position.max() > LARGEST_POSITION:
        raise InputError(
            "tiling the panel leads to positions above PLINK's limit",
            value=f"{len(variants)} variants",
            limit=f"{len(variants) * LARGEST_POSITION // int(position.max())} variants",
            remedy="Ask for fewer variants, or give a panel with more",
        )
    suffix = np.array(["", *(f"_{number}" for number in range(2, n_tiles + 1))], dtype=object)
    return replace(
        variants,
        chromosome=chromosome.astype(str).astype(object),
        identifier=variants.identifier + suffix[tile],
        centimorgan=np.zeros(len(variants)),
        position=position,
    )
