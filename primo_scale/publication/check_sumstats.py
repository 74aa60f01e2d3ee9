"""Check of the summary statistics of a release against its other files and release.json.

Effects and standard errors are results of the release; every other value follows from them and
from public numbers, and is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from primo_scale.publication.bounded_text import bounded_lines
from primo_scale.publication.check_weights import UNREADABLE, listed_in, variant_rows_in
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import CENTRE_FILE, SUMSTATS_DIRECTORY
from primo_scale.publication.gzip_files import open_gzip_text
from primo_scale.publication.pgs import pgs_file_stems
from primo_scale.publication.sumstats import (
    SUMSTATS_SUFFIX,
    FixedText,
    are_as_written,
    effective_people,
    fixed_text,
    log10_p_values,
    sumstats_header,
)
from primo_scale.publication.weights import WEIGHTS_HEADER, VariantRow

_CHUNK = 1 << 16  # lines
_NUMBERS = 4  # beta, standard_error, effect_allele_frequency, p_value
# A centre is m/k with k at least 21 (a common variant), so that half of it is within 1/(4k) of the
# frequency.
_FREQUENCY_TOLERANCE = 0.0125
_TOLERANCE = 1e-3  # of log10 p, and relative of n_eff, above the rounding of their texts


@dataclass(frozen=True)
class _Expected:
    """Public values of a variant."""

    text: FixedText
    centre: float  # half of the public dosage of a missing genotype


def sumstats_problems(directory: Path, document: Document) -> list[str]:
    """Check every file; weights.tsv.gz and centre.afreq have passed their own checks."""
    phenotypes = document["public_inputs"]["phenotypes"]
    stems = pgs_file_stems([entry["name"] for entry in phenotypes])
    names = [f"{SUMSTATS_DIRECTORY}/{stem}{SUMSTATS_SUFFIX}" for stem in stems]
    listed = listed_in(document, SUMSTATS_DIRECTORY)
    # Without noise, a phenotype without variance has no file.
    needed = names if document["private"] else [name for name in names if name in listed]
    if sorted(listed) != sorted(needed):
        return ["does not have one file per phenotype, named after it"]
    expected = list(_expected_rows(directory, document))
    problems = []
    for name, phenotype in zip(names, phenotypes, strict=True):
        if name not in needed:
            continue
        try:
            with open_gzip_text(directory / name) as file:
                lines = bounded_lines(file, document)
                found = _file_problem(lines, expected, document, phenotype["sd"])
        except UNREADABLE as error:
            found = f"cannot be read: {error}"
        problems += [f"{name} {found}"] if found else []
    return problems


def _expected_rows(directory: Path, document: Document) -> Iterator[_Expected]:
    with (directory / CENTRE_FILE).open(encoding="utf-8") as file:
        centres = islice(file, 2, None)
        for variant, centre in zip(variant_rows_in(directory, document), centres, strict=True):
            text = fixed_text(VariantRow(*variant[: len(WEIGHTS_HEADER)]))
            if text is not None:
                yield _Expected(text, float(centre.split("\t")[4]))


def _file_problem(
    lines: Iterator[str], expected: list[_Expected], document: Document, sd: float
) -> str:
    """Return the first problem of a file, or an empty text."""
    if next(lines, None) != sumstats_header(document):
        return "has a header that differs from the statement"
    rows, number = zip_longest(lines, expected), 2
    while chunk := list(islice(rows, _CHUNK)):
        numbers, centres = [], []
        for line, row in chunk:
            columns = None if line is None or row is None else _numbers_in(line, row.text)
            if columns is None:
                return f"line {number} is not the row of the next variant of weights.tsv.gz"
            if not are_as_written(*columns):
                return f"line {number} has a number in another format"
            numbers.append(columns)
            centres.append(row.centre)
            number += 1
        wrong = _wrong_rows(numbers, np.array(centres), sd)
        if wrong.any():
            line_number = number - len(chunk) + int(np.argmax(wrong))
            return f"line {line_number} has values that do not follow from effect and error"
    return ""


def _numbers_in(line: str, text: FixedText) -> list[str] | None:
    """Return beta, error, frequency, p and n_eff of a line, or None if it is of another variant."""
    columns = line.removeprefix(text.before).split("\t")
    numbers = [*columns[:_NUMBERS], *columns[-2:-1]]
    again = "\t".join(numbers[:_NUMBERS]) + text.after + "\t".join(numbers[_NUMBERS:]) + "\t.\n"
    return numbers if line == text.before + again else None


def _wrong_rows(numbers: list[list[str]], centres: np.ndarray, sd: float) -> np.ndarray:
    """Return whether each row has a p-value, frequency or n_eff that does not follow."""
    beta, error, frequency, _, people = np.array(numbers, dtype=np.float64).T
    powers = [text.split("e") for _, _, _, text, _ in numbers]
    with np.errstate(all="ignore"):  # a release may be crafted
        log10_p = np.array([np.log10(float(head)) + int(tail) for head, tail in powers])
        right = (error >= 0) & np.isfinite(beta) & np.isfinite(error)
        right &= (frequency > 0) & (frequency < 1)
        right &= np.abs(frequency - centres) <= _FREQUENCY_TOLERANCE
        right &= np.abs(log10_p - log10_p_values(beta, error)) <= _TOLERANCE
        right &= np.isclose(people, effective_people(error, frequency, sd), _TOLERANCE, 0.0)
    return np.asarray(~right)
