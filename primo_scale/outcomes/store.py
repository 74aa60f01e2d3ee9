"""Outcome store: coded covariates and phenotypes in the order of the genotypes' people. PRIVATE.

It is a Zarr group of kind ``outcomes`` with the arrays ``rows``, int16 (n, q), with the columns
constant, covariates, phenotypes; ``observed``, int64 (l,), the number of people with each
phenotype; and ``held_out``, uint8 (n,), if people are held out. These count in no sum: `read_rows`
returns zeros for them, and ``observed`` leaves them out. In their rows a phenotype of 0 is missing,
and an observed 0 is stored as 1.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import SampleTable
from primo_scale.humanize import examples
from primo_scale.outcomes.coding import (
    Bool,
    CovariateCoding,
    Float64,
    Int16,
    Int64,
    OutcomeCoding,
    PhenotypeBounds,
    is_missing_number,
    outside_bounds,
)
from primo_scale.outcomes.tables import match_people, open_outcome_table
from primo_scale.ranges import runs_of
from primo_scale.storage import groups
from primo_scale.storage.files import disk_errors_explained, sha256_of_file, sha256_of_json
from primo_scale.storage.groups import read_block, write_array, write_block
from primo_scale.storage.locations import Location

KIND = "outcomes"
HELD_OUT = "held_out"
CHUNK_BYTES = 1 << 22

LOGGER = logging.getLogger("primo_scale")
KEY_BYTES = 32
LEAST_HELD_OUT = 30
"""Smallest number of people that a release may hold out."""


@dataclass(frozen=True)
class HoldOutChoice:
    """Number of people to hold out, and the key that chooses them.

    The choice depends on the IDs and on a random key alone, never on a value of a person, so that
    two neighbouring cohorts hold out the same people (docs/maths/hold-out.md).
    """

    people: int
    key: bytes = field(repr=False)  # random, of `KEY_BYTES` bytes

    def members(self, samples: SampleTable) -> npt.NDArray[np.bool_]:
        """Return the mask of the people whose IDs have the smallest keyed hashes, shape (n,)."""
        hashes = [hmac.digest(self.key, each.encode(), "sha256") for each in samples.people()]
        order = sorted(range(len(hashes)), key=hashes.__getitem__)
        chosen = np.zeros(len(hashes), dtype=np.bool_)
        chosen[order[: self.people]] = True
        return chosen


@dataclass(frozen=True, eq=False)
class ComponentRows:
    """Principal components of all people, the last covariates of a coding. PRIVATE."""

    digest: str  # of everything that determines the components
    array: groups.Array  # float64, shape (n, k)


@dataclass(frozen=True, eq=False)
class OutcomeFiles:
    """Phenotype file and, optionally, covariate file and principal components."""

    phenotypes: Path
    covariates: Path | None = None
    components: ComponentRows | None = None  # the last covariates, after those of the file


@dataclass(frozen=True, eq=False)
class OutcomeStore:
    """Finished outcome store. PRIVATE."""

    path: Location
    n_samples: int
    content_digest: str  # SHA-256 of the integers, independent of the order of rows in the files
    observed: Int64  # number of people with each phenotype, shape (l,)
    _rows: groups.Array
    _held_out: groups.Array | None
    _left_out: int  # number of first columns that are not in the rows of sums

    @property
    def n_columns(self) -> int:
        """Number of columns q."""
        return self._rows.shape[1]

    def read_rows(self, samples: slice) -> Int16:
        """Return the rows of consecutive people for sums, int16 (r, q); zero for people held out.

        Where phenotypes are adjusted, the constant and the covariates may be left out.
        """
        rows = read_block(self._rows, (samples, slice(None)))[:, self._left_out :]
        if self._held_out is None:
            return rows
        return np.where(self.held_out(samples)[:, None], np.int16(0), rows)

    def held_out(self, samples: slice) -> Bool:
        """Return which of consecutive people are held out, shape (r,)."""
        if self._held_out is None:
            return np.zeros(len(range(*samples.indices(self.n_samples))), dtype=np.bool_)
        return read_block(self._held_out, (samples,)).astype(np.bool_)

    def read_held_out(self, samples: slice) -> Int16:
        """Return the rows of those of consecutive people who are held out, int16 (h, q)."""
        return read_block(self._rows, (samples, slice(None)))[self.held_out(samples)]


def open_outcome_store(path: Location) -> OutcomeStore:
    """Open a finished outcome store, or refuse what `open_group` refuses."""
    group = groups.open_group(path, KIND)
    rows, attributes = groups.array_of(group, "rows"), groups.attributes_of(group)
    return OutcomeStore(
        path=path,
        n_samples=rows.shape[0],
        content_digest=str(attributes["content_digest"]),
        observed=read_block(groups.array_of(group, "observed")),
        _rows=rows,
        _held_out=groups.array_of(group, HELD_OUT) if attributes.get("has_held_out") else None,
        _left_out=int(attributes.get("left_out", 0)),
    )


def rows_layout(n_samples: int, n_columns: int) -> groups.ArrayLayout:
    """Return the shape and the chunks of the array of rows."""
    height = max(1, min(n_samples, CHUNK_BYTES // (n_columns * np.dtype(np.int16).itemsize)))
    return groups.ArrayLayout((n_samples, n_columns), (height, n_columns), np.int16)


@dataclass(frozen=True)
class _ScratchRows:
    """Temporary int16 table (n, k) on disk, for rows that are not written in their order.

    Only rows that are written or read need memory, and rows that are not written are zero.
    """

    file: IO[bytes]
    n_columns: int

    def write(self, positions: Int64, rows: Int16) -> None:
        """Write ``rows[i]`` to row ``positions[i]``."""
        order = np.argsort(positions)
        positions, rows = positions[order], np.ascontiguousarray(rows[order])
        # Neighbouring rows are written together.
        for start, stop in runs_of(positions - np.arange(len(positions))):
            self.file.seek(int(positions[start]) * self.n_columns * rows.itemsize)
            self.file.write(rows[start:stop].tobytes())

    def read(self, people: slice) -> Int16:
        """Return the rows of consecutive people, int16 (r, k)."""
        row_bytes = self.n_columns * np.dtype(np.int16).itemsize
        self.file.seek(people.start * row_bytes)
        content = self.file.read((people.stop - people.start) * row_bytes)
        return np.frombuffer(content, np.int16).reshape(people.stop - people.start, self.n_columns)


def _scratch_rows(directory: Path, n_rows: int, n_columns: int) -> _ScratchRows:
    """Create a table in a directory; it has no name, so that nothing remains after a kill."""
    with disk_errors_explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        file.truncate(n_rows * n_columns * np.dtype(np.int16).itemsize)
    rows = _ScratchRows(file, n_columns)
    weakref.finalize(rows, file.close)
    return rows


@dataclass(frozen=True, eq=False)
class OutcomeRows:
    """Coded rows of the people of the genotypes, read once from the text of tables. PRIVATE."""

    tables_sha256: tuple[str, ...]  # of the files that were read
    observed: Int64  # number of people with each phenotype, shape (l,)
    covariates: _ScratchRows | None  # None in a dry run
    phenotypes: _ScratchRows | None


def read_outcomes(
    samples: SampleTable,
    files: OutcomeFiles,
    coding: OutcomeCoding,
    *,
    scratch: Path | None,
    n_covariates: int,
    to_adjust: bool = False,
    people_file: str | None = None,
) -> OutcomeRows:
    """Read and code every value that will be used; warn of those that are probably mistaken.

    People are matched by FID and IID, or by IID alone if a file has no FID column. A person without
    a row, or with a missing value, has the lattice value 0. With `to_adjust`, an observed phenotype
    of 0 is 1. The rows lie in files without names in the private directory `scratch`; without it,
    values are only checked. The index of IDs is the only part of the memory that grows with n.
    `n_covariates` come from the file, before the components; `people_file` lists the people of the
    genotypes, for errors.
    """
    tables = [open_outcome_table(file) for file in (files.phenotypes, files.covariates) if file]
    n, counts = len(samples), OutcomeCounts(coding, n_covariates, len(samples))
    with ThreadPoolExecutor(1) as beside:  # the digest needs all of the files too
        digests = beside.submit(lambda: tuple(sha256_of_file(table.path) for table in tables))
        phenotypes = None if scratch is None else _scratch_rows(scratch, n, len(coding.phenotypes))
        covariates = None if scratch is None else _scratch_rows(scratch, n, n_covariates)
        names = tuple(phenotype.name for phenotype in coding.phenotypes)
        level = logging.INFO
        for rows in match_people(tables[0], names, samples, level=level, people_file=people_file):
            has_value = coding.observed(rows.values)
            counts.add_phenotypes(rows.values, has_value)
            if phenotypes is not None:
                codes = coding.code_phenotypes(rows.values, has_value)
                codes[to_adjust & has_value & (codes == 0)] = 1
                phenotypes.write(rows.samples, codes)
        if n_covariates:
            names = tuple(covariate.name for covariate in counts.covariates)
            for rows in match_people(tables[1], names, samples, level=level):
                counts.add_covariates(rows.values)
                if covariates is not None:
                    codes = coding.code_covariates(rows.values, slice(len(names)))
                    covariates.write(rows.samples, codes)
        counts.warn()
        return OutcomeRows(digests.result(), counts.observed, covariates, phenotypes)


def align_outcomes(
    path: Location,
    samples: SampleTable,
    files: OutcomeFiles,
    coding: OutcomeCoding,
    *,
    scratch: Path,
    rows: OutcomeRows | None = None,
    hold_out: HoldOutChoice | None = None,
    to_adjust: bool = False,
) -> OutcomeStore:
    """Write the outcome store of the people `samples`, or reuse the existing one.

    `rows` are those of `read_outcomes` for the same arguments, which is called without them. With
    `to_adjust`, a phenotype of 0 is missing, as `write_residuals` needs it; people are held out
    from such rows alone. A finished store of the same files, people and coding is reused; another
    outcome store is replaced.
    """
    held_out = None if hold_out is None else hold_out.members(samples)
    digests = None if rows is None else rows.tables_sha256
    if digests is None:
        paths = filter(None, (files.phenotypes, files.covariates))
        digests = tuple(sha256_of_file(file) for file in paths)
    request = _request_digest(samples, digests, coding, held_out, files.components, to_adjust)
    if groups.is_complete(path, KIND):
        finished = groups.attributes_of(groups.open_group(path, KIND))
        if finished.get("request_digest") == request:
            return open_outcome_store(path)
    components = files.components
    n_covariates = len(coding.covariates) - (0 if components is None else components.array.shape[1])
    if rows is None:
        rows = read_outcomes(
            samples, files, coding,
            scratch=scratch, n_covariates=n_covariates, to_adjust=to_adjust or held_out is not None,
        )  # fmt: skip
    header = {"request_digest": request, "coding_digest": coding.digest}
    layout = rows_layout(len(samples), coding.n_columns)
    observed = rows.observed
    if held_out is not None:
        observed = _observed_beside(rows, layout, held_out)
    _log_counts(coding, observed)
    _write_store(
        path, header, layout, partial(_coded_rows, coding, rows, components), observed, held_out
    )
    return open_outcome_store(path)


def write_residuals(
    path: Location,
    unadjusted: OutcomeStore,
    before: OutcomeCoding,
    coding: OutcomeCoding,
    *,
    n_fixed: int,
) -> OutcomeStore:
    """Write the store of adjusted phenotypes, or reuse the existing one.

    The constant and the covariates remain `n_fixed` columns of the sums, or none. `unadjusted` has
    the coding `before`.
    """
    parts = {"of": unadjusted.content_digest, "coding": coding.digest, "fixed": n_fixed}
    request = sha256_of_json(parts)
    if groups.is_complete(path, KIND):
        finished = groups.attributes_of(groups.open_group(path, KIND))
        if finished.get("request_digest") == request:
            return open_outcome_store(path)
    n = unadjusted.n_samples
    held_out = unadjusted.held_out(slice(0, n))

    def rows_of(people: slice) -> Int16:
        rows = read_block(unadjusted._rows, (people, slice(None)))
        return coding.residuals(rows, before)

    left_out = 1 + len(coding.covariates) - n_fixed
    header = {"request_digest": request, "coding_digest": coding.digest, "left_out": left_out}
    apart = held_out if held_out.any() else None
    _write_store(
        path, header, rows_layout(n, coding.n_columns), rows_of, unadjusted.observed, apart
    )
    return open_outcome_store(path)


def _coded_rows(
    coding: OutcomeCoding, rows: OutcomeRows, components: ComponentRows | None, people: slice
) -> Int16:
    """Return the rows of consecutive people, int16 (r, q)."""
    if rows.covariates is None or rows.phenotypes is None:
        raise ValueError("the outcomes were read for a dry run")
    constant = np.full((people.stop - people.start, 1), coding.constant, dtype=np.int16)
    parts = [constant, rows.covariates.read(people)]
    if components is not None:
        values = read_block(components.array, (people, slice(None)))
        parts.append(coding.code_covariates(values, slice(rows.covariates.n_columns, None)))
    return np.hstack([*parts, rows.phenotypes.read(people)])


def _observed_beside(rows: OutcomeRows, layout: groups.ArrayLayout, held_out: Bool) -> Int64:
    """Return the number of people with each phenotype who are not held out."""
    observed = np.zeros_like(rows.observed)
    for start in range(0, len(held_out), layout.chunks[0]):
        people = slice(start, min(start + layout.chunks[0], len(held_out)))
        if rows.phenotypes is not None:
            observed += (rows.phenotypes.read(people)[~held_out[people]] != 0).sum(axis=0)
    return observed


def _log_counts(coding: OutcomeCoding, observed: Int64) -> None:
    LOGGER.info(
        "phenotypes: %d, each with %d to %d people (listed in run.log)",
        len(observed), observed.min(), observed.max(),
    )  # fmt: skip
    for phenotype, people in zip(coding.phenotypes, observed, strict=True):
        LOGGER.debug("%s: %d people", phenotype.name, people)


def _write_store(
    path: Location,
    header: Mapping[str, object],
    layout: groups.ArrayLayout,
    rows_of: Callable[[slice], Int16],
    observed: Int64,
    held_out: Bool | None,
) -> None:
    """Write a complete outcome store; `rows_of` returns the rows of consecutive people."""
    n, height = layout.shape[0], layout.chunks[0]
    group = groups.create_group(path, KIND, {**header, "has_held_out": held_out is not None})
    array = groups.create_array(group, "rows", layout)
    content = hashlib.sha256(f"{layout.shape} ".encode())
    for start in range(0, n, height):
        people = slice(start, min(start + height, n))
        rows = rows_of(people)
        write_block(array, (people, slice(None)), rows)
        content.update(rows.astype("<i2", copy=False).tobytes())
    write_array(group, "observed", observed, observed.shape)
    content.update(observed.astype("<i8").tobytes())
    if held_out is not None:
        write_array(group, HELD_OUT, held_out.astype(np.uint8), (min(n, CHUNK_BYTES),))
        content.update(held_out.tobytes())
    groups.flush(group)
    groups.mark_complete(group, {"content_digest": content.hexdigest()})


def _request_digest(
    samples: SampleTable,
    tables_sha256: tuple[str, ...],
    coding: OutcomeCoding,
    held_out: Bool | None,
    components: ComponentRows | None,
    to_adjust: bool,
) -> str:
    """Return a digest of everything that determines the store's content."""
    people = hashlib.sha256(b"" if held_out is None else held_out.tobytes())
    for person in samples.people():
        people.update(f"{person}\n".encode())
    files = list(tables_sha256)
    if components is not None:
        files.append(components.digest)
    content = {"coding": coding.digest, "people": people.hexdigest(), "files": files}
    return sha256_of_json(content | {"to_adjust": to_adjust})


