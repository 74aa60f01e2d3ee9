"""Boundaries of LD blocks at which a public panel has the least linkage disequilibrium.

Variants are standardised with the panel's own means and variances, which are public. A cut between
two neighbours costs the sum of r^2, beyond that of chance, over all pairs of variants on both of
its sides that are closer than the largest block. Dynamic programming finds the cuts of least total
cost for blocks of permitted sizes. Memory does not depend on the number of variants, except for a
few numbers for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.chromosomes import canonical_chromosomes
from primo_scale.genotypes.ld_panel import Float32, Float64, LdPanel, centred, read_dosages
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.ranges import runs_of
from primo_scale.storage.files import text_published_at_end

_VARIANTS_PER_PASS = 1024
_PUBLIC_MODE = 0o644


@dataclass(frozen=True)
class BlockSizes:
    """Smallest and largest number of variants of a block.

    `most` is at least ``2 least - 1``: a chromosome that is too long for one block is then long
    enough for two. A chromosome with fewer than `least` variants is one block.
    """

    least: int = 300
    most: int = 700

    def __post_init__(self) -> None:
        if self.least < 1 or self.most < 2 * self.least - 1:
            raise UsageError(
                "the largest LD block must have nearly twice as many variants as the smallest",
                where="--most",
                value=self.most,
                limit=f"at least {max(2 * self.least - 1, 1)}",
            )


def write_ld_blocks(panel: Path, out: Path, sizes: BlockSizes) -> int:
    """Write a table of ``chr start stop`` with the LD blocks of a public panel.

    The number of blocks is returned. `panel` is the prefix of a PLINK 1 fileset, such as a
    population of the 1000 Genomes Project. It must not contain people of the cohort. The table has
    base pairs, of which ``stop`` is not part of the block, as in LDetect. A malformed fileset is
    refused, and so are variants that are not sorted by position, or of which too many have the same
    position.
    """
    source = open_source(SourceFiles((panel,)))
    variants, n_blocks = source.variants, 0

    def standardised(part: slice) -> Float32:
        return standardise(centred(read_dosages(source, np.arange(part.start, part.stop))))

    with text_published_at_end(out, mode=_PUBLIC_MODE) as table:
        table.write("chr\tstart\tstop\n")
        for first, last in runs_of(canonical_chromosomes(variants)):
            name = variants.chromosome[first]
            position = variants.position[first:last]
            if (np.diff(position) < 0).any():
                raise InputError(
                    f"the variants of chromosome {name} are not sorted by position",
                    where=panel,
                    remedy="Sort them (plink2 --make-pgen --sort-vars, then --make-bed)",
                )
            cost = crossing_ld(standardised, range(first, last), sizes.most)
            cost[1:-1][np.diff(position) == 0] = math.inf
            cuts = least_cuts(cost, sizes)
            if cuts is None:
                raise InputError(
                    f"too many variants of chromosome {name} share a position to divide it",
                    where=panel,
                    limit=f"blocks of {sizes.least} to {sizes.most} variants",
                )
            ends = [*position[cuts[1:-1]], position[-1] + 1]
            for start, stop in zip(position[cuts[:-1]], ends, strict=True):
                table.write(f"{name}\t{start}\t{stop}\n")
            n_blocks += len(ends)
    return n_blocks


@lru_cache(maxsize=1)
def panel_boundaries(panel: LdPanel, sizes: BlockSizes) -> tuple[int, ...]:
    """Return the boundaries of the LD blocks of a panel's cohort: 0, ..., d.

    Variants that are not in the panel count as independent. `sizes` are the permitted numbers of
    variants in a block.
    """
    boundaries = [0]

    def standardised(part: slice) -> Float32:
        here, dosages = panel.centred_dosages(part)
        rows = np.zeros((part.stop - part.start, panel.n_people), dtype=np.float32)
        rows[here] = standardise(dosages)
        return rows

    for start, stop in runs_of(panel.chromosome):
        cuts = least_cuts(crossing_ld(standardised, range(start, stop), sizes.most), sizes)
        if cuts is None:
            raise ValueError("no cut has an infinite cost")
        boundaries.extend(start + cut for cut in cuts[1:])
    return tuple(boundaries)


def standardise(rows: Float32) -> Float32:
    """Return centred rows with norm 1, whose products are correlations; rows of zeros stay zero."""
    norms = np.linalg.norm(rows, axis=1)
    return np.asarray(rows / np.where(norms > 0, norms, 1)[:, None], np.float32)


def crossing_ld(standardised: Callable[[slice], Float32], variants: range, reach: int) -> Float64:
    """Return the sum of r^2, beyond that of chance, over pairs on both sides of every cut.

    Between independent variants, the mean of r^2 in a panel of n people is ``1 / (n - 1)``. Pairs
    count that are less than `reach` variants apart. `standardised` returns the rows of
    `standardise` for a run of variants. Entry k of the result, float64 (len(variants) + 1,), is the
    sum over ``i < k <= j``, counted from the first variant.
    """
    first, n_variants = variants.start, len(variants)
    change = np.zeros(n_variants + 1)
    counts = np.empty((0, 0), dtype=np.float32)  # 1 for the pairs that count, otherwise 0
    for start in range(0, n_variants, _VARIANTS_PER_PASS):
        rows = slice(start, min(start + _VARIANTS_PER_PASS, n_variants))
        columns = slice(start, min(rows.stop + reach, n_variants))
        others = standardised(slice(first + columns.start, first + columns.stop))
        squares = (others[: rows.stop - start] @ others.T) ** 2
        squares -= 1 / max(others.shape[1] - 1, 1)
        if counts.shape != squares.shape:
            distance = np.arange(squares.shape[1]) - np.arange(len(squares))[:, None]
            counts = ((distance > 0) & (distance < reach)).astype(np.float32)
        squares *= counts
        # A pair crosses the cuts from i + 1 to j.
        change[start + 1 : rows.stop + 1] += squares.sum(axis=1, dtype=np.float64)
        change[start + 1 : columns.stop + 1] -= squares.sum(axis=0, dtype=np.float64)
    return np.cumsum(change)


def least_cuts(cost: Float64, sizes: BlockSizes) -> list[int] | None:
    """Return the boundaries of least total cost, by dynamic programming.

    `cost` has the cost of a cut before each variant, and at the end, shape (variants + 1,). The
    first and the last are free. A cut of infinite cost is not made. The result has the index of the
    first variant of each block, then the number of variants; it is None if every division into
    blocks of permitted sizes has an infinite cost.
    """
    n_variants = len(cost) - 1
    if n_variants < sizes.least:
        return [0, n_variants]
    total = np.full(n_variants + 1, math.inf)
    total[0] = 0.0
    before = np.zeros(n_variants + 1, dtype=np.intp)
    for stop in range(sizes.least, n_variants + 1):
        first = max(stop - sizes.most, 0)
        before[stop] = first + np.argmin(total[first : stop - sizes.least + 1])
        total[stop] = total[before[stop]] + (cost[stop] if stop < n_variants else 0.0)
    if math.isinf(total[n_variants]):
        return None
    cuts = [n_variants]
    while cuts[-1] > 0:
        cuts.append(int(before[cuts[-1]]))
    return cuts[::-1]
