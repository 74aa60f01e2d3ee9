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
import math
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NewType

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import SampleTable
from primo_scale.humanize import examples
from primo_scale.kernels.products import row_multipliers, scale_entries
from primo_scale.outcomes import coding as coded
from primo_scale.outcomes.coding import Bool, Int16, Int64, OutcomeCoding, PhenotypeBounds
from primo_scale.outcomes.tables import match_people, open_outcome_table
from primo_scale.ranges import pieces, runs_of
from primo_scale.storage import groups, locations
from primo_scale.storage.files import disk_errors_explained, sha256_of_file, sha256_of_json

KIND = "outcomes"
HELD_OUT = "held_out"
CHUNK_BYTES = 1 << 22

LOGGER = logging.getLogger("primo_scale")
KEY_BYTES = 32
LEAST_HELD_OUT = 30
"""Smallest number of people that a release may hold out."""


def choose_held_out(samples: SampleTable, people: int, key: bytes) -> Bool:
    """Return the mask of the people whose IDs have the smallest keyed hashes, shape (n,).

    The choice depends on the IDs and on a random key of `KEY_BYTES` bytes alone, never on a value
    of a person, so that two neighbouring cohorts hold out the same people (docs/maths/hold-out.md).
    """
    hashes = [hmac.digest(key, each.encode(), "sha256") for each in samples.people()]
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    chosen = np.zeros(len(hashes), dtype=np.bool_)
    chosen[order[:people]] = True
    return chosen


@dataclass(frozen=True, eq=False)
class ComponentRows:
    """Principal components of all people, the last covariates of a coding. PRIVATE."""

    digest: str  # of everything that determines the components
    array: groups.Array  # float64, shape (n, k)


@dataclass(frozen=True, eq=False)
class OutcomeStore:
    """Finished outcome store. PRIVATE."""

    path: locations.Location
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
        rows = groups.read_block(self._rows, (samples, slice(None)))[:, self._left_out :]
        if self._held_out is None:
            return rows
        return np.where(self.held_out(samples)[:, None], np.int16(0), rows)

    def held_out(self, samples: slice) -> Bool:
        """Return which of consecutive people are held out, shape (r,)."""
        if self._held_out is None:
            return np.zeros(len(range(*samples.indices(self.n_samples))), dtype=np.bool_)
        return groups.read_block(self._held_out, (samples,)).astype(np.bool_)

    def read_held_out(self, samples: slice) -> Int16:
        """Return the rows of those of consecutive people who are held out, int16 (h, q)."""
        return groups.read_block(self._rows, (samples, slice(None)))[self.held_out(samples)]


def open_outcome_store(path: locations.Location) -> OutcomeStore:
    """Open a finished outcome store, or refuse what `open_group` refuses."""
    group = groups.open_group(path, KIND)
    rows, attributes = groups.array_of(group, "rows"), groups.attributes_of(group)
    return OutcomeStore(
        path=path,
        n_samples=rows.shape[0],
        content_digest=str(attributes["content_digest"]),
        observed=groups.read_block(groups.array_of(group, "observed")),
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
    files: Sequence[Path | None],
    coding: OutcomeCoding,
    *,
    scratch: Path | None,
    n_covariates: int,
    to_adjust: bool = False,
    people_file: str | None = None,
) -> OutcomeRows:
    """Read and code every value that will be used; warn of those that are probably mistaken.

    `files` are those of the phenotypes and, unless there are none, of the covariates. People are
    matched by FID and IID, or by IID alone if a file has no FID column. A person without a row, or
    with a missing value, has the lattice value 0. With `to_adjust`, an observed phenotype of 0 is
    1. The rows lie in files without names in the private directory `scratch`; without it, values
    are only checked. The index of IDs is the only part of the memory that grows with n.
    `n_covariates` come from the file, before the components; `people_file` lists the people of the
    genotypes, for errors.
    """
    tables = [open_outcome_table(file) for file in files if file]
    n, of_file = len(samples), coding.covariates[:n_covariates]
    # Observed, outside the bounds, and of phenotypes cases and values that are no code.
    counts = np.zeros((4, len(coding.phenotypes)), dtype=np.int64)
    covariate_counts = np.zeros((2, n_covariates), dtype=np.int64)
    with ThreadPoolExecutor(1) as beside:  # the digest needs all of the files too
        digests = beside.submit(lambda: tuple(sha256_of_file(table.path) for table in tables))
        phenotypes = None if scratch is None else _scratch_rows(scratch, n, len(coding.phenotypes))
        covariates = None if scratch is None else _scratch_rows(scratch, n, n_covariates)
        names = tuple(phenotype.name for phenotype in coding.phenotypes)
        level = logging.INFO
        matched = match_people(tables[0], names, samples, level=level, people_file=people_file)
        for people, values in matched:
            has_value = coding.observed(values)
            masks = [
                has_value,
                has_value & coded.outside_bounds(values, coding.phenotypes),
                has_value & coding.cases(values),
                coding.invalid_codes(values),
            ]
            counts += [mask.sum(axis=0) for mask in masks]
            if phenotypes is not None:
                codes = coding.code_phenotypes(values, has_value)
                codes[to_adjust & has_value & (codes == 0)] = 1
                phenotypes.write(people, codes)
        if n_covariates:
            names = tuple(covariate.name for covariate in of_file)
            for people, values in match_people(tables[1], names, samples, level=level):
                present = ~coded.is_missing_number(values)
                outside = present & coded.outside_bounds(values, of_file)
                covariate_counts += [present.sum(axis=0), outside.sum(axis=0)]
                if covariates is not None:
                    codes = coding.code_covariates(values, slice(n_covariates))
                    covariates.write(people, codes)
        _warn_of_phenotypes(coding.phenotypes, counts, n)
        _warn_of_columns(of_file, covariate_counts)
        return OutcomeRows(digests.result(), counts[0], covariates, phenotypes)


