"""Checks of the files with weights against release.json and against each other.

Weights, effects and standard errors are results of the release; every other value in these files
follows from them and from release.json, and is compared.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.verify import files, formats, held_out_accuracy
from primo_scale.verify.document import Document

# A number as "%.9g" writes it: at most nine digits without zeros at an end, and an exponent where
# it is below -4 or above 8.
_NUMBER = (
    r"-?(?:0|[1-9][0-9]{0,8}|0\.0{0,3}[1-9](?:[0-9]{0,7}[1-9])?"
    r"|(?=[0-9.]{3,10}(?![0-9.]))[1-9][0-9]*\.[0-9]*[1-9]"
    r"|[1-9](?:\.[0-9]{0,7}[1-9])?e(?:\+(?:09|[1-9][0-9]|[12][0-9]{2}|30[0-7])"
    r"|-(?:0[5-9]|[1-9][0-9]|[12][0-9]{2}|3[01][0-9]|32[0-4])))"
)
_NUMBERS = re.compile(rf"{_NUMBER}(?:\t{_NUMBER})*")
_POSITION = re.compile(r"0|-?[1-9][0-9]{0,18}")  # a 64-bit integer
_P_VALUE = re.compile(r"[1-9]\.[0-9]{3}e(?:0|-[1-9][0-9]*)")
_ROWS_TOGETHER = 1 << 16
_READ_BYTES = 1 << 20

# The coding of genotypes by a panel (docs/maths/planning.md).
_LARGEST_CODE, _REFERENCE_UNIT, _SMALLEST_FREQUENCY = 127, 16, 1e-3
_PLACES = 65
# k is rounded and may be lowered by one; between two places it moves by less than a quarter.
_LOWERED, _RAISED = 1.75, 0.75
# A centre is m/k with k at least 21 (a common variant), so that half of it is within 1/(4k) of the
# frequency.
_FREQUENCY_TOLERANCE = 0.0125
_TOLERANCE = 1e-3  # of log10 p, and relative of n_eff, above the rounding of their texts


def table_problems(directory: Path, document: Document) -> list[str]:
    """Return the contradictions of the files with weights, each of which names the file."""
    problems: list[str] = []
    for group in (
        (
            (files.WEIGHTS_FILE, _weights_problems),
            (files.COVARIATES_FILE, _covariates_problems),
            (files.CENTRE_FILE, _centre_problems),
            (files.STACK_FILE, _stack_problems),
        ),
        ((files.PGS_DIRECTORY, _pgs_problems), (files.SUMSTATS_DIRECTORY, _sumstats_problems)),
    ):
        for name, check in group if not problems else ():
            try:
                found = list(check(directory, document))
            except (InputError, *files.UNREADABLE) as error:
                found = [f"cannot be read: {error}"]
            problems += [each if each.startswith(name) else f"{name} {each}" for each in found]
    return problems


def phenotype_files(document: Document) -> dict[str, list[str]]:
    """Return the files of each phenotype by their directory, in the order of the phenotypes."""
    stems = formats.pgs_file_stems([p["name"] for p in document["public_inputs"]["phenotypes"]])
    suffixes = {files.PGS_DIRECTORY: files.PGS_SUFFIX}
    if document["summary_statistics"]:
        suffixes[files.SUMSTATS_DIRECTORY] = files.SUMSTATS_SUFFIX
    return {
        directory: [f"{directory}/{stem}{suffix}" for stem in stems]
        for directory, suffix in suffixes.items()
    }


# ---- weights.tsv.gz, covariates.tsv and centre.afreq ---------------------------------------------


def _rows(directory: Path, document: Document) -> Iterator[list[str]]:
    """Yield the rows of weights.tsv.gz, whose last item is the text of all weights."""
    with files.open_gzip_text(directory / files.WEIGHTS_FILE) as file:
        lines = files.bounded_lines(file, document)
        if next(lines, None) != formats.weights_header(document):
            raise ValueError("it has a header that differs from the statement")
        for line in islice(lines, 1 + document["cohort"]["n_variants"]):
            yield line.removesuffix("\n").split("\t", formats.NAMED_COLUMNS)


def _variant(row: list[str]) -> formats.VariantRow:
    return formats.VariantRow(*row[: len(formats.WEIGHTS_HEADER)])


def _weights_problems(directory: Path, document: Document) -> Iterator[str]:
    """Check header, IDs, chromosomes and the format of numbers."""
    width, n_variants = document["cohort"]["n_phenotypes"], document["cohort"]["n_variants"]
    seen: set[bytes] = set()  # digests, because identifiers may be long
    chromosomes: dict[str, None] = {}
    for number, row in enumerate(_rows(directory, document), start=2):
        columns = len(row) + row[-1].count("\t")
        if columns != formats.NAMED_COLUMNS + width:
            yield f"line {number} has {columns} columns, not {formats.NAMED_COLUMNS + width}"
            return
        if not _NUMBERS.fullmatch(row[-1]):
            yield f"line {number} has a weight that is not finite or has another format"
        if row[formats.NAMED_COLUMNS - 1] != formats.NO_ALLELE:
            yield f"line {number} has {row[formats.NAMED_COLUMNS - 1]!r} in the column of the stamp"
        if not _POSITION.fullmatch(row[4]):
            yield f"line {number} has a position in another format"
        digest = hashlib.blake2b(row[0].encode(), digest_size=16).digest()
        if digest in seen:
            yield f"line {number} repeats the ID of an earlier line"
        seen.add(digest)
        chromosomes[row[3]] = None
    if len(seen) != n_variants:
        yield f"has {'more' if len(seen) > n_variants else 'fewer'} variants than {n_variants}"
    elif formats.chromosomes_of(chromosomes) != document["chromosomes"]:
        yield "has other chromosomes than release.json"


def _covariates_problems(directory: Path, document: Document) -> Iterator[str]:
    """Check header, terms and number format."""
    terms = [formats.INTERCEPT, *(each["name"] for each in document["public_inputs"]["covariates"])]
    header = formats.covariates_header(document)
    yield from _terms_problems(directory / files.COVARIATES_FILE, document, header, terms)


def _stack_problems(directory: Path, document: Document) -> Iterator[str]:
    """Check header, scores and number format; weights of variants need the scores' own files."""
    terms = [each["name"] for each in document["public_inputs"]["score_features"]]
    if not terms:
        return
    path, header = directory / files.STACK_FILE, formats.stack_header(document)
    yield from _terms_problems(path, document, header, terms)


