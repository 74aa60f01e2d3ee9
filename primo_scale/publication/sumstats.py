"""Summary statistics in the GWAS Catalog's format (GWAS-SSF 1.0), one file per phenotype.

Format: https://github.com/EBISPOT/gwas-summary-statistics-standard. Three columns follow those of
the format: the variant ID of weights.tsv.gz, the effective number of people, and the stamp, which
is the name of a column as in weights.tsv.gz. `docs/maths/summary-statistics.md` derives the values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from primo_scale.genotypes.tables import VariantTable, canonical_chromosome
from primo_scale.publication.document import Document
from primo_scale.publication.gzip_files import write_gzip
from primo_scale.publication.pgs import pgs_file_stems
from primo_scale.publication.weights import (
    ScoringWeights,
    SummaryStatistics,
    VariantRow,
    variant_rows,
)
from primo_scale.publication.wording import stamp_column

Float64 = npt.NDArray[np.float64]

SUMSTATS_SUFFIX = ".tsv.gz"
_COLUMNS = (
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error",
    "effect_allele_frequency", "p_value", "rsid", "ID", "n_eff",
)  # fmt: skip
_AUTOSOMES = frozenset(map(str, range(1, 23)))
_NUCLEOTIDES = re.compile("[ACGTacgt]+")
_RSID = re.compile("rs[0-9]+")
_P_VALUE = re.compile(r"[1-9]\.[0-9]{3}e(?:0|-[1-9][0-9]*)")
_MISSING = "#NA"


class FixedText(NamedTuple):
    """Columns of a row that do not depend on the phenotype."""

    before: str  # columns before `beta`
    after: str  # rsid and ID


def fixed_text(row: VariantRow) -> FixedText | None:
    """Return the public columns of a variant, or None if the files leave it out.

    They leave out variants that are not at a position on an autosome, because the public variance
    is that of two copies, and those with alleles that are no nucleotides.
    """
    chromosome, position = canonical_chromosome(row.chromosome), int(row.position)
    alleles = (row.effect, row.other)
    if (
        chromosome not in _AUTOSOMES
        or position <= 0
        or not all(map(_NUCLEOTIDES.fullmatch, alleles))
    ):
        return None
    rsid = row.identifier if _RSID.fullmatch(row.identifier) else _MISSING
    before = f"{chromosome}\t{position}\t{row.effect}\t{row.other}\t"
    return FixedText(before, f"\t{rsid}\t{row.identifier}\t")


def count_left_out(variants: VariantTable) -> int:
    """Return the number of variants that the files leave out."""
    return sum(fixed_text(row) is None for row in variant_rows(variants))


def sumstats_header(document: Document) -> str:
    """Return the first line of every file."""
    return "\t".join((*_COLUMNS, stamp_column(document))) + "\n"


def log10_p_values(beta: Float64, standard_error: Float64) -> Float64:
    """Return log10 of the two-sided p-values of normal effects; 0 where the error is 0."""
    z = np.divide(beta, standard_error, out=np.zeros_like(beta), where=standard_error > 0)
    return np.asarray(np.minimum((math.log(2) + log_ndtr(-np.abs(z))) / math.log(10), 0.0))


def effective_people(standard_error: Float64, frequency: Float64, sd: float) -> Float64:
    """Return the people in an ordinary GWAS with these errors; 0 where the error is 0."""
    zero = np.zeros_like(standard_error)
    precision = np.divide(sd, standard_error, out=zero, where=standard_error > 0)
    return np.asarray(precision**2 / (2 * frequency * (1 - frequency)))


def write_sumstats(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write ``DIRECTORY/<phenotype>.tsv.gz`` for every phenotype with a variance.

    Without noise, the effects of a phenotype without variance would have standard errors of 0.
    """
    summary = weights.summary
    if summary is None:
        raise ValueError("the release states summary statistics that were not computed")
    texts = list(map(fixed_text, variant_rows(weights.variants)))
    kept = [j for j, text in enumerate(texts) if text is not None]
    fixed = [text for text in texts if text is not None]
    phenotypes = document["public_inputs"]["phenotypes"]
    for k, stem in enumerate(pgs_file_stems(weights.phenotypes)):
        if not summary.standard_error[:, k].any():
            continue
        directory.mkdir(exist_ok=True)
        numbers = _number_columns(summary, kept, k, phenotypes[k]["sd"])
        rows = (
            f"{text.before}{first}{text.after}{people}\t.\n".encode()
            for text, (first, people) in zip(fixed, numbers, strict=True)
        )
        lines = chain([sumstats_header(document).encode()], rows)
        write_gzip(directory / f"{stem}{SUMSTATS_SUFFIX}", lines)


def _number_columns(
    summary: SummaryStatistics, kept: list[int], k: int, sd: float
) -> Iterator[tuple[str, str]]:
    """Yield beta to p_value, and n_eff, which follow from the rounded effect and error."""
    beta = [f"{value:.6g}" for value in summary.beta[kept, k].tolist()]
    error = [f"{value:.6g}" for value in summary.standard_error[kept, k].tolist()]
    frequency = [f"{value:.5g}" for value in summary.frequency[kept].tolist()]
    rounded = np.array(error, dtype=np.float64)
    log10_p = log10_p_values(np.array(beta, dtype=np.float64), rounded).tolist()
    people = effective_people(rounded, np.array(frequency, dtype=np.float64), sd).tolist()
    for row in zip(beta, error, frequency, map(power_of_ten, log10_p), people, strict=True):
        yield "\t".join(row[:4]), f"{row[4]:.6g}"


def are_as_written(beta: str, error: str, frequency: str, p_value: str, people: str) -> bool:
    """Return whether the numbers of a row have the digits that `write_sumstats` writes."""
    return (
        all(f"{float(text):.6g}" == text for text in (beta, error, people))
        and f"{float(frequency):.5g}" == frequency
        and _P_VALUE.fullmatch(p_value) is not None
    )


def power_of_ten(exponent: float) -> str:
    """Return 10^exponent as text, also below the smallest float64."""
    whole = math.floor(exponent)
    digits = f"{10 ** (exponent - whole):.3f}"
    return f"1.000e{whole + 1}" if digits == "10.000" else f"{digits}e{whole}"
