"""Scoring weights of a release, and the files that are made from them.

weights.tsv.gz, covariates.tsv and centre.afreq are for ``plink2 --score``, pgs/ for the tools of
the PGS Catalog and sumstats/ for those of the GWAS Catalog (`primo_scale.verify.formats`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable
from primo_scale.humanize import examples
from primo_scale.machine import in_threads
from primo_scale.verify import chromosomes, files, formats, held_out_accuracy, tables
from primo_scale.verify.document import Document
from primo_scale.verify.files import PGS_DIRECTORY, SUMSTATS_DIRECTORY, write_gzip

Floats = npt.NDArray[np.float64]

_CELLS_AT_ONCE = 1 << 12
_WRITERS = 2  # threads: one makes text while the other compresses
_EXAMPLES = 3
_BEGINS_A_FORMULA = ("=", "+", "-", "@")
_EXCLUDE = "Leave variants out with --extract"
_NAME_VARIANTS = f"Name variants with `plink2 --set-all-var-ids @:#:$r:$a`. {_EXCLUDE} otherwise"


@dataclass(frozen=True)
class SummaryStatistics:
    """Marginal effects of d variants on l phenotypes."""

    beta: Floats  # phenotype units per copy of allele1, shape (d, l)
    standard_error: Floats  # of sampling and noise together, shape (d, l)
    frequency: Floats  # public reference frequency of allele1, in (0, 1), shape (d,)


@dataclass(frozen=True)
class ScoringWeights:
    """Linear predictors of l phenotypes, in raw units.

    For a person with g copies of allele1 (`centre_dosage` where missing) and covariates u::

        prediction = intercept + g @ per_allele + u @ covariate_weights
    """

    variants: VariantTable  # d variants; allele1 is the effect allele
    phenotypes: tuple[str, ...]  # l names
    per_allele: Floats  # phenotype units per copy of allele1, shape (d, l)
    # Phenotype units, for no copies of allele1 and covariates of zero, shape (l,).
    intercept: Floats
    covariates: tuple[str, ...]  # c names
    covariate_weights: Floats  # phenotype units per raw covariate unit, shape (c, l)
    # Public dosage of allele1 in [0, 2] that replaces a missing genotype, shape (d,).
    centre_dosage: Floats
    summary: SummaryStatistics | None = None  # marginal effects, if the release publishes them
    stack: Floats | None = None  # weights of K public scores for each sd, shape (K, l)


def variant_rows(variants: VariantTable) -> Iterator[formats.VariantRow]:
    """Yield the variants of a table."""
    columns = (variants.identifier, variants.allele1, variants.allele2, variants.chromosome)
    return map(formats.VariantRow, *columns, variants.position.tolist())


# ---- Files ---------------------------------------------------------------------------------------


def write_files(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write all files that are made from the weights."""
    writers = [_write_weights, _write_covariates, _write_centres, _write_pgs_files]
    writers += [_write_sumstats] * document["summary_statistics"]
    writers += [_write_stack] * bool(document["public_inputs"]["score_features"])
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda write: write(directory, weights, document), writers))


