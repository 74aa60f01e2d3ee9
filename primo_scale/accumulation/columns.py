"""Columns of X for one read of people: coded variants, or LD components of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.plan import TileTask, length
from primo_scale.genotypes.own_directions import OwnDirections
from primo_scale.genotypes.packings import PackedBytes
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import LARGEST_BYTE, Int8, Int16, Int64, spread_rows
from primo_scale.kernels.rows import UNCLIPPED, LinearMap, add_squared_outputs, scale_columns
from primo_scale.outcomes.coding import LARGEST_VALUE
from primo_scale.ranges import runs_of
from primo_scale.storage.tiles import read_ahead


@dataclass(frozen=True)
class PeopleOfRead:
    """Multipliers of the people in one read, and positions of those in the subsample."""

    multipliers: list[Int64]  # in units of 2^-31, of each LD block
    sampled: npt.NDArray[np.intp] | None  # None means all

    @classmethod
    def read(cls, partials: Partials, blocks: range, samples: slice) -> PeopleOfRead:
        """Read the multipliers of some blocks."""
        multipliers = [partials.block_multipliers(block, samples) for block in blocks]
        return cls(multipliers, partials.sampled(samples))

    @property
    def everybody(self) -> PeopleOfRead:
        """All people of the read, in the subsample or not."""
        return PeopleOfRead(self.multipliers, None)


class Columns:
    """Columns of one tile of each of some consecutive LD blocks, for one read at a time.

    The memory is reused: every call of a method overwrites the columns of the call before.
    """

    def __init__(
        self, partials: Partials, genotypes: GenotypeStore, tiles: Sequence[TileTask]
    ) -> None:
        plan, components = partials.plan, partials.components
        self._store, self._packing, self._table = genotypes, genotypes.packing, partials.code_table
        heights = [length(plan.inside(tile.block, tile.row_tile)) for tile in tiles]
        self.parts = [slice(*edges) for edges in pairwise(accumulate(heights, initial=0))]
        self._memory = spread_rows(sum(heights), plan.rows_per_read)
        # Map from the variants of each block to its components, or None if variants are columns.
        self._maps: list[LinearMap | None]
        if components is None:
            self._variants = [plan.variants(tile.block, tile.row_tile) for tile in tiles]
            self._maps = [None] * len(tiles)
        else:  # a block is one tile
            self._variants = [components.variants(tile.block) for tile in tiles]
            self._maps = [components.map_of(tile.block) for tile in tiles]
            for mapping, height in zip(self._maps, heights, strict=True):
                if mapping is not None and len(mapping.matrix) != height:
                    raise ValueError("the columns of a map are one tile")
            self._decoded = spread_rows(max(map(length, self._variants)), plan.rows_per_read)
            self._kernel = choose_kernel(partials.kernel, LARGEST_BYTE)

    @property
    def height(self) -> int:
        """Number of columns of X in all."""
        return len(self._memory)

    def read(self, samples: slice) -> PackedBytes:
        """Return the packed genotypes of one read."""
        variants = slice(self._variants[0].start, self._variants[-1].stop)
        return self._store.read_packed(variants, samples)

    def decode(self, packed: PackedBytes, people: PeopleOfRead) -> Int8:
        """Return the clipped columns of the people, shape (height, people)."""
        sampled, multipliers = people.sampled, people.multipliers
        if sampled is not None:
            packed = self._packing.select(packed, sampled)
            multipliers = [multiplier[sampled] for multiplier in multipliers]
        codes = self.unclipped(packed, len(multipliers[0]))
        for part, multiplier in zip(self.parts, multipliers, strict=True):
            if (multiplier != UNCLIPPED).any():
                scale_columns(codes[part], multiplier)
        return codes

    def unclipped(self, packed: PackedBytes, n_people: int) -> Int8:
        """Return the columns of the people before clipping, shape (height, people)."""
        for _ in self.by_tile(packed, n_people):
            pass
        return self._memory[:, :n_people]

    def by_tile(self, packed: PackedBytes, n_people: int) -> Iterator[tuple[Int8, Int8]]:
        """Yield the codes of the people in every tile, and its columns, before clipping."""
        first = self._variants[0].start
        for variants, part, mapping in zip(self._variants, self.parts, self._maps, strict=True):
            here = packed[variants.start - first : variants.stop - first]
            target = self._memory[part] if mapping is None else self._decoded
            codes = self._packing.decode_into(target, here, self._table[variants])[:, :n_people]
            if mapping is not None:
                mapping.apply_into(self._memory[part], codes, self._kernel)
            yield codes, self._memory[part][:, :n_people]


def contributions(partials: Partials) -> Callable[[slice], tuple[Int64, Int64]]:
    """Return a function from people to ``||x_k||^2`` and scores of every phenotype, (people, l)."""
    directions, plan = partials.components, partials.plan
    if not isinstance(directions, OwnDirections):
        raise TypeError("a second round has directions of every phenotype's own")
    genotypes = partials.inputs.open_genotypes()
    kernel = choose_kernel(partials.kernel, LARGEST_BYTE)
    n_phenotypes, groups = directions.n_phenotypes, list(plan.shared_blocks())

    def of_people(samples: slice) -> tuple[Int64, Int64]:
        """Read the genotypes of people once, window by window."""
        people = samples.stop - samples.start
        norms, scores = np.zeros((2, n_phenotypes, people), dtype=np.int64)
        for windows in groups:
            tiles = [TileTask(0, window, 0, 0) for window in windows]
            columns = Columns(partials, genotypes, tiles)
            found = columns.by_tile(columns.read(samples), people)
            for window, (codes, outputs) in zip(windows, found, strict=True):
                directions.scores_of(window).add_into(scores, codes, kernel)
                owners = directions.owners_of(window)
                for start, stop in runs_of(owners):
                    add_squared_outputs(norms[owners[start]], outputs[start:stop])
        return norms.T, scores.T

    return of_people


def subtract_scores(phenotypes: Int16, scores: Int64) -> Int16:
    """Return phenotypes less what the first round predicts of them; a missing one remains 0."""
    residuals = np.clip(phenotypes - scores, -LARGEST_VALUE, LARGEST_VALUE)
    return np.where(phenotypes == 0, 0, residuals).astype(np.int16)


def row_norms(partials: Partials) -> Callable[[slice], Int64]:
    """Return a function from people to their squared norms in every block, (people, blocks).

    The norms are zero if no record can be too long.
    """
    if not partials.may_clip:
        n_blocks = partials.plan.layout.n_blocks
        return lambda samples: np.zeros((samples.stop - samples.start, n_blocks), dtype=np.int64)
    norms = _norms_of_variants if partials.components is None else _norms_of_components
    return partial(norms, partials, partials.inputs.open_genotypes())


def _norms_of_variants(partials: Partials, genotypes: GenotypeStore, samples: slice) -> Int64:
    layout, table, packing = partials.plan.layout, partials.code_table, genotypes.packing
    norms = np.zeros((layout.n_blocks, samples.stop - samples.start), dtype=np.int64)
    block_of = np.repeat(np.arange(layout.n_blocks), layout.sizes)  # block of each variant
    step = packing.chunk_shape[0]
    passes = [slice(at, at + step) for at in range(0, layout.n_variants, step)]
    reads = read_ahead(partial(genotypes.read_packed, samples=samples), passes)
    for variants, packed in zip(passes, reads, strict=True):
        blocks, codes = block_of[variants], table[variants]
        for start, stop in runs_of(blocks):
            here = slice(start, stop)
            packing.add_squared_norms(norms[blocks[start]], packed[here], codes[here])
    return norms.T


def _norms_of_components(partials: Partials, genotypes: GenotypeStore, samples: slice) -> Int64:
    n_blocks, n_people = partials.plan.layout.n_blocks, samples.stop - samples.start
    norms = np.zeros((n_blocks, n_people), dtype=np.int64)
    for block in range(n_blocks):
        columns = Columns(partials, genotypes, [TileTask(0, block, 0, 0)])
        outputs = columns.unclipped(columns.read(samples), n_people)
        add_squared_outputs(norms[block], outputs)
    return norms.T
