"""Matching of public allele frequencies (``plink2 --freq``) to the variants of a cohort.

This module reads only the panel's file and the cohort's .bim file, which are both public.
Two files may name the alleles of a variant on either strand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
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
        """Return the numbers on one line."""
        return (
            f"{self.matched} of {self.total} variants matched ({self.swapped} swapped, "
            f"{self.flipped} flipped, {self.ambiguous} of unknown strand); {self.absent} absent, "
            f"{self.mismatched} with other alleles"
        )


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
            columns = _find_columns(tokens, where)
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


def _find_columns(header: list[str], where: str) -> list[int]:
    """Return the indices of the columns in `_REQUIRED_COLUMNS`, in that order."""
    names = [name.lstrip("#") for name in header]
    missing = [name for name in _REQUIRED_COLUMNS if name not in names]
    if missing:
        raise InputError(
            f"no column {', '.join(missing)} in the header",
            where=where,
            value=" ".join(header)[:80],
            remedy=_REMEDY,
        )
    return [names.index(name) for name in _REQUIRED_COLUMNS]


def _frequency(token: str, where: str, observed: str) -> float:
    """Return the number in a cell divided by the number of `observed` alleles; nan if unknown."""
    try:
        among = float(observed)
        value = float(token) / among if among else math.nan
    except ValueError:
        value = math.nan if token == "NA" else math.inf
    if not (math.isnan(value) or 0.0 <= value <= 1.0):
        raise InputError(
            "the allele frequency is not a number in [0, 1]",
            where=where,
            value=token,
            remedy=_REMEDY,
        )
    return value
