"""The outcome store: coded covariates and phenotypes in the order of the genotypes' people.

PRIVATE. A Zarr group of kind ``outcomes`` with the arrays ``rows``, int16 (n, q), columns
constant | covariates | phenotypes, and ``observed``, int64 (l,), the people with each phenotype.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import SampleTable
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.outcomes.matching import match_people
from primo_scale.outcomes.scratch import ScratchRows
from primo_scale.outcomes.tables import OutcomeTable, open_outcome_table
from primo_scale.storage.chunks import read_block, write_block
from primo_scale.storage.files import disk_errors_explained, sha256_of_file, sha256_of_json
from primo_scale.storage.groups import (
    Array,
    ArrayLayout,
    array_of,
    attributes_of,
    create_array,
    create_group,
    flush,
    is_complete,
    mark_complete,
    open_group,
)
from primo_scale.storage.locations import Location

KIND = "outcomes"
CHUNK_BYTES = 1 << 22

Digest = Any  # the type of hashlib's objects has no public name

_Int16 = npt.NDArray[np.int16]
_Int64 = npt.NDArray[np.int64]

logger = logging.getLogger("primo_scale")


@dataclass(frozen=True)
class OutcomeFiles:
    """Where phenotypes and covariates come from; the coding says which columns."""

    phenotypes: Path
    covariates: Path | None = None


@dataclass(frozen=True, eq=False)
class OutcomeStore:
    """A finished outcome store. Everything but the coding's digest is private.

    Attributes
    ----------
    path : Path or ObjectUrl
    n_samples : int
    coding_digest : str
        `OutcomeCoding.digest` of the coding it was written with.
    content_digest : str
        SHA-256 of the integers: the same for any order of rows in the files.
    observed : ndarray of int64, shape (l,)
        People whose phenotype is not missing.
    """

    path: Location
    n_samples: int
    coding_digest: str
    content_digest: str
    observed: _Int64
    _rows: Array

    def read_rows(self, samples: slice) -> _Int16:
        """Rows of consecutive people, int16 (r, q)."""
        return read_block(self._rows, (samples, slice(None)))


def open_outcome_store(path: Location) -> OutcomeStore:
    """Open a finished outcome store.

    Raises
    ------
    InputError
        Nothing there, a store of another kind or version, or one whose writing never ended.
    """
    group = open_group(path, KIND)
    rows, attributes = array_of(group, "rows"), attributes_of(group)
    return OutcomeStore(
        path=path,
        n_samples=rows.shape[0],
        coding_digest=str(attributes["coding_digest"]),
        content_digest=str(attributes["content_digest"]),
        observed=read_block(array_of(group, "observed"), (slice(None),)),
        _rows=rows,
    )


def is_aligned(path: Location) -> bool:
    """Return whether a finished outcome store is at `path`."""
    return is_complete(path, KIND)


def rows_layout(n_samples: int, n_columns: int) -> ArrayLayout:
    """Shape and chunks of the array of rows."""
    height = max(1, min(n_samples, CHUNK_BYTES // (n_columns * np.dtype(np.int16).itemsize)))
    return ArrayLayout((n_samples, n_columns), (height, n_columns), np.int16)


def align_outcomes(
    path: Location,
    samples: SampleTable,
    files: OutcomeFiles,
    coding: OutcomeCoding,
    *,
    scratch: Path | None = None,
) -> OutcomeStore:
    """Write the outcome store of the people `samples`, or reuse the one that is there.

    People are matched by FID and IID, or by IID alone where a file has no FID column, never by
    position. A person without a row, or with a missing value, has the lattice value 0 there; the
    constant is there for everyone. Memory grows with n by the index of IDs alone.

    Parameters
    ----------
    path
        The store. One that was finished with the same files, people and coding is returned as
        it is; anything else of this kind is replaced.
    samples
        People of the genotypes, n of them, in the order the store will have.
    files
        Phenotype file and, if the coding has covariates, covariate file.
    coding
        The columns and their public lattice.
    scratch
        Private directory with room for the rows while they are put in order; None: the one that
        the store is in.

    Raises
    ------
    InputError
        A malformed file (see `OutcomeTable.row_groups`); nobody in common; one person in two
        rows of a file or of the genotypes; an IID of two people, where it must do alone.
    ValueError
        The coding has covariates and `files` has none, or the store is in no directory and there
        is no `scratch`.
    """
    if coding.covariates and files.covariates is None:
        raise ValueError("the coding has covariates, and there is no file of them")
    if scratch is None:
        if not isinstance(path, Path):
            raise ValueError(f"{path} is in no directory, and rows have to be put in order in one")
        scratch = path.parent
    tables = [open_outcome_table(file) for file in (files.phenotypes, files.covariates) if file]
    request = _request_digest(samples, tables, coding)
    if is_complete(path, KIND) and _request_of(path) == request:
        return open_outcome_store(path)
    with disk_errors_explained(scratch):
        scratch.mkdir(parents=True, exist_ok=True)
    n = len(samples)
    with (
        ScratchRows(scratch, n, len(coding.covariates)) as covariates,
        ScratchRows(scratch, n, len(coding.phenotypes)) as phenotypes,
    ):
        observed = _spool_phenotypes(phenotypes, tables[0], samples, coding)
        if coding.covariates:
            _spool_covariates(covariates, tables[1], samples, coding)
        group = create_group(
            path, KIND, {"request_digest": request, "coding_digest": coding.digest}
        )
        whole = rows_layout(n, coding.n_columns)
        rows = create_array(
            group, "rows", shape=whole.shape, chunks=whole.chunks, dtype=whole.dtype
        )
        content = _write_rows(rows, coding.constant, covariates, phenotypes)
    counts = create_array(
        group, "observed", shape=observed.shape, chunks=observed.shape, dtype=np.int64
    )
    write_block(counts, (slice(None),), observed)
    content.update(observed.astype("<i8").tobytes())
    flush(group)
    mark_complete(group, {"content_digest": content.hexdigest()})
    return open_outcome_store(path)


def _request_of(path: Location) -> object:
    """Digest of what the finished store at `path` was asked for with."""
    return attributes_of(open_group(path, KIND)).get("request_digest")


def _write_rows(
    array: Array, constant: int, covariates: ScratchRows, phenotypes: ScratchRows
) -> Digest:
    """Write the rows, chunk by chunk, and digest them on the way."""
    n, height = array.shape[0], array.chunks[0]
    digest = hashlib.sha256(f"{array.shape} ".encode())
    for start in range(0, n, height):
        stop = min(start + height, n)
        parts = (covariates.read(start, stop), phenotypes.read(start, stop))
        rows = np.hstack([np.full((stop - start, 1), constant, dtype=np.int16), *parts])
        write_block(array, (slice(start, stop), slice(None)), rows)
        digest.update(rows.astype("<i2", copy=False).tobytes())
    return digest


def _spool_covariates(
    scratch: ScratchRows, table: OutcomeTable, samples: SampleTable, coding: OutcomeCoding
) -> None:
    names = tuple(covariate.name for covariate in coding.covariates)
    for matched in match_people(table, names, samples):
        scratch.write(matched.samples, coding.code_covariates(matched.values))


def _spool_phenotypes(
    scratch: ScratchRows, table: OutcomeTable, samples: SampleTable, coding: OutcomeCoding
) -> _Int64:
    """Code the phenotypes to `scratch` and count the people who have each."""
    names = tuple(phenotype.name for phenotype in coding.phenotypes)
    observed = np.zeros(len(names), dtype=np.int64)
    cases = np.zeros(len(names), dtype=np.int64)
    no_codes = np.zeros(len(names), dtype=np.int64)
    for matched in match_people(table, names, samples):
        scratch.write(matched.samples, coding.code_phenotypes(matched.values))
        observed += coding.observed(matched.values).sum(axis=0)
        cases += coding.cases(matched.values).sum(axis=0)
        no_codes += coding.invalid_codes(matched.values).sum(axis=0)
    _log_counts(coding, observed, cases)
    _log_no_codes(coding, no_codes)
    return observed


def _log_counts(coding: OutcomeCoding, observed: _Int64, cases: _Int64) -> None:
    logger.info(
        "phenotypes: %d, each known of %d to %d people (run.log lists them)",
        len(observed), observed.min(), observed.max(),
    )  # fmt: skip
    for phenotype, people, with_trait in zip(coding.phenotypes, observed, cases, strict=True):
        logger.debug("%s: %d people", phenotype.name, people)
        if phenotype.kind == "binary" and with_trait in (0, people):
            logger.warning(
                "%s: %d cases among %d people; are its bounds, %g and %g, its control and case?",
                phenotype.name, with_trait, people, phenotype.lower, phenotype.upper,
            )  # fmt: skip


def _log_no_codes(coding: OutcomeCoding, no_codes: _Int64) -> None:
    for phenotype, values in zip(coding.phenotypes, no_codes, strict=True):
        if values:
            logger.warning(
                "%s: %d values count as missing, being none of its codes %g and %g; if it is not "
                "binary, write quantitative in the type column of its bounds",
                phenotype.name, values, phenotype.lower, phenotype.upper,
            )  # fmt: skip


def _request_digest(
    samples: SampleTable, tables: Sequence[OutcomeTable], coding: OutcomeCoding
) -> str:
    """Digest of everything the store's content depends on."""
    people = hashlib.sha256()
    for family, individual in zip(samples.family, samples.individual, strict=True):
        people.update(f"{family} {individual}\n".encode())
    files = [sha256_of_file(table.path) for table in tables]
    return sha256_of_json({"coding": coding.digest, "people": people.hexdigest(), "files": files})
