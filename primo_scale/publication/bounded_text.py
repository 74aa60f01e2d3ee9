"""Reading of unchecked files in bounded memory, although a few MB can unpack to many GB."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from primo_scale.publication.document import Document

LARGEST_DOCUMENT = 64 << 20
"""Largest size in bytes of release.json, report.html and release.log, for 400,000 LD blocks."""

# Characters of ID, alleles and position of one variant; insertions are long alleles.
_LONGEST_NAMES, _MEAN_NAMES = 1 << 20, 1 << 12
_LONGEST_NUMBER = 32  # characters, with a tab
_ROWS_BESIDE_VARIANTS = 16
_MOST_CHARACTERS = 1 << 40  # of a table, whatever release.json states


def bounded_lines(file: TextIO, document: Document) -> Iterator[str]:
    """Yield the lines of a table; ValueError if it is longer than release.json allows."""
    public, n_variants = document["public_inputs"], document["cohort"]["n_variants"]
    numbers = _LONGEST_NUMBER * (1 + len(public["phenotypes"]))
    rows = n_variants + len(public["covariates"]) + _ROWS_BESIDE_VARIANTS
    longest = _LONGEST_NAMES + numbers
    most = min(_LONGEST_NAMES + rows * (_MEAN_NAMES + numbers), _MOST_CHARACTERS)
    number = total = 0
    while line := file.readline(longest + 1):
        number, total = number + 1, total + len(line)
        if len(line) > longest:
            raise ValueError(f"line {number} is longer than {longest} characters")
        if total > most:
            raise ValueError(f"it unpacks to more than {most} characters")
        yield line


def bounded_bytes(path: Path, n_numbers: int = 0) -> bytes:
    """Return the content of a document with some numbers; ValueError if it is too large."""
    most = LARGEST_DOCUMENT + _LONGEST_NUMBER * n_numbers
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError(f"larger than {most} bytes")
        return file.read()
