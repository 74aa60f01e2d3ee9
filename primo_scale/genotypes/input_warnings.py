"""Warnings about valid but suspicious features of a PLINK fileset.

They do not affect the computation. The counts come from genotypes and are private: only the
operator's terminal and the store hold them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.chromosomes import canonical_chromosomes
from primo_scale.genotypes.ingest_plan import IngestPlan
from primo_scale.genotypes.partitions import PartitionRecord
from primo_scale.genotypes.tables import StringColumn, VariantTable, is_one_of
from primo_scale.kernels.packed import HETEROZYGOUS, HOMOZYGOUS_A1, HOMOZYGOUS_A2
from primo_scale.verify.chromosomes import UNPLACED

_NO_ALLELE = frozenset({"0", "."})
_NO_IDENTIFIER = "."


def _described(words: str) -> Any:
    return field(metadata={"words": words})


@dataclass(frozen=True)
class InputWarnings:
    """Counts of suspicious features."""

    negative_positions: int = _described("variants of negative position, left out as PLINK 2 does")
    odd_positions: int = _described(
        "positions that are not plain integers, read as their leading integer"
    )
    zero_positions: int = _described("variants at position 0")
    repeated_identifiers: int = _described(
        "variants that share their identifier (a release refuses them)"
    )
    absent_identifiers: int = _described("variants with the identifier '.'")
    repeated_sites: int = _described(
        "variants that share chromosome, position and alleles with another"
    )
    identical_alleles: int = _described("variants with two identical alleles")
    absent_alleles: int = _described("variants with an allele '0' or '.', which no name can match")
    unplaced_variants: int = _described("variants on chromosome 0")
    monomorphic_variants: int = _described(
        "monomorphic variants (kept: dropping them would reveal genotypes)"
    )
    uncalled_variants: int = _described("variants without any call (kept)")
    uncalled_samples: int = _described("samples without any call (kept)")
    heterozygous_haploids: int = _described(
        "heterozygous calls on X in men, where one copy is expected"
    )
    repeated_samples: int = _described("sample rows that share FID and IID with another")
    shared_individuals: int = _described(
        "sample rows that share their IID with another FID (a private release refuses them)"
    )

    def lines(self) -> list[str]:
        """Return one line for each count that is not zero, in the order of the fields."""
        counts = ((each.metadata["words"], getattr(self, each.name)) for each in fields(self))
        return [f"{words}: {count}" for words, count in counts if count]


def count_input_warnings(plan: IngestPlan, record: PartitionRecord) -> InputWarnings:
    """Count the suspicious features of an ingest; `record` is that of all its partitions."""
    variants, samples, counts = plan.variants, plan.samples, record.counts
    unnamed = variants.identifier == _NO_IDENTIFIER
    repeated = _in_repeated_rows(variants.identifier) & ~unnamed
    absent = is_one_of(variants.allele1, _NO_ALLELE) | is_one_of(variants.allele2, _NO_ALLELE)
    chromosome = canonical_chromosomes(variants)
    called = counts[:, [HOMOZYGOUS_A1, HETEROZYGOUS, HOMOZYGOUS_A2]].sum(axis=1)
    one_allele = (called > 0) & (
        (called == counts[:, HOMOZYGOUS_A1]) | (called == counts[:, HOMOZYGOUS_A2])
    )
    same_individual = _in_repeated_rows(samples.individual)
    same_person = same_individual.copy()  # only these rows can be repeated
    same_person[same_individual] = _in_repeated_rows(
        samples.family[same_individual], samples.individual[same_individual]
    )
    return InputWarnings(
        negative_positions=int(np.sum(plan.source.variants.position < 0)),
        odd_positions=plan.source.odd_positions,
        zero_positions=int(np.sum(variants.position == 0)),
        repeated_identifiers=int(repeated.sum()),
        absent_identifiers=int(unnamed.sum()),
        repeated_sites=int(_repeated_sites(variants, chromosome).sum()),
        identical_alleles=int(np.sum(variants.allele1 == variants.allele2)),
        absent_alleles=int(absent.sum()),
        unplaced_variants=int(np.sum(chromosome == UNPLACED)),
        monomorphic_variants=int(one_allele.sum()),
        uncalled_variants=int(np.sum(called == 0)),
        uncalled_samples=int(np.unpackbits(record.never_called).sum()),
        heterozygous_haploids=int(record.heterozygous_haploids),
        repeated_samples=int(same_person.sum()),
        shared_individuals=int(np.sum(same_individual & ~same_person)),
    )


def _repeated_sites(variants: VariantTable, chromosome: StringColumn) -> npt.NDArray[np.bool_]:
    swap = variants.allele1 > variants.allele2
    first = np.where(swap, variants.allele2, variants.allele1)
    second = np.where(swap, variants.allele1, variants.allele2)
    repeated = _in_repeated_rows(chromosome, variants.position, first, second)
    return repeated & (variants.position > 0)  # position 0 means unknown, counted separately


def _in_repeated_rows(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that equal another row in all `columns`."""
    hashes = np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, len(columns[0]))
    _, place, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    repeated = counts[place] > 1
    rows = list(zip(*(column[repeated] for column in columns), strict=True))
    times = Counter(rows)  # different rows can have one hash
    repeated[repeated] = [times[row] > 1 for row in rows]
    return repeated
