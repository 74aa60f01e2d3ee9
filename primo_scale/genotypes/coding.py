"""Public integer coding of genotypes.

Dosage g of variant j becomes ``k_j g - m_j``, and a missing genotype becomes 0. The multipliers k
and centres m are constants or come from a public reference panel, never from the cohort. The coding
is therefore a fixed function of one person's genotypes and costs no privacy
(docs/maths/clipping-and-integers.md, step 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.frequencies import MatchedFrequencies

LARGEST_CODE = 127
"""Largest magnitude of a code; with -128 excluded, int16 holds every product of two codes."""

REFERENCE_UNIT = 16
"""Standard deviation in lattice units of a variant in Hardy-Weinberg proportions, where int8 allows
it."""

SMALLEST_FREQUENCY = 1e-3
"""Smallest distance of a panel's frequencies from 0 and 1. A variant that is absent from a panel of
some hundreds of people is rare, but may exist."""

_UNINFORMATIVE_FREQUENCY = 0.5


@dataclass(frozen=True, eq=False)
class GenotypeCoding:
    """Public coding of the genotypes of d variants as int8."""

    multiplier: npt.NDArray[np.int16]  # k, at least 1, shape (d,)
    # Centres m. A missing genotype has the code 0, like ``m / k`` copies of A1. Shape (d,).
    centre: npt.NDArray[np.int16]
    # Standard deviation of a common variant in lattice units: 1 without frequencies, else 16.
    unit: int
    # Expected squared code of each variant, ``k^2 2p(1-p)``, shape (d,).
    variances: npt.NDArray[np.float64]
    source: str  # of the centres, for the report

    @property
    def n_variants(self) -> int:
        """Number of variants d."""
        return len(self.multiplier)

    @property
    def code_table(self) -> npt.NDArray[np.int8]:
        """Codes by raw PLINK value, int8 (d, 4): 0 hom A1, 1 missing, 2 het, 3 hom A2."""
        k, m = self.multiplier, self.centre
        return np.stack([2 * k - m, np.zeros_like(m), k - m, -m], axis=1).astype(np.int8)

    @property
    def variance(self) -> float:
        """Expected squared norm V of a row of codes."""
        return float(self.variances.sum())

    @property
    def max_code(self) -> int:
        """Largest magnitude in the code table."""
        return largest_code(self.code_table)

    @property
    def max_squared_norm(self) -> int:
        """Largest possible squared norm of a row."""
        return int((_largest_codes(self.code_table) ** 2).sum())

    @property
    def centre_dosage(self) -> npt.NDArray[np.float64]:
        """Dosage that has the code 0, ``m / k`` copies of A1, float64 (d,)."""
        return self.centre / self.multiplier.astype(np.float64)

    @property
    def frequency(self) -> npt.NDArray[np.float64]:
        """Public frequency p of A1, from its variance and the side of the centre, float64 (d,).

        It is 1/2 for a centre of one copy, which p within 0.012 of 1/2 have on either side.
        """
        heterozygosity = self.variances / self.multiplier.astype(np.float64) ** 2
        rarer = (1 - np.sqrt(np.maximum(1 - 2 * heterozygosity, 0))) / 2
        frequency = np.where(self.centre > self.multiplier, 1 - rarer, rarer)
        return np.where(self.centre == self.multiplier, 0.5, frequency)


def largest_code(code_table: npt.NDArray[np.int8]) -> int:
    """Return the largest magnitude in a code table of shape (d, 4)."""
    return int(_largest_codes(code_table).max(initial=0))


def largest_block_norms(
    code_table: npt.NDArray[np.int8], boundaries: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Return the largest possible squared norm of a row in each LD block, shape (blocks,)."""
    norms: npt.NDArray[np.int64] = np.add.reduceat(_largest_codes(code_table) ** 2, boundaries[:-1])
    return norms


