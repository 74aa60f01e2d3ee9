"""Texts of a release whose size nobody has checked: read in bounded memory, or refused.

A file of a few MB can unpack to a line of many GB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from primo_scale.publication.document import Document

LARGEST_DOCUMENT = 64 << 20
"""Most bytes of release.json, report.html and release.log: enough for 400,000 LD blocks."""

_LONGEST_NAMES = 1 << 20  # of ID, alleles and place of one variant: alleles may be long insertions
_MEAN_NAMES = 1 << 12
_LONGEST_NUMBER = 32
_ROWS_BESIDE_VARIANTS = 16
_HARD_CAP = 1 << 40


@dataclass(frozen=True)
class TextLimits:
    """Most that a table of a release may hold.

    Attributes
    ----------
    line : int
        Characters of one line.
    total : int
        Characters in all.
    """

    line: int
    total: int


def limits_of(document: Document) -> TextLimits:
    """Return the limits that the sizes in a release.json allow for its tables."""
    public, n_variants = document["public_inputs"], document["cohort"]["n_variants"]
    numbers = _LONGEST_NUMBER * (1 + len(public["phenotypes"]))
    rows = n_variants + len(public["covariates"]) + _ROWS_BESIDE_VARIANTS
    total = _LONGEST_NAMES + rows * (_MEAN_NAMES + numbers)
    return TextLimits(_LONGEST_NAMES + numbers, min(total, _HARD_CAP))


def bounded_lines(file: TextIO, limits: TextLimits) -> Iterator[str]:
    """Yield the lines of an open file, ends included.

    Raises
    ------
    ValueError
        A line, or all of them together, are larger than the limits.
    """
    number = total = 0
    while line := file.readline(limits.line + 1):
        number, total = number + 1, total + len(line)
        if len(line) > limits.line:
            raise ValueError(f"line {number} is longer than {limits.line} characters")
        if total > limits.total:
            raise ValueError(f"it unpacks to more than {limits.total} characters")
        yield line


def bounded_bytes(path: Path, n_numbers: int = 0) -> bytes:
    """Return the content of a document that holds so many numbers beside its text.

    Raises
    ------
    ValueError
        It is larger than `LARGEST_DOCUMENT` and its numbers.
    """
    most = LARGEST_DOCUMENT + _LONGEST_NUMBER * n_numbers
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError(f"larger than {most} bytes")
        return file.read()
