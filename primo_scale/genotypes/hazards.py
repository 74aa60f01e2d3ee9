"""What is legal in a PLINK fileset but dangerous: counted, and said in plain lines.

Nothing here changes what is computed. The counts are private (they come from genotypes): they go
to the operator's terminal and stay in the store.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from primo_scale.genotypes.tables import (
    HUMAN_CHROMOSOMES,
    UNPLACED,
    SampleTable,
    VariantTable,
    canonical_chromosome,
)
from primo_scale.kernels.packed import HETEROZYGOUS, HOMOZYGOUS_A1, HOMOZYGOUS_A2

# Chromosomes of which a man has one copy outside the pseudo-autosomal regions; PLINK 2 names the
# regions themselves XY, PAR1 and PAR2.
HAPLOID_IN_MEN = "X"
HAPLOID = frozenset({"Y", "MT"})

_NO_ALLELE = frozenset({"0", "."})
_NO_IDENTIFIER = "."


@dataclass(frozen=True)
class Hazards:
    """Counts of dangerous features; the comment of each says what is counted."""

    negative_positions: int  # variants left out for it, as PLINK 2 does
    odd_positions: int  # positions such as 1.5e6x, of which the leading integer was taken
    zero_positions: int  # variants at position 0
    repeated_identifiers: int  # variants that share their identifier with another
    absent_identifiers: int  # variants whose identifier is '.'
    repeated_sites: int  # variants that share chromosome, position and alleles with another
    identical_alleles: int  # variants with A1 equal to A2
    absent_alleles: int  # variants with an allele '0' or '.'
    unplaced_variants: int  # variants on chromosome 0
    unknown_chromosomes: int  # variants on a code that is no human chromosome
    monomorphic_variants: int  # variants whose calls are all homozygous for one allele
    uncalled_variants: int  # variants without a call
    uncalled_samples: int  # samples without a call
    heterozygous_haploids: int  # heterozygous calls on X in men, or on Y or MT in anyone
    female_y_calls: int  # calls on Y in women
    repeated_samples: int  # rows that share FID and IID with another
    shared_individuals: int  # rows that share their IID with another FID

    def lines(self) -> list[str]:
        """One sentence per hazard that is there, in the order of the fields."""
        return [
            f"{getattr(self, field.name)} {_SENTENCES[field.name]}"
            for field in fields(self)
            if getattr(self, field.name)
        ]


_SENTENCES = {
    "negative_positions": "variants of negative position were left out, as PLINK 2 does",
    "odd_positions": "positions were not plain integers: their leading digits were taken",
    "zero_positions": "variants are at position 0",
    "repeated_identifiers": "variants share their identifier with another; a release refuses them",
    "absent_identifiers": "variants have the identifier '.'; a release refuses repeated ones",
    "repeated_sites": "variants share chromosome, position and alleles with another",
    "identical_alleles": "variants have two identical alleles",
    "absent_alleles": "variants have an allele '0' or '.': it cannot be matched by name",
    "unplaced_variants": "variants are on chromosome 0",
    "unknown_chromosomes": "variants are on a chromosome code that is not human",
    "monomorphic_variants": "variants are monomorphic here (kept: dropping them would be private)",
    "uncalled_variants": "variants have no call at all (kept)",
    "uncalled_samples": "samples have no call at all (kept)",
    "heterozygous_haploids": "heterozygous calls where one copy is expected (X in men, Y, MT)",
    "female_y_calls": "calls on Y in women",
    "repeated_samples": "sample rows share FID and IID with another",
    "shared_individuals": "sample rows share their IID with another FID",
}


@dataclass(frozen=True)
class InputNotes:
    """What was noticed while the tables were read."""

    negative_positions: int
    odd_positions: int


@dataclass(frozen=True)
class GenotypeTallies:
    """Sums over the genotypes that reach across variants.

    Attributes
    ----------
    counts : ndarray of int64, shape (m, 4)
        Samples of each raw value, per variant.
    uncalled_samples, heterozygous_haploids, female_y_calls : int
    """

    counts: npt.NDArray[np.int64]
    uncalled_samples: int
    heterozygous_haploids: int
    female_y_calls: int


def find_hazards(
    variants: VariantTable, samples: SampleTable, notes: InputNotes, tallies: GenotypeTallies
) -> Hazards:
    """Count the hazards of the variants and samples that were selected."""
    unnamed = variants.identifier == _NO_IDENTIFIER
    repeated = _in_repeated_rows(variants.identifier) & ~unnamed
    absent = _is_one_of(variants.allele1, _NO_ALLELE) | _is_one_of(variants.allele2, _NO_ALLELE)
    chromosome = canonical_chromosomes(variants)
    called = tallies.counts[:, [HOMOZYGOUS_A1, HETEROZYGOUS, HOMOZYGOUS_A2]].sum(axis=1)
    one_allele = (called > 0) & (
        (called == tallies.counts[:, HOMOZYGOUS_A1]) | (called == tallies.counts[:, HOMOZYGOUS_A2])
    )
    same_person = _in_repeated_rows(samples.family, samples.individual)
    same_individual = _in_repeated_rows(samples.individual)
    return Hazards(
        negative_positions=notes.negative_positions,
        odd_positions=notes.odd_positions,
        zero_positions=int(np.sum(variants.position == 0)),
        repeated_identifiers=int(repeated.sum()),
        absent_identifiers=int(unnamed.sum()),
        repeated_sites=int(_repeated_sites(variants, chromosome).sum()),
        identical_alleles=int(np.sum(variants.allele1 == variants.allele2)),
        absent_alleles=int(absent.sum()),
        unplaced_variants=int(np.sum(chromosome == UNPLACED)),
        unknown_chromosomes=int(np.sum(~_is_one_of(chromosome, HUMAN_CHROMOSOMES))),
        monomorphic_variants=int(one_allele.sum()),
        uncalled_variants=int(np.sum(called == 0)),
        uncalled_samples=tallies.uncalled_samples,
        heterozygous_haploids=tallies.heterozygous_haploids,
        female_y_calls=tallies.female_y_calls,
        repeated_samples=int(same_person.sum()),
        shared_individuals=int(np.sum(same_individual & ~same_person)),
    )


def canonical_chromosomes(variants: VariantTable) -> npt.NDArray[np.object_]:
    """Apply `canonical_chromosome` to every row, once per distinct code."""
    codes, spellings = pd.factorize(variants.chromosome)
    names = np.array([canonical_chromosome(code) for code in spellings], dtype=object)
    return np.asarray(names[codes], dtype=object)


def _repeated_sites(
    variants: VariantTable, chromosome: npt.NDArray[np.object_]
) -> npt.NDArray[np.bool_]:
    swap = variants.allele1 > variants.allele2
    first = np.where(swap, variants.allele2, variants.allele1)
    second = np.where(swap, variants.allele1, variants.allele2)
    return _in_repeated_rows(chromosome, variants.position, first, second)


def _is_one_of(column: npt.NDArray[np.object_], values: Collection[str]) -> npt.NDArray[np.bool_]:
    return np.asarray(pd.Series(column).isin(values))


def _in_repeated_rows(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Mask of the rows that are equal to another row in all `columns`."""
    frame = pd.DataFrame(dict(enumerate(columns)))
    return np.asarray(frame.duplicated(keep=False))
