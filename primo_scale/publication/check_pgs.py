"""Check of the scoring files of a release against weights.tsv.gz and release.json."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.publication.check_weights import (
    CHECKERS,
    UNREADABLE,
    groups_of,
    listed_in,
    variant_rows_in,
    weight_rows_module,
)
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import PGS_DIRECTORY, WEIGHTS_FILE
from primo_scale.publication.gzip_files import open_gzip
from primo_scale.publication.pgs import (
    PGS_SUFFIX,
    case_shares,
    effect_of_odds,
    pgs_file_stems,
    pgs_header,
    pgs_row_prefix,
)
from primo_scale.publication.weights import WEIGHTS_HEADER, VariantRow, weight_in_text
from primo_scale.storage.tiles import read_ahead

if TYPE_CHECKING:
    from primo_scale.publication.weight_rows import RowBeginnings

_READ_BYTES = 1 << 20

_Shares = Sequence[float | None]


def pgs_problems(directory: Path, document: Document) -> list[str]:
    """Check every scoring file against weights.tsv.gz, which has passed its own check."""
    try:
        expected = _expected_digests(directory, document)
    except (InputError, *UNREADABLE) as error:
        return [f"cannot be written from {WEIGHTS_FILE}: {error}"]
    listed = listed_in(document, PGS_DIRECTORY)
    if sorted(listed) != sorted(expected):
        return ["does not have one file per phenotype, named after it"]

    def problem(name: str) -> str:
        """Return what is wrong with a file, or an empty text."""
        try:
            if _unpacks_to(directory / name, expected[name]):
                return ""
        except UNREADABLE as error:
            return f"{name} cannot be read: {error}"
        return (
            f"{name} has another header, variants or weights than {WEIGHTS_FILE} and release.json"
        )

    with ThreadPoolExecutor() as pool:
        return list(filter(None, pool.map(problem, listed)))


def _expected_digests(directory: Path, document: Document) -> dict[str, tuple[str, int]]:
    """Return SHA-256 and size in bytes of the expected content of each scoring file."""
    names = [entry["name"] for entry in document["public_inputs"]["phenotypes"]]
    stems, shares = pgs_file_stems(names), case_shares(document)
    headers = [
        pgs_header(name, stem, share, document).encode()
        for name, stem, share in zip(names, stems, shares, strict=True)
    ]
    digests, sizes = list(map(hashlib.sha256, headers)), list(map(len, headers))
    groups = groups_of(variant_rows_in(directory, document))
    for parts in read_ahead(partial(_written_again, shares), groups, CHECKERS):
        for number, part in enumerate(parts):
            digests[number].update(part)
            sizes[number] += len(part)
    return {
        f"{PGS_DIRECTORY}/{stem}{PGS_SUFFIX}": (digest.hexdigest(), size)
        for stem, digest, size in zip(stems, digests, sizes, strict=True)
    }


def _written_again(shares: _Shares, rows: list[list[str]]) -> list[bytes]:
    """Return rows of weights.tsv.gz as rows of the scoring file of each phenotype."""
    beginnings = [pgs_row_prefix(VariantRow(*row[: len(WEIGHTS_HEADER)])) for row in rows]
    texts = [row[-1] for row in rows]
    if compiled := weight_rows_module(len(rows) * len(shares)):
        weights = compiled.weights_in(texts, len(shares))
        if weights is not None:
            encoded = compiled.RowBeginnings.of(beginnings)
            columns = zip(np.hsplit(weights, len(shares)), shares, strict=True)
            return [_compiled_rows(encoded, *column) for column in columns]
    of_phenotypes = zip(*(text.split("\t") for text in texts), strict=True)
    return [_rows(beginnings, *each) for each in zip(of_phenotypes, shares, strict=True)]


def _compiled_rows(
    beginnings: RowBeginnings, weights: npt.NDArray[np.float64], share: float | None
) -> bytes:
    """Return the rows of a phenotype from the values of its weights, shape (rows, 1)."""
    if share is not None:
        with np.errstate(over="ignore"):  # a release may be crafted
            weights = weights / effect_of_odds(share)
    return b"".join(beginnings.with_weights(weights))


def _rows(beginnings: list[str], weights: Sequence[str], share: float | None) -> bytes:
    """Return the rows of a phenotype from the texts of its weights."""
    if share is not None:
        scale = effect_of_odds(share)
        weights = [weight_in_text(float(weight) / scale) for weight in weights]
    return "".join(map("{}{}\n".format, beginnings, weights)).encode()


def _unpacks_to(path: Path, expected: tuple[str, int]) -> bool:
    """Return whether a file unpacks to content with this SHA-256 and size; read no more bytes."""
    digest, size = hashlib.sha256(), 0
    with open_gzip(path) as file:
        while size <= expected[1] and (part := file.read(_READ_BYTES)):
            digest.update(part)
            size += len(part)
    return (digest.hexdigest(), size) == expected
