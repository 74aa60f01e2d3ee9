"""Public panel of genotypes, matched to the variants of a cohort, and the LD blocks that it shows.

This module reads the panel and the cohort's variant table, which are both public.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes import coding, store
from primo_scale.genotypes.source import GenotypeSource, SourceFiles, open_source
from primo_scale.genotypes.tables import Index, StringColumn, VariantTable
from primo_scale.kernels.packed import packed_width
from primo_scale.kernels.products import Float64
from primo_scale.ranges import pieces, runs_of
from primo_scale.storage.files import sha256_of_file, sha256_of_json
from primo_scale.verify.chromosomes import positioned_chromosome

FEWEST_PEOPLE = 50
"""Smallest panel. Of fewer people, the leading components of LD are mostly chance."""

_VARIANTS_AT_A_TIME = 4096

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LdPanel:
    """PLINK 1 filesets of public people, and the row of each of d variants of a cohort in them."""

    prefixes: tuple[Path, ...]
    sha256: str  # of the files
    rows: Index  # in the fileset, -1 for a variant that is not in it, shape (d,)
    swapped: npt.NDArray[np.bool_]  # whether the fileset counts the other allele, shape (d,)
    chromosome: StringColumn  # of the cohort's variants, shape (d,)
    _source: GenotypeSource

    @property
    def name(self) -> str:
        """Names of the filesets, without directories."""
        return ", ".join(prefix.name for prefix in self.prefixes)

    @property
    def n_people(self) -> int:
        """Number of people of the panel."""
        return len(self._source.samples)

    @property
    def people(self) -> StringColumn:
        """IIDs of the panel's people."""
        return self._source.samples.individual

    @property
    def n_matched(self) -> int:
        """Number of variants of the cohort that the panel has."""
        return int((self.rows >= 0).sum())

    def centred_dosages(self, variants: slice) -> tuple[Index, Float32]:
        """Return copies of the cohort's A1 minus their mean, of those variants that the panel has.

        A missing dosage is the mean. The result has the positions of these variants in `variants`,
        shape (v,), and their dosages, float32 (v, people).
        """
        here = np.flatnonzero(self.rows[variants] >= 0)
        stored, order = np.unique(self.rows[variants][here], return_inverse=True)
        if not len(stored):
            return here, np.empty((0, self.n_people), dtype=np.float32)
        values = centred(read_dosages(self._source, stored))[order]
        values[self.swapped[variants][here]] *= -1
        return here, values

    def scores(self, weights: Float64) -> Float64:
        """Return scores of the panel's people, less their means, by weights of one copy of A1.

        The weights have the shape (d, l) and the scores (people, l). A variant that the panel does
        not have counts for nobody.
        """
        found = np.zeros((self.n_people, weights.shape[1]))
        for part in pieces(len(weights), _VARIANTS_AT_A_TIME):
            here, dosages = self.centred_dosages(part)
            found += dosages.T.astype(np.float64) @ weights[part][here]
        return found

    def a1_frequencies(self) -> Float64:
        """Return the frequency of A1 of every variant in the panel's people, shape (d,).

        It is nan for a variant that the panel does not have, or has no calls of.
        """
        found = np.full(len(self.rows), np.nan)
        matched = np.flatnonzero(self.rows >= 0)
        stored, order = np.unique(self.rows[matched], return_inverse=True)
        means = np.full(len(stored), np.nan)
        for part in pieces(len(stored), _VARIANTS_AT_A_TIME):
            dosages = read_dosages(self._source, stored[part])
            called = dosages != store.MISSING_DOSAGE
            n_called = called.sum(axis=1)
            sums = np.where(called, dosages, 0).sum(axis=1)
            means[part] = np.divide(sums, n_called, out=means[part], where=n_called > 0)
        frequency = means[order] / 2
        found[matched] = np.where(self.swapped[matched], 1 - frequency, frequency)
        return found


def fixation_index(panel: Float64, n_people: int, other: Float64) -> float:
    """Return F_ST between the population of a panel of people and one of known frequencies.

    Both frequencies are those of the same d alleles. Hudson's estimator, the ratio of sums,
    corrects for the sampling of the panel's people. Variants without a frequency, nan, do not
    count.
    """
    known = ~np.isnan(panel + other)
    p, q = panel[known], other[known]
    between = p * (1 - q) + q * (1 - p)
    within = (p - q) ** 2 - p * (1 - p) / (2 * n_people - 1)
    total = float(between.sum())
    return float(within.sum()) / total if total else 0.0