_MOST_OUTSIDE = 0.05  # share of a column's values
_MOST_OF_A_CODE = 0.002  # share of a column's values that one value out of bounds may have


class OutcomeCounts:
    """Counts of the values of phenotypes, and of the covariates that come from a file.

    These are the first `n_covariates` of the coding; principal components follow them. `n_people`
    are genotyped, with or without a row in the files.
    """

    def __init__(self, coding: OutcomeCoding, n_covariates: int, n_people: int) -> None:
        self.coding = coding
        self.n_people = n_people
        self.covariates = coding.covariates[:n_covariates]
        shape = len(coding.phenotypes)
        self.observed: Int64 = np.zeros(shape, dtype=np.int64)
        self._cases, self._no_codes, self._outside = np.zeros((3, shape), dtype=np.int64)
        self._covariates = np.zeros((2, n_covariates), dtype=np.int64)  # observed, outside
        self._outliers, self._covariate_outliers = _Extremes(shape), _Extremes(n_covariates)

    def add_phenotypes(self, values: Float64, counted: Bool) -> None:
        """Count values, float64 (people, l); `counted` is the mask of those that enter sums."""
        coding = self.coding
        self.observed += counted.sum(axis=0)
        self._cases += (coding.cases(values) & counted).sum(axis=0)
        self._no_codes += coding.invalid_codes(values).sum(axis=0)
        outside = outside_bounds(values, coding.phenotypes) & counted
        self._outside += outside.sum(axis=0)
        self._outliers.add(values, outside)

    def add_covariates(self, values: Float64) -> None:
        """Count values, float64 (people, c)."""
        present = ~is_missing_number(values)
        outside = outside_bounds(values, self.covariates) & present
        self._covariates += np.stack([present.sum(axis=0), outside.sum(axis=0)])
        self._covariate_outliers.add(values, outside)

    def warn(self) -> None:
        """Log what is probably a mistake in a table or its bounds."""
        phenotypes = self.coding.phenotypes
        for phenotype, people, cases, no_codes in zip(
            phenotypes, self.observed, self._cases, self._no_codes, strict=True
        ):
            codes = phenotype.lower, phenotype.upper
            if phenotype.kind == "binary" and people and cases in (0, people):
                LOGGER.warning(
                    "%s: %d cases among %d people; check that %g means control and %g means case",
                    phenotype.name, cases, people, *codes,
                )  # fmt: skip
            if no_codes:
                LOGGER.warning(
                    "%s: %d values other than its codes %g and %g count as missing; give the codes "
                    "of the table as its bounds (1 and 2 as of PLINK), or, if the phenotype is not "
                    "binary, write quantitative in their type column",
                    phenotype.name, no_codes, *codes,
                )  # fmt: skip
        counts = np.stack([self.observed, self._outside])
        _warn_of_columns(phenotypes, counts, self._outliers)
        _warn_of_columns(self.covariates, self._covariates, self._covariate_outliers)
        _warn_of_rare(phenotypes, self.observed, self.n_people)


