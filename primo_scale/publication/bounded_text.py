"""Reading of unchecked files of a release in bounded memory.

A file of a few MB can unpack to a line of many GB, which is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from primo_scale.publication.document import Document

LARGEST_DOCUMENT = 64 << 20
"""Largest size in bytes of release.json, report.html and release.log, for 400,000 LD blocks."""

_LONGEST_NAMES = 1 << 20  # ID, alleles and position of one variant; insertions are long alleles
_MEAN_NAMES = 1 << 12
_LONGEST_NUMBER = 32
_ROWS_BESIDE_VARIANTS = 16
_HARD_CAP = 1 << 40


@dataclass(frozen=True)
class TextLimits:
    """Largest numbers of characters of a line, and of a whole table, of a release."""

    line: int
    total: int


def limits_of(document: Document) -> TextLimits:
    """Return the limits of the tables that follow from the sizes in release.json."""
    public, n_variants = document["public_inputs"], document["cohort"]["n_variants"]
    numbers = _LONGEST_NUMBER * (1 + len(public["phenotypes"]))
    rows = n_variants + len(public["covariates"]) + _ROWS_BESIDE_VARIANTS
    total = _LONGEST_NAMES + rows * (_MEAN_NAMES + numbers)
    return TextLimits(_LONGEST_NAMES + numbers, min(total, _HARD_CAP))


def bounded_lines(file: TextIO, limits: TextLimits) -> Iterator[str]:
    """Yield the lines of an open file with their line ends; ValueError beyond the limits."""
    number = total = 0
    while line := file.readline(limits.line + 1):
        number, total = number + 1, total + len(line)
        if len(line) > limits.line:
            raise ValueError(f"line {number} is longer than {limits.line} characters")
        if total > limits.total:
            raise ValueError(f"it unpacks to more than {limits.total} characters")
        yield line


def bounded_bytes(path: Path, n_numbers: int = 0) -> bytes:
    """Return the content of a document; ValueError if it is too large.

    The limit is `LARGEST_DOCUMENT` and some bytes for each of `n_numbers` numbers in the document.
    """
    most = LARGEST_DOCUMENT + _LONGEST_NUMBER * n_numbers
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError(f"larger than {most} bytes")
        return file.read()
