"""Public integer coding of genotypes, and the public allele frequencies that it rests on.

Dosage g of variant j becomes ``k_j g - m_j``, and a missing genotype becomes 0. The multipliers k
and centres m are constants or come from a public reference panel, never from the cohort. The coding
is therefore a fixed function of one person's genotypes and costs no privacy
(docs/maths/planning.md, step 1).

Of the cohort, only the .bim file is read here, which is public as the panel's is. Two files may
name the alleles of a variant on either strand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable, table_lines, utf8_text
from primo_scale.storage.files import sha256_of_file

LEAST_MATCHED = 0.1
"""Smallest share of the variants that a panel must match. A panel with another kind of identifiers
matches a few variants by chance, and a suitable panel nearly all."""
MOST_MATCHED = 0.75
"""Share of the variants below which a panel that matches them is warned of."""
NO_IDENTIFIER = "."
_REQUIRED_COLUMNS = ("ID", "REF", "ALT", "ALT_FREQS", "OBS_CT")
_COUNTS = "ALT_CTS"  # of plink2 --freq counts, in place of ALT_FREQS
_REMEDY = "Write it with 'plink2 --freq' on the reference panel"
_COMPLEMENT = str.maketrans("ACGT", "TGCA")

Alleles = tuple[str, str]
"""Counted allele and other allele of a variant."""


def compare_alleles(found: Alleles, wanted: Alleles) -> tuple[bool, bool] | None:
    """Return whether `found` has the alleles of `wanted` swapped and flipped, or None if neither.

    Swapped alleles have the other allele counted; flipped ones are those of the other strand.
    Alleles A/T and C/G are taken as labelled, because their strand is unknown.
    """
    alleles: tuple[str | None, str | None] = found
    # An ambiguous pair is its own complement, so that it matches unflipped or not at all.
    for flipped in (False, True):
        if alleles == wanted:
            return False, flipped
        if alleles == wanted[::-1]:
            return True, flipped
        alleles = (_other_strand(found[0]), _other_strand(found[1]))
    return None


def strand_is_unknown(allele1: str, allele2: str) -> bool:
    """Return whether the alleles are A and T, or C and G."""
    return _other_strand(allele1) == allele2


def _other_strand(allele: str) -> str | None:
    """Return the allele on the other strand, or None if it has letters other than A, C, G, T."""
    return None if set(allele) - set("ACGT") else allele[::-1].translate(_COMPLEMENT)


@dataclass(frozen=True)
class MatchCounts:
    """Numbers of variants of one side, such as a score, by what the other side has for them."""

    total: int
    matched: int
    swapped: int = 0  # matched variants whose counted allele is the other side's other allele
    flipped: int = 0  # matched variants on the other strand (A for T, C for G)
    ambiguous: int = 0  # matched variants with alleles A/T or C/G, taken as labelled
    mismatched: int = 0  # variants with other alleles on the other side
    absent: int = 0  # variants that the other side does not have, or has no calls of

    def in_words(self) -> str:
        """Return the numbers on one line, without zeros."""
        details = {"swapped": self.swapped, "flipped": self.flipped}
        details["of unknown strand"] = self.ambiguous
        others = {"absent": self.absent, "with other alleles": self.mismatched}
        matched, missing = (
            ", ".join(f"{number} {what}" for what, number in part.items() if number)
            for part in (details, others)
        )
        line = f"{self.matched} of {self.total} variants matched"
        return line + (f" ({matched})" if matched else "") + (f"; {missing}" if missing else "")


@dataclass(frozen=True, eq=False)
class MatchedFrequencies:
    """Frequency of A1 in a public panel for each variant of a cohort."""

    # Frequency in [0, 1]; nan without a usable entry in the panel, shape (d,).
    a1_frequency: npt.NDArray[np.float64]
    counts: MatchCounts  # of the cohort's variants
    path: Path  # of the panel
    sha256: str  # digest of the panel, as hexadecimal text
    n_alleles: float = 0.0  # median number of observed alleles (OBS_CT) of the matched variants


def refuse_few_matches(matched: MatchedFrequencies) -> None:
    """Refuse a panel that matches less than `LEAST_MATCHED` of the variants."""
    counts = matched.counts
    if counts.matched >= LEAST_MATCHED * counts.total:
        return
    remedy = "Give the panel the identifiers of the .bim file (plink2 --set-all-var-ids)"
    if counts.mismatched > counts.absent:
        remedy = "Write the alleles of both in capitals, and compare their genome builds"
    raise InputError(
        f"has frequencies for {counts.matched} of {counts.total} variants: "
        f"{counts.absent} identifiers are not in it and {counts.mismatched} have other alleles",
        where=matched.path,
        limit=f"at least {LEAST_MATCHED:.0%} of the variants",
        remedy=f"{remedy}, or leave --ref-freq out",
    )


def read_reference_frequencies(path: Path, variants: VariantTable) -> MatchedFrequencies:
    """Look up the frequency of every variant's A1 in a public panel.

    The table was written by ``plink2 --freq`` or ``--freq counts``, and may be compressed. A row
    matches a variant with the same identifier and the same two alleles, in either order.
    Alleles other than A/T and C/G also match on the other strand. If the panel repeats an
    identifier, the row with matching alleles counts; two of them are refused. The identifier ``.``
    never matches. Malformed tables are refused.
    """
    rows_of_identifier: dict[str, list[int]] = defaultdict(list)
    for index, identifier in enumerate(variants.identifier):
        if identifier != NO_IDENTIFIER:
            rows_of_identifier[identifier].append(index)
    frequency, n_alleles = np.full(len(variants), np.nan), np.zeros(len(variants))
    line_of_match = np.zeros(len(variants), dtype=np.int64)
    mismatched, swapped, flipped = np.zeros((3, len(variants)), dtype=np.bool_)
    for line, identifier, alleles, alternate, observed in _panel_rows(path):
        for index in rows_of_identifier.get(identifier, ()):
            found = compare_alleles(alleles, (variants.allele1[index], variants.allele2[index]))
            if found is None or math.isnan(alternate):
                mismatched[index] = True
                continue
            if line_of_match[index]:
                raise InputError(
                    f"two rows match variant {identifier} (the other is line "
                    f"{line_of_match[index]})",
                    where=f"{path}:{line}",
                    remedy="Remove all rows but one for each variant",
                )
            line_of_match[index], (swapped[index], flipped[index]) = line, found
            frequency[index] = 1.0 - alternate if swapped[index] else alternate
            n_alleles[index] = int(observed) if observed.isdecimal() else 0
    matched = line_of_match > 0
    ambiguous = (
        strand_is_unknown(variants.allele1[index], variants.allele2[index])
        for index in np.flatnonzero(matched)
    )
    counts = MatchCounts(
        total=len(variants),
        matched=int(matched.sum()),
        swapped=int(swapped.sum()),
        flipped=int(flipped.sum()),
        ambiguous=sum(ambiguous),
        mismatched=int(np.sum(~matched & mismatched)),
        absent=int(np.sum(~matched & ~mismatched)),
    )
    median = float(np.median(n_alleles[matched])) if matched.any() else 0.0
    return MatchedFrequencies(frequency, counts, path, sha256_of_file(path), median)


def _panel_rows(path: Path) -> Iterator[tuple[int, str, Alleles, float, str]]:
    """Yield line, ID, alleles (ALT, REF), frequency of ALT and OBS_CT of rows that have calls.

    The frequency is nan where several alternate alleles have one each.
    """
    columns: list[int] | None = None
    counts, file = False, str(path)
    for line, cells in table_lines(path):
        where = f"{file}:{line}"
        if columns is None:
            tokens = [utf8_text(cell, path, line) for cell in cells]
            if tokens[0].startswith("##"):
                continue
            counts = _COUNTS in tokens
            tokens = ["ALT_FREQS" if token == _COUNTS else token for token in tokens]
            names = [token.lstrip("#") for token in tokens]
            if missing := [name for name in _REQUIRED_COLUMNS if name not in names]:
                what = f"no column {', '.join(missing)} in the header"
                raise InputError(what, where=where, value=" ".join(tokens)[:80], remedy=_REMEDY)
            columns = [names.index(name) for name in _REQUIRED_COLUMNS]
            last = max(columns)
            continue
        if len(cells) <= last:
            raise InputError(
                "the row is shorter than the header",
                where=where,
                value=f"{len(cells)} columns",
                remedy=_REMEDY,
            )
        identifier, reference, alternate, frequency, observed = (
            utf8_text(cells[column], path, line) for column in columns
        )
        if "," in alternate:
            yield line, identifier, (alternate, reference), math.nan, observed
            continue
        value = _frequency(frequency, where, observed if counts else "1")
        if observed != "0" and not math.isnan(value):
            yield line, identifier, (alternate, reference), value, observed
    if columns is None:
        raise InputError("has no header", where=path, remedy=_REMEDY)


def _frequency(token: str, where: str, observed: str) -> float:
    """Return the number in a cell divided by the number of `observed` alleles; nan if unknown."""
    try:
        among = float(observed)
        value = float(token) / among if among else math.nan
    except ValueError:
        value = math.nan if token == "NA" else math.inf
    if not (math.isnan(value) or 0.0 <= value <= 1.0):
        what = "the allele frequency is not a number in [0, 1]"
        raise InputError(what, where=where, value=token, remedy=_REMEDY)
    return value


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
    clipping (docs/maths/planning.md). It is at most 2 V, and so at most the largest
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
    of the sparser HapMap3 (see docs/maths/sensitivity.md). Without frequencies no row is clipped.
    """
    largest = largest_block_norms(coding.code_table, boundaries)
    if coding.unit == 1:
        return tuple(largest.tolist())
    variance = np.add.reduceat(coding.variances, boundaries[:-1])
    typical = np.ceil((1.3 + 8 / np.sqrt(np.diff(boundaries))) * variance).astype(np.int64)
    return tuple(np.minimum(typical, largest).tolist())
