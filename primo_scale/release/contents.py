"""The files of a release beside release.json: each says what release.json says, and no more.

report.html and release.log are made again from release.json and compared byte for byte;
centre.afreq and pgs/ follow from weights.tsv.gz, whose weights are what was released.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.release.bounded_text import bounded_bytes, bounded_lines, limits_of
from primo_scale.release.centres import possible_frequencies
from primo_scale.release.document import Document, statement_digest
from primo_scale.release.pgs import (
    PGS_SUFFIX,
    PgsFacts,
    pgs_file_stems,
    pgs_header,
    pgs_row_prefix,
)
from primo_scale.release.release_log import option_problems, options_in, render_log
from primo_scale.release.report import render_report
from primo_scale.release.statement import stamp_of
from primo_scale.release.weights import (
    CENTRE_ROW_END,
    INTERCEPT_ID,
    NO_ALLELE,
    NOT_PRIVATE_ID,
    WEIGHTS_HEADER,
    centre_header,
    centre_row_prefix,
    covariate_id,
    weight_in_text,
)

WEIGHTS_FILE = "weights.tsv.gz"
CENTRE_FILE = "centre.afreq"
REPORT_FILE = "report.html"
LOG_FILE = "release.log"
PGS_DIRECTORY = "pgs"

_NAMED = len(WEIGHTS_HEADER)  # columns before the weights
_READ_BYTES = 1 << 20
_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, IndexError, ArithmeticError)


def contents_problems(directory: Path, document: Document) -> list[str]:
    """What any of the files says that release.json does not, or otherwise.

    Parameters
    ----------
    directory
        A release whose files are those that release.json lists.
    document
        Its release.json, which follows its schema.
    """
    checks: list[tuple[str, Callable[[Path, Document], list[str]]]] = [
        (WEIGHTS_FILE, _weights_problems),
        (CENTRE_FILE, _centre_problems),
        (LOG_FILE, _log_problems),
        (REPORT_FILE, _report_problems),
    ]
    problems: list[str] = []
    for name, check in checks:
        try:
            problems += [f"{name} {problem}" for problem in check(directory, document)]
        except _UNREADABLE as error:
            problems.append(f"{name} cannot be read: {error}")
    return problems or _pgs_problems(directory, document)


def pgs_names(document: Document) -> list[str]:
    """The scoring files that release.json lists."""
    names = (entry["name"] for entry in document["files"])
    return [name for name in names if name.startswith(f"{PGS_DIRECTORY}/")]


def _rows(directory: Path, document: Document) -> Iterator[list[str]]:
    """Yield the rows of weights.tsv.gz, the header first, within what release.json allows."""
    limits = limits_of(document)
    with gzip.open(directory / WEIGHTS_FILE, "rt", encoding="utf-8", newline="\n") as file:
        for line in bounded_lines(file, limits):
            yield line.removesuffix("\n").split("\t")


def _weights_problems(directory: Path, document: Document) -> list[str]:
    public, n_variants = document["public_inputs"], document["cohort"]["n_variants"]
    header = [*WEIGHTS_HEADER, *(entry["name"] for entry in public["phenotypes"])]
    tail = [INTERCEPT_ID, *(covariate_id(entry["name"]) for entry in public["covariates"])]
    tail += [] if document["private"] else [NOT_PRIVATE_ID]
    rows = _rows(directory, document)
    if next(rows, None) != header:
        return ["has another header than the statement implies"]
    ends: list[str] = []
    seen: set[bytes] = set()  # digests: identifiers may be long
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            return [f"line {number} has {len(row)} columns, not {len(header)}"]
        if not all(weight_in_text(float(text)) == text for text in row[_NAMED:]):
            return [f"line {number} holds a weight that is not finite, or not as it is written"]
        digest = hashlib.blake2b(row[0].encode(), digest_size=16).digest()
        if digest in seen:
            return [f"line {number} has the ID of an earlier one: an ID stands there twice"]
        seen.add(digest)
        if number - 2 >= n_variants:
            if row[1:_NAMED] != [NO_ALLELE] * (_NAMED - 1):
                return [f"line {number} has an allele or a place, and is no variant"]
            ends.append(row[0])
            if len(ends) > len(tail):
                break
    if len(seen) < n_variants or ends != tail:
        return [f"does not end in the rows {tail} after {n_variants} variants"]
    return []


def _centre_problems(directory: Path, document: Document) -> list[str]:
    """Frequencies that the coding of genotypes can have, for the variants that have weights."""
    informed = document["public_inputs"]["reference_frequencies"] != "uninformative"
    possible = possible_frequencies(informed=informed)
    header = centre_header(stamp_of(document))
    variants = islice(_rows(directory, document), 1, 1 + document["cohort"]["n_variants"])
    with (directory / CENTRE_FILE).open(encoding="utf-8", newline="\n") as file:
        if file.read(len(header)) != header:
            return ["lacks the stamp, or the columns of a plink2 --freq file"]
        lines = bounded_lines(file, limits_of(document))
        for number, (line, variant) in enumerate(zip_longest(lines, variants), start=3):
            if line is None or variant is None:
                return ["has another number of variants"]
            identifier, effect, other, chromosome = variant[: _NAMED - 1]
            prefix = centre_row_prefix(
                identifier, chromosome=chromosome, effect=effect, other=other
            )
            if not (line.startswith(prefix) and line.endswith(CENTRE_ROW_END)):
                return [f"line {number} is not that of {identifier}, with 2 as OBS_CT"]
            frequency = line.removeprefix(prefix).removesuffix(CENTRE_ROW_END)
            if frequency not in possible:
                return [f"line {number} has the frequency {frequency}, which no coding implies"]
    return []


def _log_problems(directory: Path, document: Document) -> list[str]:
    content = bounded_bytes(directory / LOG_FILE)
    options = options_in(content.decode())
    again = render_log(document, digest=statement_digest(document), options=options)
    return option_problems(document, options) + _difference(content, again, document)


def _report_problems(directory: Path, document: Document) -> list[str]:
    """The report repeats the options of the log."""
    signature = document["signature"]
    again = render_report(
        document,
        digest=statement_digest(document),
        options=options_in(bounded_bytes(directory / LOG_FILE).decode()),
        public_key=None if signature is None else signature["public_key"],
    )
    return _difference(bounded_bytes(directory / REPORT_FILE), again, document)


def _difference(content: bytes, again: str, document: Document) -> list[str]:
    if content == again.encode():
        return []
    version = document["software"]["version"]
    return [f"is not what release.json makes it, as made by version {version}"]


def _pgs_problems(directory: Path, document: Document) -> list[str]:
    """Every scoring file, made again from weights.tsv.gz, which was found good."""
    try:
        expected = _pgs_digests(directory, document)
    except (InputError, *_UNREADABLE) as error:
        return [f"{WEIGHTS_FILE} makes no scoring files: {error}"]
    listed = pgs_names(document)
    if sorted(listed) != sorted(expected):
        return [f"{PGS_DIRECTORY}/ does not have a file of its name for each phenotype"]
    problems = []
    for name in listed:
        try:
            if not _unpacks_to(directory / name, expected[name]):
                problems.append(f"{name} has another header, variants or weights than "
                                f"{WEIGHTS_FILE} and release.json")  # fmt: skip
        except _UNREADABLE as error:
            problems.append(f"{name} cannot be read: {error}")
    return problems


def _pgs_digests(directory: Path, document: Document) -> dict[str, tuple[str, int]]:
    """Return SHA-256 and size in bytes of what each scoring file must say, unpacked."""
    public, n_variants = document["public_inputs"], document["cohort"]["n_variants"]
    stated = PgsFacts(public["genome_build"], n_variants, stamp_of(document))
    names = [entry["name"] for entry in public["phenotypes"]]
    stems = pgs_file_stems(names)
    headers = [pgs_header(name, stem, stated) for name, stem in zip(names, stems, strict=True)]
    digests = [hashlib.sha256(header.encode()) for header in headers]
    sizes = [len(header.encode()) for header in headers]
    for row in islice(_rows(directory, document), 1, 1 + n_variants):
        identifier, effect, other, chromosome, position = row[:_NAMED]
        prefix = pgs_row_prefix(
            identifier, chromosome=chromosome, position=int(position), effect=effect, other=other
        )
        for index, (digest, weight) in enumerate(zip(digests, row[_NAMED:], strict=True)):
            line = f"{prefix}{weight}\n".encode()
            digest.update(line)
            sizes[index] += len(line)
    return {
        f"{PGS_DIRECTORY}/{stem}{PGS_SUFFIX}": (digest.hexdigest(), size)
        for stem, digest, size in zip(stems, digests, sizes, strict=True)
    }


def _unpacks_to(path: Path, expected: tuple[str, int]) -> bool:
    """Return whether a file unpacks to bytes of a SHA-256 and a size, reading no more than that."""
    digest, size = hashlib.sha256(), 0
    with gzip.open(path) as file:
        while size <= expected[1] and (part := file.read(_READ_BYTES)):
            digest.update(part)
            size += len(part)
    return (digest.hexdigest(), size) == expected