def open_ld_panel(prefixes: tuple[Path, ...], variants: VariantTable) -> LdPanel:
    """Match public filesets to the variants of a cohort, by position and alleles.

    Alleles match in either order and, other than A/T and C/G, on either strand. If the panel has
    several variants of one position and the same alleles, the first counts. A panel of fewer than
    `FEWEST_PEOPLE` people, or of less than `LEAST_MATCHED` of the variants, is refused.
    """
    source, where = open_source(SourceFiles(prefixes)), ", ".join(map(str, prefixes))
    if len(source.samples) < FEWEST_PEOPLE:
        raise InputError(
            "the panel has too few people to tell linkage disequilibrium from chance",
            where=where,
            value=len(source.samples),
            limit=f"at least {FEWEST_PEOPLE}",
        )
    rows, swapped = _match(source.variants, variants)
    digest = sha256_of_json([sha256_of_file(path) for path in source.files()])
    found = LdPanel(prefixes, digest, rows, swapped, variants.chromosome, source)
    if found.n_matched < coding.LEAST_MATCHED * len(variants):
        raise InputError(
            f"has {found.n_matched} of {len(variants)} variants at the same position with the same "
            "alleles",
            where=where,
            limit=f"at least {coding.LEAST_MATCHED:.0%} of the variants",
            remedy="Check that the panel and the genotypes are of one genome build",
        )
    return found


def read_dosages(source: GenotypeSource, variants: Index) -> npt.NDArray[np.int8]:
    """Return copies of A1 of everybody at increasing positions, -1 where missing, (v, people)."""
    n_people = len(source.samples)
    packed = np.empty((len(variants), packed_width(n_people)), dtype=np.uint8)
    source.read_into(packed, variants, np.arange(n_people))
    return store.copies_of_hard_calls(packed, n_people)


def centred(dosages: npt.NDArray[np.int8]) -> Float32:
    """Return dosages minus the mean of each variant; a missing one becomes 0."""
    called = dosages != store.MISSING_DOSAGE
    values = np.where(called, dosages, 0).astype(np.float32)
    values -= (values.sum(axis=1) / np.maximum(called.sum(axis=1), 1))[:, None]
    values[~called] = 0
    return values


def _match(panel: VariantTable, variants: VariantTable) -> tuple[Index, npt.NDArray[np.bool_]]:
    """Return the row of each variant in the panel, or -1, and whether its alleles are swapped."""
    at: dict[tuple[str, int], list[int]] = defaultdict(list)
    places = zip(map(positioned_chromosome, panel.chromosome), panel.position.tolist(), strict=True)
    for row, place in enumerate(places):
        at[place].append(row)
    rows = np.full(len(variants), -1, dtype=np.intp)
    swapped = np.zeros(len(variants), dtype=np.bool_)
    places = zip(
        map(positioned_chromosome, variants.chromosome), variants.position.tolist(), strict=True
    )
    for index, place in enumerate(places):
        wanted = variants.allele1[index], variants.allele2[index]
        for row in at.get(place, ()):
            found = coding.compare_alleles((panel.allele1[row], panel.allele2[row]), wanted)
            if found is not None:
                rows[index], swapped[index] = row, found[0]
                break
    return rows, swapped


_VARIANTS_PER_PASS = 1024
BLOCK_SIZES = 300, 700
"""Smallest and largest number of variants of an LD block."""


@lru_cache(maxsize=1)
def panel_boundaries(panel: LdPanel, sizes: tuple[int, int] = BLOCK_SIZES) -> tuple[int, ...]:
    """Return the boundaries of the LD blocks of a panel's cohort: 0, ..., d.

    Variants that are not in the panel count as independent. `sizes` are the smallest and the
    largest number of variants in a block.
    """
    boundaries = [0]

    def standardised(part: slice) -> Float32:
        here, dosages = panel.centred_dosages(part)
        rows = np.zeros((part.stop - part.start, panel.n_people), dtype=np.float32)
        rows[here] = standardise(dosages)
        return rows

    for start, stop in runs_of(panel.chromosome):
        cuts = least_cuts(crossing_ld(standardised, range(start, stop), sizes[1]), *sizes)
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


def least_cuts(cost: Float64, least: int, most: int) -> list[int]:
    """Return the boundaries of blocks of least total cost, by dynamic programming.

    `cost` has the cost of a cut before each variant, and at the end, shape (variants + 1,). The
    first and the last are free. The result has the index of the first variant of each block, then
    the number of variants. A block has `least` to `most` variants, which is at least ``2 least -
    1``: what is too long for one block is then long enough for two. Fewer variants are one block.
    """
    n_variants = len(cost) - 1
    if n_variants < least:
        return [0, n_variants]
    total = np.full(n_variants + 1, math.inf)
    total[0] = 0.0
    before = np.zeros(n_variants + 1, dtype=np.intp)
    for stop in range(least, n_variants + 1):
        first = max(stop - most, 0)
        before[stop] = first + np.argmin(total[first : stop - least + 1])
        total[stop] = total[before[stop]] + (cost[stop] if stop < n_variants else 0.0)
    cuts = [n_variants]
    while cuts[-1] > 0:
        cuts.append(int(before[cuts[-1]]))
    return cuts[::-1]
