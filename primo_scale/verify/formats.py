"""Rows and headers of the files with weights, which the writers and the checks share.

weights.tsv.gz and centre.afreq are tables of plink2. pgs/ has scoring files of the PGS Catalog
(format 2.0, https://www.pgscatalog.org/downloads/#dl_ftp_scoring), and sumstats/ summary statistics
in the GWAS Catalog's format (GWAS-SSF 1.0,
https://github.com/EBISPOT/gwas-summary-statistics-standard), one file per phenotype each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from primo_scale.errors import InputError
from primo_scale.verify import chromosomes, held_out_accuracy, words
from primo_scale.verify.document import Document
from primo_scale.verify.files import PGS_SUFFIX

Float64 = npt.NDArray[np.float64]

WEIGHTS_HEADER = ("ID", "effect_allele", "other_allele", "chrom", "pos")
# Columns of weights.tsv.gz before the weights: those of `WEIGHTS_HEADER` and the stamp.
#
# plink2 reads the first line of the table as names and accepts no comment before it. The stamp is
# therefore the name of a column, whose cells are `NO_ALLELE`.
NAMED_COLUMNS = len(WEIGHTS_HEADER) + 1
INTERCEPT = "(intercept)"
TERM_COLUMN, SCORE_COLUMN = "term", "score"
NO_ALLELE = "."
_MISSING_ALLELES = ("0", ".")  # PLINK 1's and PLINK 2's
# plink2 requires a count of observed alleles. The centres are not counted in the cohort, and the
# count of a reference panel is unknown here; 2 is the count of one diploid genotype.
CENTRE_ROW_END = "\t2\n"
_PGS_COLUMNS = "rsID\tchr_name\tchr_position\teffect_allele\tother_allele\teffect_weight"
_PGS_HEADER = """\
###PGS CATALOG SCORING FILE - see https://www.pgscatalog.org/downloads/#dl_ftp_scoring for additional information
#format_version=2.0
##POLYGENIC SCORE (PGS) INFORMATION
##{stamp}
#pgs_id={stem}
#pgs_name={stem}
#trait_reported={trait}
#genome_build={genome_build}
#variants_number={variants_number}
{scale}
"""  # noqa: E501 (the first line is the format's own)
_BETA = "#weight_type=beta"
_LOG_ODDS = """\
##log odds: weights of the 0/1 trait, divided by K(1 - K) for the public share of cases K = {share}
#weight_type=log(OR)"""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_STEM = 200  # of the 255 bytes of a file name; the suffix and temporary names need some
# Three columns follow those of GWAS-SSF: the variant's ID, the effective people, and the stamp.
_SUMSTATS_COLUMNS = (
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error",
    "effect_allele_frequency", "p_value", "rsid", "ID", "n_eff",
)  # fmt: skip
_NUCLEOTIDES = re.compile("[ACGTacgt]+")
_RSID = re.compile("rs[0-9]+")


# ---- weights.tsv.gz, covariates.tsv and centre.afreq ---------------------------------------------


class VariantRow(NamedTuple):
    """Variant in the columns of `WEIGHTS_HEADER`."""

    identifier: str
    effect: str
    other: str
    chromosome: str
    position: int | str


def weight_in_text(value: float) -> str:
    """Return a weight as the files state it, or an empty text if it is not finite.

    Nine significant digits have a relative error of at most 5e-9, far below that of noise and
    scoring programs. Those of a private release were rounded to three before.
    """
    return f"{value:.9g}" if math.isfinite(value) else ""


