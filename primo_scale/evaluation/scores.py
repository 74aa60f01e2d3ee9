"""Scores of people, summed over chunks of variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from primo_scale.errors import InputError
from primo_scale.evaluation.accuracy import Floats
from primo_scale.evaluation.scoring_files import ScoringFile
from primo_scale.genotypes.frequencies import (
    LEAST_MATCHED,
    MatchCounts,
    compare_alleles,
    read_reference_frequencies,
    strand_is_unknown,
)
from primo_scale.genotypes.packings import MISSING_DOSAGE, PackedBytes, Packing
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.genotypes.tables import Index, SampleTable, VariantTable
from primo_scale.interruption import check
from primo_scale.ranges import runs_of
from primo_scale.storage.locations import Location
from primo_scale.verify.chromosomes import positioned_chromosome

_VARIANTS_PER_READ = 1024  # of hard calls, and a quarter of it of dosages
_PEOPLE_PER_BATCH = 1 << 8  # whose dosages of one read are 2 MiB; a multiple of 4


@dataclass(frozen=True)
class Genotypes:
    """Genotypes of people, read for chunks of variants."""

    samples: SampleTable
    variants: VariantTable
    read: Callable[[Index], PackedBytes]  # of increasing positions of variants
    packing: Packing
    variants_per_read: int


@dataclass(frozen=True, eq=False)
class MatchedWeights:
    """Weights of the variants that the genotypes have, in their order."""

    variants: Index  # increasing positions of m variants in the genotypes
    per_allele1: Floats  # weight of one copy of allele 1, shape (m, l)
    constant: Floats  # score of a person without copies of allele 1, shape (l,)
    centre: Floats  # dosage of allele 1 for a missing genotype; nan: the mean, shape (m,)
    counts: MatchCounts


def open_files(files: SourceFiles) -> Genotypes:
    """Open genotype files of the same people."""
    source = open_source(files)
    everybody, packing = np.arange(len(source.samples)), files.packing

    def read(variants: Index) -> PackedBytes:
        result = np.empty((len(variants), packing.width(len(everybody))), dtype=np.uint8)
        source.read_into(result, variants, everybody)
        return result

    at_a_time = _VARIANTS_PER_READ // packing.width(4)
    return Genotypes(source.samples, source.variants, read, packing, at_a_time)


def open_store(location: Location) -> Genotypes:
    """Open a genotype store."""
    return people_of_store(open_genotype_store(location))


def people_of_store(
    store: GenotypeStore, samples: slice = slice(None), people: Index | None = None
) -> Genotypes:
    """Return the genotypes of people of a store, of all or at positions in the chunk `samples`."""

    def read(variants: Index) -> PackedBytes:
        first, last = int(variants[0]), int(variants[-1])
        packed = store.read_packed(slice(first, last + 1), samples)
        if len(packed) > len(variants):  # a whole run is not copied
            packed = packed[variants - first]
        return packed if people is None else store.packing.select(packed, people)

    table = store.samples if people is None else store.samples.select(samples.start + people)
    return Genotypes(table, store.variants, read, store.packing, store.chunk_shape[0])


def match_weights(
    file: ScoringFile, variants: VariantTable, *, may_be_wider: bool = False
) -> MatchedWeights:
    """Find the variants of a scoring file by ID and alleles, in either order and on either strand.

    Two variants of one side that match the same variant of the other are refused, and a score of
    which less than 10% match; if it may be wider, less than 10% of it and of the genotypes.
    """
    identifiers = list(variants.identifier)
    if file.by_position:
        places = zip(variants.chromosome, variants.position.tolist(), strict=True)
        identifiers = [f"{positioned_chromosome(name)}:{position}" for name, position in places]
    keys = pd.DataFrame({"ID": identifiers})
    keys = keys.assign(variant=np.arange(len(variants))).query("ID != '.'")
    pairs = file.variants.assign(row=np.arange(len(file.variants))).merge(keys, on="ID")
    here = pairs["variant"]
    found_alleles = zip(pairs["effect_allele"], pairs["other_allele"], strict=True)
    wanted_alleles = zip(variants.allele1[here], variants.allele2[here], strict=True)
    comparisons = map(compare_alleles, found_alleles, wanted_alleles)
    pairs = pairs.assign(found=pd.Series(list(comparisons), dtype=object))
    matched = pairs.dropna(subset="found").sort_values("variant")
    twice = matched[matched["row"].duplicated() | matched["variant"].duplicated()]
    if len(twice):
        raise InputError(
            f"variant {twice['ID'].iloc[0]} has two matches in the genotypes or the file",
            where=file.path,
            remedy="Remove all but one (plink2 --rm-dup)",
        )
    found, rows = matched["variant"].to_numpy(), matched["row"].to_numpy()
    swapped, flipped = np.array([*matched["found"]], dtype=np.bool_).reshape(-1, 2).T
    counts = MatchCounts(
        total=len(file.variants),
        matched=len(matched),
        swapped=int(swapped.sum()),
        flipped=int(flipped.sum()),
        ambiguous=sum(map(strand_is_unknown, variants.allele1[found], variants.allele2[found])),
        mismatched=pairs["row"].nunique() - len(matched),
        absent=len(file.variants) - pairs["row"].nunique(),
    )
    expected = min(counts.total, len(variants)) if may_be_wider else counts.total
    if counts.matched < max(1, LEAST_MATCHED * expected):
        remedy = "Give the genotypes the identifiers of the score (plink2 --set-all-var-ids)"
        if file.by_position:
            remedy = "It is matched by position: take its file for the genotypes' genome build"
        raise InputError(
            f"the genotypes have {counts.matched} of {counts.total} variants of the score: "
            f"{counts.absent} are absent and {counts.mismatched} have other alleles",
            where=file.path,
            limit=f"at least {LEAST_MATCHED:.0%} of {expected}",
            remedy=remedy,
        )
    weights = file.per_allele[rows] * np.where(swapped, -1.0, 1.0)[:, None]
    constant = -2 * weights[swapped].sum(axis=0)
    centres = np.full(len(found), np.nan)
    if file.centres is not None:
        centres = 2 * read_reference_frequencies(file.centres, variants.select(found)).a1_frequency
    return MatchedWeights(found, weights, constant, centres, counts)


def score_people(genotypes: Genotypes, weights: MatchedWeights) -> Floats:
    """Return the scores of all people, shape (people, l).

    Memory is that of one chunk of packed genotypes, a batch of dosages, and the result. Products
    are of whole steps of a dosage, so that sums of small integers are exact in any order.
    """
    per_copy = genotypes.packing.steps
    sums = np.zeros((len(genotypes.samples), weights.per_allele1.shape[1]))
    for part in starmap(slice, runs_of(weights.variants // genotypes.variants_per_read)):
        check()
        packed = genotypes.read(weights.variants[part])
        centre = weights.centre[part]
        if np.isnan(centre).any():
            centre = np.where(np.isnan(centre), _means(genotypes, packed), centre)
        for batch, steps in _batches(genotypes, packed):
            dosages = steps.astype(np.float64)
            variants, people = np.nonzero(steps == MISSING_DOSAGE)
            dosages[variants, people] = per_copy * centre[variants]
            sums[batch] += dosages.T @ weights.per_allele1[part]
    return np.asarray(weights.constant + sums / per_copy)


def _means(genotypes: Genotypes, packed: PackedBytes) -> Floats:
    """Return the mean dosage of allele 1 of each variant, 0 without a call."""
    total, called = np.zeros(len(packed), np.int64), np.zeros(len(packed), np.int64)
    for _, steps in _batches(genotypes, packed):
        known = steps != MISSING_DOSAGE
        total += np.where(known, steps, 0).sum(axis=1)
        called += known.sum(axis=1)
    return np.asarray(total / (genotypes.packing.steps * np.maximum(called, 1)))


def _batches(
    genotypes: Genotypes, packed: PackedBytes
) -> Iterator[tuple[slice, npt.NDArray[np.signedinteger[Any]]]]:
    """Yield some people at a time, and the steps of their dosages."""
    n_people, packing = len(genotypes.samples), genotypes.packing
    for start in range(0, n_people, _PEOPLE_PER_BATCH):
        stop = min(start + _PEOPLE_PER_BATCH, n_people)
        part = np.ascontiguousarray(packed[:, packing.width(start) : packing.width(stop)])
        yield slice(start, stop), packing.steps_or_missing(part, stop - start)