def align_outcomes(
    path: locations.Location,
    samples: SampleTable,
    files: Sequence[Path | None],
    coding: OutcomeCoding,
    *,
    scratch: Path,
    components: ComponentRows | None = None,
    rows: OutcomeRows | None = None,
    held_out: Bool | None = None,
    to_adjust: bool = False,
) -> OutcomeStore:
    """Write the outcome store of the people `samples`, or reuse the existing one.

    `components` are the last covariates, after those of the files. `rows` are those of
    `read_outcomes` for the same arguments, which is called without them. With `to_adjust`, a
    phenotype of 0 is missing, as `write_residuals` needs it; people are held out, by their mask of
    shape (n,), from such rows alone. A finished store of the same files, people and coding is
    reused; another outcome store is replaced.
    """
    paths = filter(None, files)
    digests = tuple(map(sha256_of_file, paths)) if rows is None else rows.tables_sha256
    people = hashlib.sha256(b"" if held_out is None else held_out.tobytes())
    for person in samples.people():
        people.update(f"{person}\n".encode())
    used = [*digests, *([] if components is None else [components.digest])]
    content = {"coding": coding.digest, "people": people.hexdigest(), "files": used}
    request = sha256_of_json(content | {"to_adjust": to_adjust})
    if (finished := _find_store(path, request)) is not None:
        return finished
    n_covariates = len(coding.covariates) - (0 if components is None else components.array.shape[1])
    if rows is None:
        rows = read_outcomes(
            samples, files, coding,
            scratch=scratch, n_covariates=n_covariates, to_adjust=to_adjust or held_out is not None,
        )  # fmt: skip
    header = {"request_digest": request, "coding_digest": coding.digest}
    layout = rows_layout(len(samples), coding.n_columns)
    observed = rows.observed
    if held_out is not None and rows.phenotypes is not None:
        observed = np.zeros_like(observed)
        for part in pieces(len(held_out), layout.chunks[0]):
            observed += (rows.phenotypes.read(part)[~held_out[part]] != 0).sum(axis=0)
    LOGGER.debug(
        "phenotypes: %d, each with %d to %d people (listed in run.log)",
        len(observed), observed.min(), observed.max(),
    )  # fmt: skip
    for phenotype, count in zip(coding.phenotypes, observed, strict=True):
        LOGGER.debug("%s: %d people", phenotype.name, count)
    rows_of = partial(_coded_rows, coding, rows, components)
    return _write_store(path, header, layout, rows_of, observed, held_out)


def _find_store(path: locations.Location, request: str) -> OutcomeStore | None:
    """Return the finished store of a request, or None."""
    if not groups.is_complete(path, KIND):
        return None
    finished = groups.attributes_of(groups.open_group(path, KIND))
    return open_outcome_store(path) if finished.get("request_digest") == request else None