def weights_header(document: Document) -> str:
    """Return the first line of weights.tsv.gz."""
    names = [phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"]]
    return "\t".join((*WEIGHTS_HEADER, words.stamp_column(document), *names)) + "\n"


def covariates_header(document: Document, first: str = TERM_COLUMN) -> str:
    """Return the lines of covariates.tsv before the intercept."""
    names = (phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"])
    return f"##{words.stamp_of(document)}\n" + "\t".join((first, *names)) + "\n"


def stack_header(document: Document) -> str:
    """Return the lines of stack.tsv before the first score."""
    return covariates_header(document, SCORE_COLUMN)


def centre_header(document: Document) -> str:
    """Return the lines of centre.afreq before the first variant."""
    return f"##{words.stamp_of(document)}\n#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n"


def centre_row_prefix(row: VariantRow) -> str:
    """Return the row of a variant in centre.afreq without its frequency."""
    ref, alt = (NO_ALLELE if a in _MISSING_ALLELES else a for a in (row.other, row.effect))
    return f"{row.chromosome}\t{row.identifier}\t{ref}\t{alt}\t"


def centre_frequency(dosage: float) -> str:
    """Return the centre of a variant as an allele frequency in the notation of centre.afreq."""
    return f"{dosage / 2:.9g}"


def chromosomes_of(codes: Iterable[str]) -> list[str]:
    """Return the member `chromosomes` of release.json for chromosomes in any spelling."""
    return list(dict.fromkeys(map(chromosomes.canonical_chromosome, dict.fromkeys(codes))))


# ---- pgs/ ----------------------------------------------------------------------------------------


def pgs_file_stems(phenotypes: Sequence[str]) -> tuple[str, ...]:
    """Return a file name without suffix for each phenotype.

    Names consist of letters, digits, ``.``, ``_`` and ``-``. Any other character, and a first ``.``
    or ``-``, becomes ``_``, so that no file is hidden or outside the directory. Two phenotypes that
    would share a file, possibly on a file system that ignores case, are refused.
    """
    owner: dict[str, str] = {}
    stems = []
    for name in phenotypes:
        stem = _UNSAFE.sub("_", name)
        if stem[0] in ".-":
            stem = f"_{stem[1:]}"
        if len(stem) > _LONGEST_STEM:
            raise InputError(
                "a phenotype name is too long for a file name",
                where="release",
                value=f"{name[:40]}...",
                limit=f"{_LONGEST_STEM} characters",
                remedy="Rename the column",
            )
        other = owner.setdefault(stem.lower(), name)
        if other != name:
            what = f"the phenotypes {other!r} and {name!r} would share the file {stem}{PGS_SUFFIX}"
            raise InputError(what, where="release", remedy="Rename one of the columns")
        stems.append(stem)
    return tuple(stems)


def scaled_weights(weights: Iterable[str], share: float) -> list[float]:
    """Return weights of a binary trait as log odds ratios (Pirinen, Donnelly and Spencer 2013)."""
    return [float(weight) / (share * (1 - share)) for weight in weights]


def pgs_header(phenotype: Mapping[str, Any], document: Document) -> str:
    """Return the lines before the first variant, including the names of the columns.

    They omit the values that the Catalog assigns to an accepted score. `pgs_id` is the name of the
    file, as the PGS Catalog Calculator expects for a custom score.
    """
    name, share = phenotype["name"], held_out_accuracy.public_prevalence(phenotype)
    header = _PGS_HEADER.format(
        stamp=words.stamp_of(document),
        stem=pgs_file_stems([name])[0],
        trait=name.replace("=", "_"),  # the Catalog's reader splits the line at every "="
        genome_build=document["public_inputs"]["genome_build"],
        variants_number=document["cohort"]["n_variants"],
        scale=_BETA if share is None else _LOG_ODDS.format(share=repr(share)),
    )
    return f"{header}{_PGS_COLUMNS}\n"


def pgs_row_prefix(row: VariantRow) -> str:
    """Return the row of a variant without its weight; `rsID` has the ID in any notation.

    A variant of unknown location has no chromosome and position, which the format permits.
    """
    name, position = chromosomes.positioned_chromosome(row.chromosome), int(row.position)
    place = f"{name}\t{position}" if position > 0 and name != chromosomes.UNPLACED else "\t"
    return f"{row.identifier}\t{place}\t{row.effect}\t{row.other}\t"


# ---- sumstats/ (docs/maths/summary-statistics.md) ------------------------------------------------


def sumstats_header(document: Document) -> str:
    """Return the first line of every file."""
    return "\t".join((*_SUMSTATS_COLUMNS, words.stamp_column(document))) + "\n"


def fixed_text(row: VariantRow) -> tuple[str, str] | None:
    """Return the columns before `beta`, and rsid and ID, or None if the files leave it out.

    They leave out variants that are not at a position on an autosome, because the public variance
    is that of two copies, and those with alleles that are no nucleotides.
    """
    chromosome, position = chromosomes.canonical_chromosome(row.chromosome), int(row.position)
    is_usable = all(map(_NUCLEOTIDES.fullmatch, (row.effect, row.other)))
    if chromosome not in chromosomes.AUTOSOMES or position <= 0 or not is_usable:
        return None
    rsid = row.identifier if _RSID.fullmatch(row.identifier) else "#NA"
    before = f"{chromosome}\t{position}\t{row.effect}\t{row.other}\t"
    return before, f"\t{rsid}\t{row.identifier}\t"


def log10_p_values(beta: Float64, standard_error: Float64) -> Float64:
    """Return log10 of the two-sided p-values of normal effects; 0 where the error is 0."""
    z = np.divide(beta, standard_error, out=np.zeros_like(beta), where=standard_error > 0)
    return np.asarray(np.minimum((math.log(2) + log_ndtr(-np.abs(z))) / math.log(10), 0.0))


def effective_people(standard_error: Float64, frequency: Float64, sd: float) -> Float64:
    """Return the people in an ordinary GWAS with these errors; 0 where the error is 0."""
    zero = np.zeros_like(standard_error)
    precision = np.divide(sd, standard_error, out=zero, where=standard_error > 0)
    return np.asarray(precision**2 / (2 * frequency * (1 - frequency)))


def power_of_ten(exponent: float) -> str:
    """Return 10^exponent as text, also below the smallest float64."""
    whole = math.floor(exponent)
    digits = f"{10 ** (exponent - whole):.3f}"
    return f"1.000e{whole + 1}" if digits == "10.000" else f"{digits}e{whole}"