class _Extremes:
    """The smallest and the largest value out of bounds of each of k columns, and their counts.

    A code of missing values, such as -999, is beyond all others.
    """

    def __init__(self, k: int) -> None:
        self._values = np.full((2, k), np.inf)  # the largest has its sign turned
        self._counts = np.zeros((2, k), dtype=np.int64)

    def add(self, values: Float64, outside: Bool) -> None:
        """Count the values, float64 (people, k), of the mask `outside`."""
        signed = np.where(outside, np.stack([values, -values]), np.inf)
        found = signed.min(axis=1, initial=np.inf)
        times = ((signed == found[:, None]) & outside).sum(axis=1)
        self._counts[found < self._values] = 0
        self._values = np.minimum(self._values, found)
        self._counts += np.where(found == self._values, times, 0)

    def commonest(self, column: int) -> tuple[float, int]:
        """Return the one of both values of a column that is seen more often, and its count."""
        side = int(self._counts[:, column].argmax())
        return float((1 - 2 * side) * self._values[side, column]), int(self._counts[side, column])


def _warn_of_columns(
    columns: Sequence[PhenotypeBounds | CovariateCoding],
    counts: Int64,
    outliers: _Extremes,
) -> None:
    """Warn of columns without values, with many outside of the bounds, or with a code there.

    `counts` has the number of values of each column, and that of values outside, shape (2, k).
    """
    for k, (column, (people, beyond)) in enumerate(zip(columns, counts.T, strict=True)):
        if not people:
            LOGGER.warning("%s: nobody has a value", column.name)
        elif beyond > _MOST_OUTSIDE * people:
            LOGGER.warning(
                "%s: %.1f%% of %d values lie outside of the bounds %g and %g and count as the "
                "nearer one; take bounds of the right unit from public knowledge. Weights have a "
                "wrong scale otherwise, also with --calibrate",
                column.name, 100 * beyond / people, people, column.lower, column.upper,
            )  # fmt: skip
        if beyond <= _MOST_OF_A_CODE * people:
            continue
        value, times = outliers.commonest(k)
        if times > max(1, _MOST_OF_A_CODE * people):
            LOGGER.warning(
                "%s: %d of %d values are %.9g, outside of the bounds %g and %g, and count as the "
                "nearer one; if this is a code of missing values, write NA in its place",
                column.name, times, people, value, column.lower, column.upper,
            )  # fmt: skip


def _warn_of_rare(phenotypes: Sequence[PhenotypeBounds], observed: Int64, n_people: int) -> None:
    """Warn of phenotypes that most of the genotyped people lack; forecasts count everybody."""
    rare = [
        f"{phenotype.name} {100 * (n_people - people) / n_people:.1f}%"
        for phenotype, people in zip(phenotypes, observed, strict=True)
        if 0 < people < n_people / 2
    ]
    if rare:
        LOGGER.warning(
            "%d of %d phenotypes have no value for more than half of %d genotyped people: %s. "
            "Their weights are about as accurate as those of a cohort of the people with a value, "
            "less than forecast. Leave them out with --pheno-name, which also lessens the noise of "
            "the others, or release them apart, with --keep where it is public who has a value",
            len(rare), len(phenotypes), n_people, examples(rare),
        )  # fmt: skip
