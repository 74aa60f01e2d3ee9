"""Scoring weights of a release, in files for ``plink2 --score``."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.chromosomes import CHROMOSOME_X
from primo_scale.genotypes.tables import VariantTable, canonical_chromosome
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import CENTRE_FILE, WEIGHTS_FILE
from primo_scale.publication.gzip_files import write_gzip
from primo_scale.publication.wording import stamp_column, stamp_of

WEIGHTS_HEADER = ("ID", "effect_allele", "other_allele", "chrom", "pos")
NAMED_COLUMNS = len(WEIGHTS_HEADER) + 1
"""Columns of weights.tsv.gz before the weights: those of `WEIGHTS_HEADER` and the stamp.

plink2 reads the first line of the table as names and accepts no comment before it. The stamp is
therefore the name of a column, whose cells are `NO_ALLELE`.
"""
INTERCEPT = "(intercept)"
TERM_COLUMN = "term"

# Nine significant digits have a relative error of at most 5e-9, far below that of noise and scoring
# programs, and take two thirds of the size of 17 digits. Those of a private release were rounded to
# fewer before (`primo_scale.methods.dosage_scale.PRIVATE_DIGITS`).
_WEIGHT_FORMAT = "%.9g"
NO_ALLELE = "."
_MISSING_ALLELES = ("0", ".")  # PLINK 1's and PLINK 2's
# plink2 requires a count of observed alleles. The centres are not counted in the cohort, and the
# count of a reference panel is unknown here; 2 is the count of one diploid genotype.
CENTRE_ROW_END = "\t2\n"
# plink2 --xchr-model 2, its default, counts a man's single copy on X as two copies.
_MALES_ON_X, _XCHR_MODEL = "0/2", 2


@dataclass(frozen=True)
class SummaryStatistics:
    """Marginal effects of d variants on l phenotypes."""

    beta: npt.NDArray[np.float64]  # phenotype units per copy of allele1, shape (d, l)
    standard_error: npt.NDArray[np.float64]  # of sampling and noise together, shape (d, l)
    # Public reference frequency of allele1, in (0, 1), shape (d,).
    frequency: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoringWeights:
    """Linear predictors of l phenotypes, in raw units.

    For a person with g copies of allele1 (`centre_dosage` where missing) and covariates u::

        prediction = intercept + g @ per_allele + u @ covariate_weights
    """

    variants: VariantTable  # d variants; allele1 is the effect allele
    phenotypes: tuple[str, ...]  # l names
    per_allele: npt.NDArray[np.float64]  # phenotype units per copy of allele1, shape (d, l)
    # Phenotype units, for no copies of allele1 and covariates of zero, shape (l,).
    intercept: npt.NDArray[np.float64]
    covariates: tuple[str, ...]  # c names
    # Phenotype units per raw covariate unit, shape (c, l).
    covariate_weights: npt.NDArray[np.float64]
    # Public dosage of allele1 in [0, 2] that replaces a missing genotype, shape (d,).
    centre_dosage: npt.NDArray[np.float64]
    # Marginal effects, if the release publishes them.
    summary: SummaryStatistics | None = None


class VariantRow(NamedTuple):
    """Variant in the columns of `WEIGHTS_HEADER`."""

    identifier: str
    effect: str
    other: str
    chromosome: str
    position: int | str


def variant_rows(variants: VariantTable) -> Iterator[VariantRow]:
    """Yield the variants of a table."""
    columns = (variants.identifier, variants.allele1, variants.allele2, variants.chromosome)
    return map(VariantRow, *columns, variants.position.tolist())


def weight_in_text(value: float) -> str:
    """Return a weight in the notation of weights.tsv.gz, or an empty text if it is not finite."""
    return _WEIGHT_FORMAT % value if math.isfinite(value) else ""


def weights_in_text(values: Sequence[float]) -> str:
    """Return finite weights in the notation of weights.tsv.gz, with tabs between them."""
    return "\t".join([_WEIGHT_FORMAT] * len(values)) % tuple(values)


def write_weights(path: Path, weights: ScoringWeights, document: Document) -> None:
    """Write weights.tsv.gz: a header and one row per variant, tab-separated."""
    from primo_scale.publication.weight_rows import RowBeginnings  # a verifier has no Numba

    names = (*WEIGHTS_HEADER, stamp_column(document), *weights.phenotypes)
    rows = variant_rows(weights.variants)
    beginnings = RowBeginnings.of("\t".join((*row[:-1], f"{row.position}\t.\t")) for row in rows)
    header = "\t".join(names) + "\n"
    write_gzip(path, chain([header.encode()], beginnings.with_weights(weights.per_allele)))


def write_covariates(path: Path, weights: ScoringWeights, document: Document) -> None:
    """Write covariates.tsv: the stamp, a header, the intercept, and one row per covariate."""
    rows = np.vstack([weights.intercept, weights.covariate_weights]).tolist()
    lines = [
        "\t".join((name, *map(weight_in_text, values))) + "\n"
        for name, values in zip((INTERCEPT, *weights.covariates), rows, strict=True)
    ]
    path.write_text("".join([covariates_header(document), *lines]), encoding="utf-8")


def covariates_header(document: Document) -> str:
    """Return the lines of covariates.tsv before the intercept."""
    names = (phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"])
    return f"##{stamp_of(document)}\n" + "\t".join((TERM_COLUMN, *names)) + "\n"


def write_centre_afreq(path: Path, weights: ScoringWeights, document: Document) -> None:
    """Write the public centres as a ``plink2 --freq`` file, for ``plink2 --read-freq``.

    With this file, plink2 replaces a missing genotype by the dosage with which the weights were
    fitted. REF is allele2 and ALT is allele1, as plink2 reads a .bim file. An absent allele is
    ``.``, because plink2 2.00a3.5 crashes on ``0``.
    """
    rows = variant_rows(weights.variants)
    with path.open("w", encoding="utf-8") as file:
        file.write(centre_header(document))
        for row, dosage in zip(rows, weights.centre_dosage.tolist(), strict=True):
            file.write(f"{centre_row_prefix(row)}{centre_frequency(dosage)}{CENTRE_ROW_END}")


def centre_header(document: Document) -> str:
    """Return the lines of centre.afreq before the first variant."""
    return f"##{stamp_of(document)}\n#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n"


def centre_row_prefix(row: VariantRow) -> str:
    """Return the row of a variant in centre.afreq without its frequency."""
    return f"{row.chromosome}\t{row.identifier}\t{_allele(row.other)}\t{_allele(row.effect)}\t"


def centre_frequency(dosage: float) -> str:
    """Return the centre of a variant as an allele frequency in the notation of centre.afreq."""
    return f"{dosage / 2:.9g}"


def _allele(text: str) -> str:
    return NO_ALLELE if text in _MISSING_ALLELES else text


def scoring_of(chromosomes: Iterable[str]) -> Document:
    """Return the member `scoring` of release.json for chromosomes in any spelling."""
    found = list(dict.fromkeys(map(canonical_chromosome, dict.fromkeys(chromosomes))))
    on_x = CHROMOSOME_X in found
    return {
        "chromosomes": found,
        "males_on_x": _MALES_ON_X if on_x else None,
        "xchr_model": _XCHR_MODEL if on_x else None,
    }


def scoring_command(document: Document, directory: PurePath) -> list[str]:
    """Return the plink2 command that computes the scores of a release, one option per entry."""
    first = NAMED_COLUMNS + 1
    last = NAMED_COLUMNS + document["cohort"]["n_phenotypes"]
    columns = f"{first}-{last}" if last > first else f"{first}"  # plink2 refuses 7-7
    weights, centre = (shlex.quote(str(directory / name)) for name in (WEIGHTS_FILE, CENTRE_FILE))
    model = document["scoring"]["xchr_model"]
    return [
        "plink2 --bfile GENOTYPES",
        f"--score {weights} 1 2 header-read cols=+scoresums",
        f"--score-col-nums {columns}",
        f"--read-freq {centre}",
        *([] if model is None else [f"--xchr-model {model}"]),
        # Scores of people must not be written into the release.
        "--out ../scores" if directory == PurePath() else "--out scores",
    ]


def scoring_command_in_lines(document: Document) -> str:
    """Return `scoring_command` for the directory of the release, one option per line."""
    return " \\\n  ".join(scoring_command(document, PurePath()))