def _text_rows(beginnings: Iterable[str], weights: Floats) -> Iterator[bytes]:
    """Yield rows of a beginning and finite weights, shape (rows, columns), in parts.

    Weights have nine significant digits, and a zero has no sign.
    """
    numbers = "\t".join(["%.9g"] * weights.shape[1]) + "\n"
    height, beginning = max(1, _CELLS_AT_ONCE // weights.shape[1]), iter(beginnings)
    for start in range(0, len(weights), height):
        part = (weights[start : start + height] + 0.0).tolist()
        yield "".join([next(beginning) + numbers % tuple(row) for row in part]).encode()


def _write_weights(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write a header and one row per variant, tab-separated."""
    rows = variant_rows(weights.variants)
    beginnings = ("\t".join((*row[:-1], f"{row.position}\t.\t")) for row in rows)
    header = formats.weights_header(document).encode()
    write_gzip(
        directory / files.WEIGHTS_FILE, chain([header], _text_rows(beginnings, weights.per_allele))
    )


def _write_covariates(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write the stamp, a header, the intercept, and one row per covariate."""
    rows = np.vstack([weights.intercept, weights.covariate_weights]).tolist()
    lines = [
        "\t".join((name, *map(formats.weight_in_text, values))) + "\n"
        for name, values in zip((formats.INTERCEPT, *weights.covariates), rows, strict=True)
    ]
    content = "".join([formats.covariates_header(document), *lines])
    (directory / files.COVARIATES_FILE).write_text(content, encoding="utf-8")


def _write_stack(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write the stamp, a header, and the weights of one sd of each public score."""
    if weights.stack is None:
        raise ValueError("the release states scores without weights")
    names = (f"{each['name']}\t" for each in document["public_inputs"]["score_features"])
    content = b"".join(_text_rows(names, weights.stack)).decode()
    header = formats.stack_header(document)
    (directory / files.STACK_FILE).write_text(header + content, encoding="utf-8")


def _write_centres(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write the public centres as a ``plink2 --freq`` file, for ``plink2 --read-freq``.

    With this file, plink2 replaces a missing genotype by the dosage with which the weights were
    fitted. REF is allele2 and ALT is allele1, as plink2 reads a .bim file. An absent allele is
    ``.``, because plink2 2.00a3.5 crashes on ``0``.
    """
    rows = variant_rows(weights.variants)
    with (directory / files.CENTRE_FILE).open("w", encoding="utf-8") as file:
        file.write(formats.centre_header(document))
        for row, dosage in zip(rows, weights.centre_dosage.tolist(), strict=True):
            file.write(
                f"{formats.centre_row_prefix(row)}{formats.centre_frequency(dosage)}{formats.CENTRE_ROW_END}"
            )


def _write_pgs_files(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write a scoring file for every phenotype.

    The format has no intercept and no covariates. Weights of a binary phenotype are log odds ratios
    (docs/methods.md, "Binary traits").
    """
    (directory / PGS_DIRECTORY).mkdir()
    beginnings = list(map(formats.pgs_row_prefix, variant_rows(weights.variants)))
    phenotypes, paths = document["public_inputs"]["phenotypes"], tables.phenotype_files(document)

    def write(number: int) -> None:
        """Write the file of one phenotype."""
        stated = {**phenotypes[number], "name": weights.phenotypes[number]}
        header = formats.pgs_header(stated, document)
        column, share = weights.per_allele[:, [number]], held_out_accuracy.public_prevalence(stated)
        if share is not None:
            released = map(formats.weight_in_text, column[:, 0].tolist())
            column = np.array(formats.scaled_weights(released, share))[:, None]
        path = directory / paths[PGS_DIRECTORY][number]
        write_gzip(path, chain([header.encode()], _text_rows(beginnings, column)))

    in_threads(write, range(len(phenotypes)), _WRITERS)


def _write_sumstats(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write summary statistics of every phenotype with a variance.

    Without noise, the effects of a phenotype without variance would have standard errors of 0.
    """
    summary = weights.summary
    if summary is None:
        raise ValueError("the release states summary statistics that were not computed")
    texts = enumerate(map(formats.fixed_text, variant_rows(weights.variants)))
    fixed = {j: text for j, text in texts if text is not None}
    phenotypes = document["public_inputs"]["phenotypes"]
    for k, name in enumerate(tables.phenotype_files(document)[SUMSTATS_DIRECTORY]):
        if not summary.standard_error[:, k].any():
            continue
        (directory / SUMSTATS_DIRECTORY).mkdir(exist_ok=True)
        numbers = _number_columns(summary, list(fixed), k, phenotypes[k]["sd"])
        rows = (
            f"{before}{first}{after}{people}\t.\n".encode()
            for (before, after), (first, people) in zip(fixed.values(), numbers, strict=True)
        )
        write_gzip(directory / name, chain([formats.sumstats_header(document).encode()], rows))


def _number_columns(
    summary: SummaryStatistics, kept: list[int], k: int, sd: float
) -> Iterator[tuple[str, str]]:
    """Yield beta to p_value, and n_eff, which follow from the rounded effect and error."""
    beta = [f"{value:.6g}" for value in summary.beta[kept, k].tolist()]
    error = [f"{value:.6g}" for value in summary.standard_error[kept, k].tolist()]
    frequency = [f"{value:.5g}" for value in summary.frequency[kept].tolist()]
    rounded = np.array(error, dtype=np.float64)
    log10_p = formats.log10_p_values(np.array(beta, dtype=np.float64), rounded).tolist()
    people = formats.effective_people(rounded, np.array(frequency, dtype=np.float64), sd).tolist()
    for row in zip(beta, error, frequency, map(formats.power_of_ten, log10_p), people, strict=True):
        yield "\t".join(row[:4]), f"{row[4]:.6g}"


def count_left_out(variants: VariantTable) -> int:
    """Return the number of variants that the files of summary statistics leave out."""
    return sum(formats.fixed_text(row) is None for row in variant_rows(variants))


def scoring_command(document: Document, directory: PurePath) -> list[str]:
    """Return the plink2 command that computes the scores of a release, one option per entry."""
    first = formats.NAMED_COLUMNS + 1
    last = formats.NAMED_COLUMNS + document["cohort"]["n_phenotypes"]
    columns = f"{first}-{last}" if last > first else f"{first}"  # plink2 refuses 7-7
    weights, centre = (
        shlex.quote(str(directory / name)) for name in (files.WEIGHTS_FILE, files.CENTRE_FILE)
    )
    return [
        "plink2 --bfile GENOTYPES",
        f"--score {weights} 1 2 header-read cols=+scoresums",
        f"--score-col-nums {columns}",
        f"--read-freq {centre}",
        *(["--xchr-model 2"] if chromosomes.CHROMOSOME_X in document["chromosomes"] else []),
        # Scores of people must not be written into the release.
        "--out ../scores" if directory == PurePath() else "--out scores",
    ]


# ---- Names and weights that no release can carry -------------------------------------------------


def check_releasable(weights: ScoringWeights) -> None:
    """Refuse weights that cannot be scored unambiguously, or that are not finite."""
    check_names(weights.variants, weights.phenotypes, weights.covariates)
    for what, values in (
        ("variant", weights.per_allele),
        ("intercept", weights.intercept),
        ("covariate", weights.covariate_weights),
        ("centre dosage", weights.centre_dosage),
    ):
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            what = f"{bad} {what} weights are not finite numbers"
            raise _refusal(what, None, "Raise --ridge, or use smaller LD blocks")


def check_names(
    variants: VariantTable, phenotypes: Sequence[str], covariates: Sequence[str]
) -> None:
    """Refuse IDs, alleles, chromosomes and names that no release can carry."""
    check_variant_identifiers(variants.identifier)
    reserved = (*formats.WEIGHTS_HEADER, formats.TERM_COLUMN)
    check_column_names("phenotype", phenotypes, reserved=reserved)
    check_column_names("covariate", covariates)
    refuse_formulas("variant ID", variants.identifier, _NAME_VARIANTS)
    for alleles in (variants.allele1, variants.allele2):
        refuse_formulas("allele", alleles, _EXCLUDE)
    refuse_formulas("chromosome", variants.chromosome, _EXCLUDE)
    for name in set(variants.chromosome):
        if not name.isprintable():
            raise _refusal("a chromosome has control characters in its name", repr(name), _EXCLUDE)


def check_variant_identifiers(identifiers: npt.NDArray[np.object_]) -> None:
    """Refuse variant IDs that are repeated, missing or reserved."""
    counts = Counter(identifiers.tolist())
    repeated = [name for name, count in counts.items() if count > 1]
    reserved = [name for name in counts if name == "." or name.startswith("#")]
    for what, found in (
        ("repeated, so that a score file would be ambiguous", repeated),
        ("missing, or reserved in a release", reserved),
    ):
        if found:
            shown = examples(list(map(repr, found)), _EXAMPLES)
            what = f"variant IDs are {what}: {len(found)} of {len(counts)}"
            raise _refusal(what, shown, _NAME_VARIANTS)


def check_column_names(kind: str, names: Sequence[str], reserved: Sequence[str] = ()) -> None:
    """Refuse names that cannot name columns of a table, are `reserved`, or are formulas."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise _refusal(f"two columns have the same {kind} name", repeated[0], None)
    reserved = (formats.INTERCEPT, *reserved)
    for name in names:
        if not name.isprintable() or name.split() != [name] or name in reserved:
            what = f"a {kind} name is empty or reserved, or contains blanks or control characters"
            raise _refusal(what, repr(name), "Rename the column")
    refuse_formulas(f"{kind} name", names, "Rename the column")


def refuse_formulas(what: str, texts: Iterable[str], remedy: str) -> None:
    """Refuse the first of the texts, which are a `what`, that begins like a formula.

    Quoted texts would not match the genotypes to be scored. A single character, such as ``-`` for
    an absent allele, is not a formula.
    """
    for text in texts:
        if text.startswith(_BEGINS_A_FORMULA) and len(text) > 1:
            what = f"a {what} begins with =, +, - or @, which spreadsheets execute as a formula"
            raise _refusal(what, repr(text), remedy)


def _refusal(what: str, value: str | None, remedy: str | None) -> InputError:
    return InputError(what, where="release", value=value, remedy=remedy)