def _terms_problems(path: Path, document: Document, header: str, terms: list[str]) -> Iterator[str]:
    """Check a table with a row for each term, and a column for each phenotype."""
    width = len(document["public_inputs"]["phenotypes"])
    content = files.bounded_bytes(path, len(terms) * width).decode()
    if not (content.startswith(header) and content.endswith("\n")):
        yield "has a stamp or header that differs from the statement"
        return
    rows = [line.split("\t") for line in content.removeprefix(header).split("\n")[:-1]]
    if [row[0] for row in rows] != terms:
        yield "does not have one row each for the terms that release.json states"
    for term, *values in rows:
        if len(values) != width or not _NUMBERS.fullmatch("\t".join(values)):
            yield f"does not have one finite weight per phenotype for {term}"


def _centre_problems(directory: Path, document: Document) -> Iterator[str]:
    """Check that the variants are those with weights, at frequencies of a genotype coding."""
    informed = document["public_inputs"]["reference_frequencies"] != "uninformative"
    possible, header = possible_frequencies(informed=informed), formats.centre_header(document)
    with (directory / files.CENTRE_FILE).open(encoding="utf-8", newline="\n") as file:
        if file.read(len(header)) != header:
            yield "lacks the stamp or the columns of a plink2 --freq file"
            return
        pairs = zip_longest(files.bounded_lines(file, document), _rows(directory, document))
        for number, (line, row) in enumerate(pairs, start=3):
            if line is None or row is None:
                yield "has another number of variants than the weights"
                return
            prefix = formats.centre_row_prefix(_variant(row))
            if not (line.startswith(prefix) and line.endswith(formats.CENTRE_ROW_END)):
                yield f"line {number} is not the row of {row[0]} with 2 as OBS_CT"
                return
            frequency = line.removeprefix(prefix).removesuffix(formats.CENTRE_ROW_END)
            if frequency not in possible:
                yield f"line {number} has the frequency {frequency}, impossible in any coding"
                return


