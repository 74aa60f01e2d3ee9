"""Genotypes of VCF: how alleles and the fields DS and GP become copies of the ALT allele.

Phase is ignored, one copy of a haploid person counts as two, as plink2 imports it, and a genotype
with one missing allele is missing (``--vcf-half-call missing``). The dosage of a person is DS, or
else the mean of GP, or else the called genotype.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.dosage_bytes import UNITS, byte_of_units

MOST_PLOIDY = 2
_MISSING, _NO_ALLELE = -1, -2  # the second fills up a haploid genotype


def copies_of_fields(called: list[int], numbers: list[float]) -> float:
    """Return the copies of ALT of a genotype by the definition, slowly; nan if it is missing.

    `numbers` are DS or GP, or nan for those of a hard call.
    """
    alleles = [allele for allele in called if allele != _NO_ALLELE]
    if len(numbers) > 1:
        numbers = numbers[: len(alleles) + 1]
        numbers = [sum(i * p for i, p in enumerate(numbers)) / (sum(numbers) or math.nan)]
    copies = numbers[0]
    if math.isnan(copies):
        copies = math.nan if _MISSING in alleles else sum(alleles)
    return copies * MOST_PLOIDY / len(alleles) if alleles else math.nan


@compiled
def read_dosages(
    fields: Any, alleles: Any, rows: Any, columns: Any, called: Any, result: Any
) -> Any:
    """Write dosages of rows and columns of (v, n, numbers) as bytes; False: one is impossible."""
    last_allele = alleles.shape[2] - 1
    for i in range(len(rows)):
        for j in range(len(columns)):
            numbers = fields[rows[i], columns[j]]
            haploid = last_allele == 0 or alleles[rows[i], columns[j], last_allele] == _NO_ALLELE
            copies: Any = np.float64(numbers[0])
            if len(numbers) > 1:
                two = np.float64(0) if haploid else np.float64(numbers[2])
                total = copies + np.float64(numbers[1]) + two
                copies = (np.float64(numbers[1]) + 2 * two) / total if total > 0 else np.nan
            copies = 2 * copies if haploid else copies
            if np.isnan(copies):
                copies = np.float64(called[i, j])
            elif not 0 <= copies <= 3:  # int64 has no infinity
                return False
            units = np.int64(copies * UNITS + 0.5) if copies >= 0 else np.int64(-1)
            if units > 2 * UNITS:
                return False
            result[i, j] = byte_of_units(units)
    return True


@compiled
def count_copies(alleles: Any, rows: Any, columns: Any, copies: Any) -> Any:
    """Count allele 1 in rows and columns of (v, n, ploidy), -1 where missing; False: allele 2."""
    last_allele = alleles.shape[2] - 1
    for i in range(len(rows)):
        for j in range(len(columns)):
            first = alleles[rows[i], columns[j], 0]
            last = alleles[rows[i], columns[j], last_allele]
            if first > 1 or last > 1:
                return False
            if last == _NO_ALLELE:
                last = first
            copies[i, j] = first + last if first >= 0 and last >= 0 else -1
    return True
