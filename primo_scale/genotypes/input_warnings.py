"""Warnings about valid but suspicious features of a PLINK fileset.

They do not affect the computation. The counts come from genotypes and are private: only the
operator's terminal and the store hold them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.chromosomes import CHROMOSOME_X, canonical_chromosomes
from primo_scale.genotypes.tables import (
    MALE,
    UNPLACED,
    SampleTable,
    VariantTable,
)
from primo_scale.kernels.packed import (
    HETEROZYGOUS,
    HOMOZYGOUS_A1,
    HOMOZYGOUS_A2,
    PackedGenotypes,
    count_genotypes,
    repack,
)

_NO_ALLELE = frozenset({"0", "."})
_NO_IDENTIFIER = "."


@dataclass(frozen=True)
class InputWarnings:
    """Counts of suspicious features."""

    negative_positions: int  # variants of negative position, left out as in PLINK 2
    odd_positions: int  # positions such as 1.5e6x, read as their leading integer
    zero_positions: int  # variants at position 0
    repeated_identifiers: int  # variants that share their identifier with another
    absent_identifiers: int  # variants whose identifier is '.'
    repeated_sites: int  # variants that share chromosome, position and alleles with another
    identical_alleles: int  # variants with A1 equal to A2
    absent_alleles: int  # variants with an allele '0' or '.'
    unplaced_variants: int  # variants on chromosome 0
    monomorphic_variants: int  # variants whose calls are all homozygous for one allele
    uncalled_variants: int  # variants without a call
    uncalled_samples: int  # samples without a call
    heterozygous_haploids: int  # heterozygous calls on X in men
    repeated_samples: int  # rows that share FID and IID with another
    shared_individuals: int  # rows that share their IID with another FID

    def lines(self) -> list[str]:
        """Return one line for each count that is not zero, in the order of the fields."""
        return [
            f"{_DESCRIPTIONS[field.name]}: {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name)
        ]


_DESCRIPTIONS = {
    "negative_positions": "variants of negative position, left out as PLINK 2 does",
    "odd_positions": "positions that are not plain integers, read as their leading integer",
    "zero_positions": "variants at position 0",
    "repeated_identifiers": "variants that share their identifier (a release refuses them)",
    "absent_identifiers": "variants with the identifier '.'",
    "repeated_sites": "variants that share chromosome, position and alleles with another",
    "identical_alleles": "variants with two identical alleles",
    "absent_alleles": "variants with an allele '0' or '.', which no name can match",
    "unplaced_variants": "variants on chromosome 0",
    "monomorphic_variants": "monomorphic variants (kept: dropping them would reveal genotypes)",
    "uncalled_variants": "variants without any call (kept)",
    "uncalled_samples": "samples without any call (kept)",
    "heterozygous_haploids": "heterozygous calls on X in men, where one copy is expected",
    "repeated_samples": "sample rows that share FID and IID with another",
    "shared_individuals": "sample rows that share their IID with another FID",
}


@dataclass(frozen=True)
class InputNotes:
    """Counts from reading the tables, as in `InputWarnings`."""

    negative_positions: int
    odd_positions: int


@dataclass(frozen=True)
class GenotypeTallies:
    """Counts and checksums from copying the genotypes.

    Attributes
    ----------
    counts : ndarray of int64, shape (m, 4)
        Number of samples with each raw value, per variant.
    chunk_crc32c : ndarray of uint32, shape (partitions, chunks per partition)
        CRC-32C of each chunk.
    uncalled_samples : int
        Number of samples without a call.
    heterozygous_haploids : int
        Number of heterozygous calls on X in men.
    """

    counts: npt.NDArray[np.int64]
    chunk_crc32c: npt.NDArray[np.uint32]
    uncalled_samples: int
    heterozygous_haploids: int


def count_input_warnings(
    variants: VariantTable, samples: SampleTable, notes: InputNotes, tallies: GenotypeTallies
) -> InputWarnings:
    """Count the suspicious features of the selected variants and samples."""
    unnamed = variants.identifier == _NO_IDENTIFIER
    repeated = _in_repeated_rows(variants.identifier) & ~unnamed
    absent = _is_one_of(variants.allele1, _NO_ALLELE) | _is_one_of(variants.allele2, _NO_ALLELE)
    chromosome = canonical_chromosomes(variants)
    called = tallies.counts[:, [HOMOZYGOUS_A1, HETEROZYGOUS, HOMOZYGOUS_A2]].sum(axis=1)
    one_allele = (called > 0) & (
        (called == tallies.counts[:, HOMOZYGOUS_A1]) | (called == tallies.counts[:, HOMOZYGOUS_A2])
    )
    same_individual = _in_repeated_rows(samples.individual)
    same_person = same_individual.copy()  # only these rows can be repeated
    same_person[same_individual] = _in_repeated_rows(
        samples.family[same_individual], samples.individual[same_individual]
    )
    return InputWarnings(
        negative_positions=notes.negative_positions,
        odd_positions=notes.odd_positions,
        zero_positions=int(np.sum(variants.position == 0)),
        repeated_identifiers=int(repeated.sum()),
        absent_identifiers=int(unnamed.sum()),
        repeated_sites=int(_repeated_sites(variants, chromosome).sum()),
        identical_alleles=int(np.sum(variants.allele1 == variants.allele2)),
        absent_alleles=int(absent.sum()),
        unplaced_variants=int(np.sum(chromosome == UNPLACED)),
        monomorphic_variants=int(one_allele.sum()),
        uncalled_variants=int(np.sum(called == 0)),
        uncalled_samples=tallies.uncalled_samples,
        heterozygous_haploids=tallies.heterozygous_haploids,
        repeated_samples=int(same_person.sum()),
        shared_individuals=int(np.sum(same_individual & ~same_person)),
    )


def count_heterozygous_haploids(
    packed: PackedGenotypes, chromosome: npt.NDArray[np.object_], sex: npt.NDArray[np.int8]
) -> int:
    """Count heterozygous calls on X in men.

    Parameters
    ----------
    packed : ndarray of uint8, shape (v, ceil(n / 4))
        Genotypes of v variants and n people.
    chromosome : ndarray of object (str), shape (v,)
        Canonical chromosome codes.
    sex : ndarray of int8, shape (n,)
        Sex of each person, as in `SampleTable`.
    """
    on_x = chromosome == CHROMOSOME_X
    if not on_x.any():
        return 0
    men = np.flatnonzero(sex == MALE)
    return int(count_genotypes(repack(packed[on_x], men), len(men))[:, HETEROZYGOUS].sum())


def _repeated_sites(
    variants: VariantTable, chromosome: npt.NDArray[np.object_]
) -> npt.NDArray[np.bool_]:
    swap = variants.allele1 > variants.allele2
    first = np.where(swap, variants.allele2, variants.allele1)
    second = np.where(swap, variants.allele1, variants.allele2)
    repeated = _in_repeated_rows(chromosome, variants.position, first, second)
    return repeated & (variants.position > 0)  # position 0 means unknown, counted separately


def _is_one_of(column: npt.NDArray[np.object_], values: Collection[str]) -> npt.NDArray[np.bool_]:
    inside = map(frozenset(values).__contains__, column.tolist())
    return np.fromiter(inside, dtype=bool, count=len(column))


def _in_repeated_rows(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that equal another row in all `columns`."""
    import pandas as pd  # slow to import, and most runs reuse a store

    frame = pd.DataFrame(dict(enumerate(columns)))
    return np.asarray(frame.duplicated(keep=False))