def _largest_codes(code_table: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Return the largest magnitude of each variant's codes, shape (d,)."""
    return np.asarray(np.abs(code_table.astype(np.int64)).max(axis=1))


def uninformative_coding(n_variants: int) -> GenotypeCoding:
    """Return the coding without a panel: -1, 0 and 1 for 0, 1 and 2 copies of A1."""
    ones = np.ones(n_variants, dtype=np.int16)
    heterozygosity = 2 * _UNINFORMATIVE_FREQUENCY * (1 - _UNINFORMATIVE_FREQUENCY)
    return GenotypeCoding(
        multiplier=ones,
        centre=ones,
        unit=1,
        variances=np.full(n_variants, heterozygosity),
        source="uninformative centre of one copy",
    )


@lru_cache(maxsize=1)
def reference_coding(matched: MatchedFrequencies) -> GenotypeCoding:
    """Return the coding that centres and scales by the allele frequencies p of a public panel.

    ``k = round(16 / sqrt(2p(1-p)))`` and ``m = round(2pk)``. If a code would leave [-127, 127], k
    is reduced; this concerns A1 frequencies below about 0.03. Unmatched variants have p = 1/2.
    """
    p = np.where(np.isnan(matched.a1_frequency), _UNINFORMATIVE_FREQUENCY, matched.a1_frequency)
    p = np.clip(p, SMALLEST_FREQUENCY, 1 - SMALLEST_FREQUENCY)
    heterozygosity = 2 * p * (1 - p)
    multiplier = np.rint(REFERENCE_UNIT / np.sqrt(heterozygosity))
    # Homozygotes have the largest codes: about 2kp and 2k(1-p). Rounding can add one half.
    multiplier = np.minimum(multiplier, np.floor((LARGEST_CODE + 0.5) / (2 * np.maximum(p, 1 - p))))
    centre = np.rint(2 * p * multiplier)
    too_large = np.maximum(centre, 2 * multiplier - centre) > LARGEST_CODE
    multiplier -= too_large
    centre = np.rint(2 * p * multiplier)
    return GenotypeCoding(
        multiplier=multiplier.astype(np.int16),
        centre=centre.astype(np.int16),
        unit=REFERENCE_UNIT,
        variances=multiplier**2 * heterozygosity,
        source=f"allele frequencies of {matched.path.name} (SHA-256 {matched.sha256})",
    )


def default_row_norm(coding: GenotypeCoding) -> int:
    """Return the default public bound N_x on the squared norm of a row of genotype codes.

    Without frequencies it is the largest possible norm, so that no row is clipped. With frequencies
    it is ``(1 + 1 / sqrt(d)) V``, near the mean norm: a looser bound needs more noise than it saves
    clipping (docs/maths/clipping-and-integers.md). It is at most 2 V, and so at most the largest
    possible norm. The constant and the covariates are outcome columns and not part of the row.
    """
    if coding.unit == 1:
        return coding.max_squared_norm
    return math.ceil((1 + 1 / math.sqrt(coding.n_variants)) * coding.variance)


def block_row_norms(coding: GenotypeCoding, boundaries: tuple[int, ...]) -> tuple[int, ...]:
    """Return the default public bounds beta_b on the squared norm of a row in each LD block.

    With frequencies they are ``(1.3 + 8 / sqrt(d_b)) V_b``, which is looser than for a whole row,
    because codes of variants in linkage disequilibrium are large together. In blocks of 50 to 1000
    variants, they leave 96 to 98% of the rows of 1000 Genomes chromosome 22 unclipped, and all rows
    of the sparser HapMap3 (see docs/maths/blocks.md). Without frequencies no row is clipped.
    """
    largest = largest_block_norms(coding.code_table, boundaries)
    if coding.unit == 1:
        return tuple(largest.tolist())
    variance = np.add.reduceat(coding.variances, boundaries[:-1])
    typical = np.ceil((1.3 + 8 / np.sqrt(np.diff(boundaries))) * variance).astype(np.int64)
    return tuple(np.minimum(typical, largest).tolist())
