"""Columns of X for one read of people: coded variants, or LD components of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.partials import Partials
from primo_scale.accumulation.read_ahead import read_ahead
from primo_scale.genotypes.packings import PackedBytes
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.kernels.choice import choose_kernel
from primo_scale.kernels.clipping import UNCLIPPED, scale_columns
from primo_scale.kernels.linear_map import LinearMap, add_squared_outputs
from primo_scale.kernels.products import LARGEST_BYTE, Int8, Int64, spread_rows


@dataclass(frozen=True)
class PeopleOfRead:
    """Multipliers of the people in one read, and positions of those in the subsample."""

    multiplier: Int64  # in units of 2^-31
    sampled: npt.NDArray[np.intp] | None  # None means all

    @classmethod
    def read(cls, partials: Partials, block: int, samples: slice) -> PeopleOfRead:
        """Read the multipliers of one block."""
        return cls(partials.block_multipliers(block, samples), partials.sampled(samples))

    @property
    def everybody(self) -> PeopleOfRead:
        """All people of the read, in the subsample or not."""
        return PeopleOfRead(self.multiplier, None)


class Columns:
    """Columns of one tile for one read at a time, in reused memory."""

    def __init__(
        self,
        partials: Partials,
        genotypes: GenotypeStore,
        variants: slice,
        components: LinearMap | None = None,
    ) -> None:
        self._store, self._packing, self._variants = genotypes, genotypes.packing, variants
        self._table = partials.code_table[variants]
        self._components, rows = components, partials.plan.rows_per_read
        self._memory = spread_rows(variants.stop - variants.start, rows)
        self.height = len(self._memory)
        if components is not None:
            self.height = len(components.matrix)
            self._outputs = spread_rows(self.height, rows)
            self._kernel = choose_kernel(partials.kernel, LARGEST_BYTE)

    def read(self, samples: slice) -> PackedBytes:
        """Return the packed genotypes of one read."""
        return self._store.read_packed(self._variants, samples)

    def decode(self, packed: PackedBytes, people: PeopleOfRead) -> Int8:
        """Return the clipped columns of the people, shape (height, people).

        The next call overwrites them.
        """
        multiplier = people.multiplier
        if people.sampled is not None:
            packed = self._packing.select(packed, people.sampled)
            multiplier = multiplier[people.sampled]
        codes = self.unclipped(packed, len(multiplier))
        if (multiplier != UNCLIPPED).any():
            scale_columns(codes, multiplier)
        return codes

    def unclipped(self, packed: PackedBytes, n_people: int) -> Int8:
        """Return the columns of the people before clipping, shape (height, people)."""
        codes = self._packing.decode_into(self._memory, packed, self._table)[:, :n_people]
        if self._components is None:
            return codes
        return self._components.apply_into(self._outputs, codes, self._kernel)


def open_columns(partials: Partials, genotypes: GenotypeStore, block: int, tile: int) -> Columns:
    """Return the columns of one tile of an LD block; the components of a block are one tile."""
    components = partials.components
    if components is None:
        return Columns(partials, genotypes, partials.plan.variants(block, tile))
    return Columns(partials, genotypes, components.variants(block), components.map_of(block))


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
    step = packing.chunk_shape[0]
    starts = range(0, layout.n_variants, step)
    passes = [slice(at, min(at + step, layout.n_variants)) for at in starts]

    def read(variants: slice) -> PackedBytes:
        return genotypes.read_packed(variants, samples)

    for variants, packed in zip(passes, read_ahead(read, passes), strict=True):
        first = bisect_right(layout.boundaries, variants.start) - 1
        for block in range(first, bisect_left(layout.boundaries, variants.stop)):
            whole = layout.variants(block)
            part = slice(max(variants.start, whole.start), min(variants.stop, whole.stop))
            here = packed[part.start - variants.start : part.stop - variants.start]
            packing.add_squared_norms(norms[block], here, table[part])
    return norms.T


def _norms_of_components(partials: Partials, genotypes: GenotypeStore, samples: slice) -> Int64:
    n_blocks, n_people = partials.plan.layout.n_blocks, samples.stop - samples.start
    norms = np.zeros((n_blocks, n_people), dtype=np.int64)
    for block in range(n_blocks):
        columns = open_columns(partials, genotypes, block, 0)
        outputs = columns.unclipped(columns.read(samples), n_people)
        add_squared_outputs(norms[block], outputs)
    return norms.T