@cache
def possible_frequencies(*, informed: bool) -> frozenset[str]:
    """Return the frequencies that centre.afreq may contain, in its notation with nine digits.

    Genotypes are coded by reference frequencies (`informed`), or every variant is centred at one
    copy. A variant's centre is ``m / k`` for small integers that follow from its reference
    frequency p (docs/maths/planning.md). A verifier without the reference panel
    therefore detects a column of other numbers, such as the cohort's own frequencies. The panel's
    frequencies themselves are not checked.
    """
    if not informed:
        return frozenset({formats.centre_frequency(1.0)})
    codings = [
        (k, m)
        for k in range(1, _LARGEST_CODE + 1)
        for m in range(max(0, 2 * k - _LARGEST_CODE), min(2 * k, _LARGEST_CODE) + 1)
    ]
    implied = _are_implied(*np.array(codings).T)
    return frozenset(
        formats.centre_frequency(m / k)
        for (k, m), found in zip(codings, implied, strict=True)
        if found
    )


def _are_implied(k: npt.NDArray[np.int64], m: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether a frequency p with ``m = round(2pk)`` has approximately this k; shape (c,).

    ``k = round(16 / sqrt(2p(1-p)))``, or lower if a code would be outside [-127, 127].
    """
    rarer = np.minimum(m, 2 * k - m)  # count of the rarer allele; the coding is symmetric
    least, most = (rarer - 0.5) / (2 * k), (rarer + 0.5) / (2 * k)
    p = np.linspace(np.maximum(least, _SMALLEST_FREQUENCY), np.minimum(most, 0.5), _PLACES)
    limit = (_LARGEST_CODE + 0.5) / (2 * (1 - p))
    wanted = np.minimum(_REFERENCE_UNIT / np.sqrt(2 * p * (1 - p)), limit)
    return np.asarray(np.any((wanted - _LOWERED <= k) & (k <= wanted + _RAISED), axis=0))


# ---- pgs/ and sumstats/, after the other files were found good -----------------------------------


def _pgs_problems(directory: Path, document: Document) -> list[str]:
    """Check every scoring file against weights.tsv.gz."""
    expected = _expected_digests(directory, document)

    def problem(name: str) -> str:
        """Return what is wrong with a file, or an empty text; unpack no more than expected."""
        digest, size = hashlib.sha256(), 0
        try:
            with files.open_gzip(directory / name) as file:
                while size <= expected[name][1] and (part := file.read(_READ_BYTES)):
                    digest.update(part)
                    size += len(part)
        except files.UNREADABLE as error:
            return f"{name} cannot be read: {error}"
        is_right = (digest.hexdigest(), size) == expected[name]
        return "" if is_right else f"{name} has another content than {files.WEIGHTS_FILE} implies"

    with ThreadPoolExecutor() as pool:
        return list(filter(None, pool.map(problem, expected)))


def _expected_digests(directory: Path, document: Document) -> dict[str, tuple[str, int]]:
    """Return SHA-256 and size in bytes of the expected content of each scoring file."""
    phenotypes = document["public_inputs"]["phenotypes"]
    shares = list(map(held_out_accuracy.public_prevalence, phenotypes))
    headers = [formats.pgs_header(phenotype, document).encode() for phenotype in phenotypes]
    digests, sizes = list(map(hashlib.sha256, headers)), list(map(len, headers))
    rows = _rows(directory, document)
    while chunk := list(islice(rows, max(1, _ROWS_TOGETHER // len(phenotypes)))):
        beginnings = [formats.pgs_row_prefix(_variant(row)) for row in chunk]
        columns = zip(*(row[-1].split("\t") for row in chunk), strict=True)
        weights: Iterable[str]
        for number, (weights, share) in enumerate(zip(columns, shares, strict=True)):
            if share is not None:
                weights = map(formats.weight_in_text, formats.scaled_weights(weights, share))
            part = "".join(map("{}{}\n".format, beginnings, weights)).encode()
            digests[number].update(part)
            sizes[number] += len(part)
    names = phenotype_files(document)[files.PGS_DIRECTORY]
    found = zip((digest.hexdigest() for digest in digests), sizes, strict=True)
    return dict(zip(names, found, strict=True))


def _sumstats_problems(directory: Path, document: Document) -> Iterator[str]:
    """Check every file of summary statistics, of a release that has them."""
    listed = {entry["name"] for entry in document["files"]}
    names = phenotype_files(document).get(files.SUMSTATS_DIRECTORY, [])
    expected = list(_expected_rows(directory, document)) if names else []
    for name, phenotype in zip(names, document["public_inputs"]["phenotypes"], strict=False):
        if name not in listed:  # without noise, a phenotype without variance has no file
            continue
        try:
            with files.open_gzip_text(directory / name) as file:
                lines = files.bounded_lines(file, document)
                if next(lines, None) != formats.sumstats_header(document):
                    yield f"{name} has a header that differs from the statement"
                else:
                    yield from (
                        f"{name} {each}" for each in _row_problems(lines, expected, phenotype["sd"])
                    )
        except files.UNREADABLE as error:
            yield f"{name} cannot be read: {error}"


def _expected_rows(directory: Path, document: Document) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the public columns of each variant, and half its public centre."""
    with (directory / files.CENTRE_FILE).open(encoding="utf-8") as file:
        centres = islice(file, 2, None)
        for row, centre in zip(_rows(directory, document), centres, strict=True):
            text = formats.fixed_text(_variant(row))
            if text is not None:
                yield text, float(centre.split("\t")[4])


def _row_problems(
    lines: Iterator[str], expected: list[tuple[tuple[str, str], float]], sd: float
) -> Iterator[str]:
    """Yield the first problem of a file's rows."""
    rows, number = zip_longest(lines, expected), 2
    while chunk := list(islice(rows, _ROWS_TOGETHER)):
        texts = [None if None in pair else _numbers_in(pair[0], *pair[1][0]) for pair in chunk]
        found = [text for text in texts if text is not None]
        if len(found) < len(texts):
            yield f"line {number + texts.index(None)} is not the row of the next variant as written"
            return
        wrong = _wrong_rows(found, np.array([pair[1][1] for pair in chunk]), sd)
        if any(wrong):
            yield f"line {number + wrong.index(True)} has values that do not follow from the others"
            return
        number += len(chunk)


def _numbers_in(line: str, before: str, after: str) -> list[str] | None:
    """Return beta, error, frequency, p and n_eff of a line; None if it is not as it is written."""
    columns = line.removeprefix(before).split("\t")
    numbers = [*columns[:4], *columns[-2:-1]]
    again = "\t".join(numbers[:4]) + after + "\t".join(numbers[4:]) + "\t.\n"
    if line != before + again:
        return None
    beta, error, frequency, p_value, people = numbers
    digits = all(f"{float(text):.6g}" == text for text in (beta, error, people))
    digits &= f"{float(frequency):.5g}" == frequency and bool(_P_VALUE.fullmatch(p_value))
    return numbers if digits else None


def _wrong_rows(numbers: list[list[str]], centres: formats.Float64, sd: float) -> list[bool]:
    """Return whether each row has a p-value, frequency or n_eff that does not follow."""
    beta, error, frequency, _, people = np.array(numbers, dtype=np.float64).T
    powers = [text.split("e") for _, _, _, text, _ in numbers]
    with np.errstate(all="ignore"):  # a release may be crafted
        log10_p = np.array([np.log10(float(head)) + int(tail) for head, tail in powers])
        right = (error >= 0) & np.isfinite(beta) & np.isfinite(error)
        right &= (frequency > 0) & (frequency < 1)
        right &= np.abs(frequency - centres) <= _FREQUENCY_TOLERANCE
        right &= np.abs(log10_p - formats.log10_p_values(beta, error)) <= _TOLERANCE
        right &= np.isclose(people, formats.effective_people(error, frequency, sd), _TOLERANCE, 0.0)
    return list(np.logical_not(right))
