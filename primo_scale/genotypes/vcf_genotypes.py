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
from primo_scale.kernels.packed import code_of_copies

MOST_PLOIDY = 2
_MISSING, _NO_ALLELE = -1, -2  # the second fills up a haploid genotype


def code_of_alleles(called: list[int]) -> int:
    """Return the two-bit code of a genotype by its definition, slowly."""
    alleles = [allele for allele in called if allele != _NO_ALLELE]
    if not alleles or _MISSING in alleles:
        return code_of_copies(-1)
    return code_of_copies(sum(alleles) * MOST_PLOIDY // len(alleles))


def units_of_fields(called: list[int], numbers: list[float]) -> int:
    """Return the dosage of a genotype in units by its definition, slowly; -1 if it is missing."""
    alleles = [allele for allele in called if allele != _NO_ALLELE]
    if len(numbers) > 1:
        numbers = numbers[: len(alleles) + 1]
        numbers = [sum(i * p for i, p in enumerate(numbers)) / (sum(numbers) or math.nan)]
    copies = sum(alleles) if math.isnan(numbers[0]) else numbers[0]
    if math.isnan(numbers[0]) and _MISSING in alleles:
        return -1
    return math.floor(copies * MOST_PLOIDY / len(alleles) * UNITS + 0.5)


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
