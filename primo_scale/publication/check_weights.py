"""Checks of weights.tsv.gz, covariates.tsv and centre.afreq, and the reading of the weights."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import islice, zip_longest
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.coding import LARGEST_CODE, REFERENCE_UNIT, SMALLEST_FREQUENCY
from primo_scale.publication.bounded_text import bounded_bytes, bounded_lines
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import CENTRE_FILE, COVARIATES_FILE, WEIGHTS_FILE
from primo_scale.publication.gzip_files import GZIP_ERRORS, open_gzip_text
from primo_scale.publication.weights import (
    CENTRE_ROW_END,
    INTERCEPT,
    NAMED_COLUMNS,
    NO_ALLELE,
    WEIGHTS_HEADER,
    VariantRow,
    centre_frequency,
    centre_header,
    centre_row_prefix,
    covariates_header,
    scoring_of,
    weights_in_text,
)
from primo_scale.publication.wording import stamp_column
from primo_scale.storage.tiles import read_ahead

UNREADABLE = (*GZIP_ERRORS, ValueError, TypeError, IndexError, ArithmeticError)
"""Errors that the content of a malformed file can raise."""

CHECKERS = 2  # threads that check weights while another one reads them
_GROUP, _ROW = 1 << 23, 128  # bytes of text that are checked together, and of a row besides it
_COMPILED_FROM = 1 << 14  # weights, below which loading compiled code takes longer than it saves
_POSITION = re.compile(r"0|-?[1-9][0-9]{0,18}")  # a 64-bit integer
_PLACES = 65
# k is rounded and may be lowered by one; between two places it moves by less than a quarter.
_LOWERED, _RAISED = 1.75, 0.75


def listed_in(document: Document, directory: str) -> list[str]:
    """Return the names in release.json of the files in a directory of the release."""
    names = (entry["name"] for entry in document["files"])
    return [name for name in names if name.startswith(f"{directory}/")]


def _rows(directory: Path, document: Document) -> Iterator[list[str]]:
    """Yield the header and rows of weights.tsv.gz, whose last item is the text of all weights."""
    with open_gzip_text(directory / WEIGHTS_FILE) as file:
        for line in bounded_lines(file, document):
            yield line.removesuffix("\n").split("\t", NAMED_COLUMNS)


def variant_rows_in(directory: Path, document: Document) -> Iterator[list[str]]:
    """Yield the rows of weights.tsv.gz below its header, as `_rows` does."""
    return islice(_rows(directory, document), 1, 1 + document["cohort"]["n_variants"])


def groups_of(rows: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Yield consecutive rows together, up to some MB, as rows may be many or long."""
    group: list[list[str]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += _ROW + sum(map(len, row))
        if size >= _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def weight_rows_module(n_weights: int) -> ModuleType | None:
    """Return the module `weight_rows` for many weights, unless this verifier lacks Numba."""
    if n_weights < _COMPILED_FROM:
        return None
    try:
        return import_module("primo_scale.publication.weight_rows")
    except ImportError:
        return None


def weights_problems(directory: Path, document: Document) -> list[str]:
    """Check header, IDs, chromosomes and the format of numbers of weights.tsv.gz."""
    names = [entry["name"] for entry in document["public_inputs"]["phenotypes"]]
    header = [*WEIGHTS_HEADER, stamp_column(document), "\t".join(names)]
    n_variants = document["cohort"]["n_variants"]
    rows = _rows(directory, document)
    if next(rows, None) != header:
        return ["has a header that differs from the statement"]
    seen: set[bytes] = set()  # digests, because identifiers may be long
    chromosomes: dict[str, None] = {}
    for number, (row, is_checked) in enumerate(_checked_rows(rows, len(names)), start=2):
        columns = len(row) + row[-1].count("\t")
        if columns != NAMED_COLUMNS + len(names):
            return [f"line {number} has {columns} columns, not {NAMED_COLUMNS + len(names)}"]
        if not (is_checked or _are_as_written(row[-1])):
            return [f"line {number} has a weight that is not finite or has another format"]
        if row[NAMED_COLUMNS - 1] != NO_ALLELE:
            return [f"line {number} has {row[NAMED_COLUMNS - 1]!r} in the column of the stamp"]
        if not _POSITION.fullmatch(row[4]):
            return [f"line {number} has a position in another format"]
        digest = hashlib.blake2b(row[0].encode(), digest_size=16).digest()
        if digest in seen:
            return [f"line {number} repeats the ID of an earlier line"]
        if len(seen) == n_variants:
            return [f"has more variants than the stated {n_variants}"]
        seen.add(digest)
        chromosomes[row[3]] = None
    if len(seen) != n_variants:
        return [f"has {len(seen)} variants, stated are {n_variants}"]
    if scoring_of(chromosomes) != document["scoring"]:
        return ["has other chromosomes than the member scoring of release.json"]
    return []


def _checked_rows(rows: Iterator[list[str]], width: int) -> Iterator[tuple[list[str], bool]]:
    """Yield each row, and whether compiled code found its weights as they are written."""

    def check(group: list[list[str]]) -> tuple[list[list[str]], bool]:
        compiled = weight_rows_module(len(group) * width)
        texts = [row[-1] for row in group]
        return group, compiled is not None and compiled.are_as_written(texts, width)

    for group, is_checked in read_ahead(check, groups_of(rows), CHECKERS):
        yield from ((row, is_checked) for row in group)


def _are_as_written(text: str) -> bool:
    """Return whether a text with tabs contains finite weights in the format of a release."""
    values = tuple(map(float, text.split("\t")))
    return all(map(math.isfinite, values)) and weights_in_text(values) == text


def covariates_problems(directory: Path, document: Document) -> list[str]:
    """Check header, terms and number format of covariates.tsv."""
    public = document["public_inputs"]
    names = [entry["name"] for entry in public["phenotypes"]]
    terms = [INTERCEPT, *(entry["name"] for entry in public["covariates"])]
    header = covariates_header(document)
    content = bounded_bytes(directory / COVARIATES_FILE, len(terms) * len(names)).decode()
    if not (content.startswith(header) and content.endswith("\n")):
        return ["has a stamp or header that differs from the statement"]
    rows = [line.split("\t") for line in content.removeprefix(header).split("\n")[:-1]]
    if [row[0] for row in rows] != terms:
        return ["does not have one row each for the intercept and the covariates"]
    for term, *values in rows:
        if len(values) != len(names) or not _are_as_written("\t".join(values)):
            return [f"does not have one finite weight per phenotype for {term}"]
    return []


def centre_problems(directory: Path, document: Document) -> list[str]:
    """Check that the variants are those with weights, at frequencies of a genotype coding."""
    informed = document["public_inputs"]["reference_frequencies"] != "uninformative"
    possible = possible_frequencies(informed=informed)
    header = centre_header(document)
    variants = variant_rows_in(directory, document)
    with (directory / CENTRE_FILE).open(encoding="utf-8", newline="\n") as file:
        if file.read(len(header)) != header:
            return ["lacks the stamp or the columns of a plink2 --freq file"]
        lines = bounded_lines(file, document)
        for number, (line, variant) in enumerate(zip_longest(lines, variants), start=3):
            if line is None or variant is None:
                return ["has another number of variants than the weights"]
            row = VariantRow(*variant[: len(WEIGHTS_HEADER)])
            prefix = centre_row_prefix(row)
            if not (line.startswith(prefix) and line.endswith(CENTRE_ROW_END)):
                return [f"line {number} is not the row of {row.identifier} with 2 as OBS_CT"]
            frequency = line.removeprefix(prefix).removesuffix(CENTRE_ROW_END)
            if frequency not in possible:
                return [f"line {number} has the frequency {frequency}, impossible in any coding"]
    return []


@cache
def possible_frequencies(*, informed: bool) -> frozenset[str]:
    """Return the frequencies that centre.afreq may contain, in its notation with nine digits.

    Genotypes are coded by reference frequencies (`informed`), or every variant is centred at one
    copy. A variant's centre is ``m / k`` for small integers that follow from its reference
    frequency p (docs/maths/clipping-and-integers.md). A verifier without the reference panel
    therefore detects a column of other numbers, such as the cohort's own frequencies. The panel's
    frequencies themselves are not checked.
    """
    if not informed:
        return frozenset({centre_frequency(1.0)})
    codings = [
        (k, m)
        for k in range(1, LARGEST_CODE + 1)
        for m in range(max(0, 2 * k - LARGEST_CODE), min(2 * k, LARGEST_CODE) + 1)
    ]
    implied = _are_implied(*np.array(codings).T)
    return frozenset(
        centre_frequency(m / k) for (k, m), found in zip(codings, implied, strict=True) if found
    )


def _are_implied(k: npt.NDArray[np.int64], m: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether a frequency p with ``m = round(2pk)`` has approximately this k; shape (c,).

    ``k = round(16 / sqrt(2p(1-p)))``, or lower if a code would be outside [-127, 127].
    """
    rarer = np.minimum(m, 2 * k - m)  # count of the rarer allele; the coding is symmetric
    least, most = (rarer - 0.5) / (2 * k), (rarer + 0.5) / (2 * k)
    p = np.linspace(np.maximum(least, SMALLEST_FREQUENCY), np.minimum(most, 0.5), _PLACES)
    limit = (LARGEST_CODE + 0.5) / (2 * (1 - p))
    wanted = np.minimum(REFERENCE_UNIT / np.sqrt(2 * p * (1 - p)), limit)
    return np.asarray(np.any((wanted - _LOWERED <= k) & (k <= wanted + _RAISED), axis=0))