def write_residuals(
    path: locations.Location,
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
    if (finished := _find_store(path, request)) is not None:
        return finished
    n = unadjusted.n_samples
    held_out = unadjusted.held_out(slice(0, n))

    def rows_of(people: slice) -> Int16:
        return coding.residuals(groups.read_block(unadjusted._rows, (people, slice(None))), before)

    left_out = 1 + len(coding.covariates) - n_fixed
    header = {"request_digest": request, "coding_digest": coding.digest, "left_out": left_out}
    apart = held_out if held_out.any() else None
    layout = rows_layout(n, coding.n_columns)
    return _write_store(path, header, layout, rows_of, unadjusted.observed, apart)


def _coded_rows(
    coding: OutcomeCoding, rows: OutcomeRows, components: ComponentRows | None, people: slice
) -> Int16:
    """Return the rows of consecutive people, int16 (r, q)."""
    if rows.covariates is None or rows.phenotypes is None:
        raise ValueError("the outcomes were read for a dry run")
    constant = np.full((people.stop - people.start, 1), coding.constant, dtype=np.int16)
    parts = [constant, rows.covariates.read(people)]
    if components is not None:
        values = groups.read_block(components.array, (people, slice(None)))
        parts.append(coding.code_covariates(values, slice(rows.covariates.n_columns, None)))
    return np.hstack([*parts, rows.phenotypes.read(people)])


def _write_store(
    path: locations.Location,
    header: Mapping[str, object],
    layout: groups.ArrayLayout,
    rows_of: Callable[[slice], Int16],
    observed: Int64,
    held_out: Bool | None,
) -> OutcomeStore:
    """Write a complete outcome store; `rows_of` returns the rows of consecutive people."""
    n = layout.shape[0]
    group = groups.create_group(path, KIND, {**header, "has_held_out": held_out is not None})
    array = groups.create_array(group, "rows", layout)
    content = hashlib.sha256(f"{layout.shape} ".encode())
    for people in pieces(n, layout.chunks[0]):
        rows = rows_of(people)
        groups.write_block(array, (people, slice(None)), rows)
        content.update(rows.astype("<i2", copy=False).tobytes())
    groups.write_array(group, "observed", observed, observed.shape)
    content.update(observed.astype("<i8").tobytes())
    if held_out is not None:
        groups.write_array(group, HELD_OUT, held_out.astype(np.uint8), (min(n, CHUNK_BYTES),))
        content.update(held_out.tobytes())
    groups.flush(group)
    groups.mark_complete(group, {"content_digest": content.hexdigest()})
    return open_outcome_store(path)


_MOST_OUTSIDE = 0.01  # share of a column's values


def _warn_of_phenotypes(phenotypes: Sequence[PhenotypeBounds], counts: Int64, samples: int) -> None:
    """Warn of what is probably a mistake in the table of phenotypes or its bounds.

    `counts` are the numbers of values, of those outside of the bounds, of cases, and of those that
    are no code, shape (4, l). `samples` people are genotyped, with or without a row.
    """
    for phenotype, people, cases, no_codes in zip(phenotypes, *counts[[0, 2, 3]], strict=True):
        codes = phenotype.lower, phenotype.upper
        if phenotype.kind == "binary" and people and cases in (0, people):
            LOGGER.warning(
                "%s: %d cases among %d people; check that %g means control and %g means case",
                phenotype.name, cases, people, *codes,
            )  # fmt: skip
        if no_codes:
            LOGGER.warning(
                "%s: %d values other than its codes %g and %g count as missing; give the codes of "
                "the table as its bounds (1 and 2 as of PLINK), or, if the phenotype is not "
                "binary, write quantitative in their type column",
                phenotype.name, no_codes, *codes,
            )  # fmt: skip
    _warn_of_columns(phenotypes, counts[:2])
    rare = [  # forecasts count everybody
        f"{phenotype.name} {100 * (samples - people) / samples:.1f}%"
        for phenotype, people in zip(phenotypes, counts[0], strict=True)
        if 0 < people < samples / 2
    ]
    if rare:
        LOGGER.warning(
            "%d of %d phenotypes have no value for more than half of %d genotyped people: %s. "
            "Their weights are about as accurate as those of a cohort of the people with a value, "
            "less than forecast. Leave them out with --pheno-name, which also lessens the noise of "
            "the others, or release them apart, with --keep where it is public who has a value",
            len(rare), len(phenotypes), samples, examples(rare),
        )  # fmt: skip


def _warn_of_columns(
    columns: Sequence[PhenotypeBounds | coded.CovariateCoding], counts: Int64
) -> None:
    """Warn of columns without values, or with many outside of the bounds.

    `counts` has the number of values of each column, and that of values outside, shape (2, k).
    """
    for column, people, beyond in zip(columns, *counts, strict=True):
        if not people:
            LOGGER.warning("%s: nobody has a value", column.name)
        elif beyond > _MOST_OUTSIDE * people:
            LOGGER.warning(
                "%s: %.1f%% of %d values lie outside of the bounds %g and %g and count as the "
                "nearer one; take bounds of the right unit from public knowledge, and write NA in "
                "place of a code of missing values. Weights have a wrong scale otherwise, also "
                "with calibrate",
                column.name, 100 * beyond / people, people, column.lower, column.upper,
            )  # fmt: skip


_ROWS = 1 << 13  # at a time: the products of so many codes are exact in float64
# Squared norms are compared in steps of 2^10.
_STEP_BITS = 10
_ENTRY_BITS = 13  # of the largest magnitude of a code in the sums
# The bound on a person's rows, relative to people whose covariates have this mean square, in units
# of their bounds, and whose phenotypes vary as their public sds say. Larger rows count less.
_MARGIN, _MEAN_SQUARE = 1.2, 0.1
_ABOVE = 1 + 2.0**-20  # more than the rounding of a sum of so many squares


# Exact Gram matrices of (c, y) for each phenotype, shape (l, f + 1, f + 1). PRIVATE: only
# `privacy.payment` may use them.
RawAdjustment = NewType("RawAdjustment", Int64)


@dataclass(frozen=True)
class AdjustmentScale:
    """Public scale of the rows (c, y) in the Gram matrices.

    The constant, and every covariate at its farther bound, is about twice a phenotype's public
    standard deviation, and larger than a case of a binary phenotype. A larger scale of the
    phenotypes would need less noise, but more rows would be scaled down, which biases means and
    standard deviations.
    """

    shifts: tuple[int, ...]  # bits by which the codes of each phenotype are divided
    norm: int  # bound N on the root of ``sum_j |v_j|^4`` of a person

    @classmethod
    def of(cls, coding: OutcomeCoding) -> AdjustmentScale:
        """Return the scale for a public coding."""
        n_fixed = 1 + len(coding.covariates)
        largest = coding.max_abs[n_fixed:].tolist()
        kinds = (phenotype.kind for phenotype in coding.phenotypes)
        shifts = tuple(
            max(1, (2 * bound // coding.unit).bit_length(), bound.bit_length() - _ENTRY_BITS)
            if kind == "binary"
            else max(1, bound.bit_length() - _ENTRY_BITS)
            for bound, kind in zip(largest, kinds, strict=True)
        )
        of_fixed = coding.constant**2 * (1 + _MEAN_SQUARE * len(coding.covariates))
        squares = [(of_fixed + (coding.unit / 2**shift) ** 2) ** 2 for shift in shifts]
        return cls(shifts, math.ceil(_MARGIN * math.sqrt(sum(squares))))

    def rows(self, rows: Int16) -> tuple[Int64, Int64]:
        """Return the scaled rows c, shape (people, f), and y, shape (people, l), of coded rows.

        For every person they satisfy ``sum_j (|c|^2 + y_j^2)^2 <= norm^2``, over the phenotypes
        whose code is not 0.
        """
        n_fixed = rows.shape[1] - len(self.shifts)
        fixed = rows[:, :n_fixed].astype(np.int32)
        phenotypes = rows[:, n_fixed:].astype(np.int32)
        phenotypes = np.sign(phenotypes) * (np.abs(phenotypes) >> np.array(self.shifts))
        squares = (fixed.astype(np.int64) ** 2).sum(axis=1)[:, None] + phenotypes.astype(int) ** 2
        steps = np.where(rows[:, n_fixed:] != 0, -(-squares >> _STEP_BITS), 0)
        total = (steps.astype(np.float64) ** 2).sum(axis=1)
        root = (np.sqrt(total) * _ABOVE).astype(np.int64) + 1  # above the exact root
        multipliers = row_multipliers(root << _STEP_BITS, self.norm)[:, None]
        scaled = (scale_entries(part, multipliers) for part in (fixed, phenotypes.astype(np.int32)))
        c, y = (part.astype(np.int64) for part in scaled)
        return c, y


def sum_grams(store: OutcomeStore, scale: AdjustmentScale) -> RawAdjustment:
    """Return the sums over the people of a store who are not held out.

    In the store, a phenotype of 0 is missing, and an observed 0 is stored as 1.
    """
    n_phenotypes = len(scale.shifts)
    n_fixed = store.n_columns - n_phenotypes
    grams = np.zeros((n_phenotypes, n_fixed + 1, n_fixed + 1), dtype=np.int64)
    for people in pieces(store.n_samples, _ROWS):
        rows = store.read_rows(people)
        c, y = scale.rows(rows)
        grams[:, :-1, :-1] += _product(c, c)
        cross = _product(c, y)
        grams[:, :-1, -1] += cross.T
        grams[:, -1, :-1] += cross.T
        grams[:, -1, -1] += (y * y).sum(axis=0)
        missing = rows[:, n_fixed:] == 0
        for j in np.flatnonzero(missing.any(axis=0)):
            without = c[missing[:, j]]
            grams[j, :-1, :-1] -= _product(without, without)
    return RawAdjustment(grams)


def _product(one: Int64, other: Int64) -> Int64:
    """Return the exact product of the transpose of one with the other."""
    product: npt.NDArray[np.float64] = one.T.astype(np.float64) @ other.astype(np.float64)
    return product.astype(np.int64)
