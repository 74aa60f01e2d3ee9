"""Public bounds of phenotypes and covariates, given by the user and never taken from the cohort.

The file is a table with the columns ``name``, ``lower`` and ``upper`` and, optionally, ``mean``,
``sd`` and ``type``, in any order, separated by tabs, blanks or commas. Its content is public and
part of the release. ``NA`` in an optional column means not given. Files for covariates have the
same layout; their ``mean`` is the centre, and ``sd`` and ``type`` are not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from primo_scale.errors import InputError
from primo_scale.genotypes.text_lines import table_lines, utf8_text
from primo_scale.humanize import examples

PhenotypeKind = Literal["quantitative", "binary"]

ZERO_ONE = (0.0, 1.0)
ONE_TWO = (1.0, 2.0)
"""Bounds of the two codings of binary traits: PLINK's control 1 and case 2, REGENIE's 0 and 1."""

_REQUIRED_COLUMNS = ("name", "lower", "upper")
_COLUMNS = (*_REQUIRED_COLUMNS, "mean", "sd", "type")
_SMALLEST_RANGE, _LARGEST_RANGE = 1e-100, 1e100  # beyond them, arithmetic on bounds overflows
_UNKNOWN = ("NA", "")


@dataclass(frozen=True)
class PhenotypeBounds:
    """Public bounds of a phenotype."""

    name: str
    lower: float  # values beyond the bounds are clamped
    upper: float
    # Public guesses of the mean and the standard deviation. Poor ones cost accuracy, not privacy.
    mean: float
    sd: float
    # A binary phenotype has two codes, which are its bounds: 1 and 2, or 0 and 1.
    kind: PhenotypeKind


@dataclass(frozen=True)
class CovariateBounds:
    """Public bounds of a covariate, and the centre that is subtracted from it."""

    name: str
    lower: float
    upper: float
    centre: float


@dataclass(frozen=True)
class _Row:
    """Line of the file, with its cells by column name; ``NA`` cells are left out."""

    where: str
    cells: dict[str, str]

    def number(self, column: str, default: float | None = None) -> float:
        """Return the finite number in a column, or the default if the cell is missing."""
        if column not in self.cells and default is not None:
            return default
        try:
            value = float(self.cells.get(column, "NA"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(
                f"{column} of {self.cells['name']} is not a finite number",
                where=self.where,
                value=self.cells.get(column, "NA"),
                remedy="Give both bounds; values beyond them are clamped",
            )
        return value


def read_phenotype_bounds(path: Path, names: Sequence[str]) -> tuple[PhenotypeBounds, ...]:
    """Look up the bounds of the phenotypes `names`, in that order.

    The default of the mean is the midpoint of the bounds, and that of the sd half their distance. A
    phenotype with the bounds 1 and 2, or 0 and 1, is binary unless its type says otherwise.
    Missing, repeated, infinite and contradictory entries are refused.
    """
    return tuple(map(_phenotype, _look_up(path, names, option="--pheno-bounds")))


def read_covariate_bounds(path: Path, names: Sequence[str]) -> tuple[CovariateBounds, ...]:
    """Look up the bounds of the covariates `names`, in that order.

    The default of the centre is the midpoint of the bounds. Refusals as in `read_phenotype_bounds`.
    """
    rows = _look_up(path, names, option="--covar-bounds")
    return tuple(CovariateBounds(row.cells["name"], *_range(row)) for row in rows)


def names_with_bounds(path: Path) -> frozenset[str]:
    """Return the names in a table of bounds."""
    return frozenset(row.cells["name"] for row in _rows(path))


def _look_up(path: Path, names: Sequence[str], *, option: str) -> list[_Row]:
    rows: dict[str, _Row] = {}
    for row in _rows(path):
        name = row.cells["name"]
        if name in rows:
            raise InputError(
                f"{name} is repeated", where=row.where, value=f"also at {rows[name].where}"
            )
        rows[name] = row
    missing = [name for name in names if name not in rows]
    if missing:
        raise InputError(
            f"no bounds for {len(missing)} of {len(names)} columns: {examples(missing)}",
            where=path,
            remedy=f"Add a line 'name lower upper' for each to the file given with {option}",
        )
    return [rows[name] for name in names]


def _phenotype(row: _Row) -> PhenotypeBounds:
    lower, upper, mean = _range(row)
    sd = row.number("sd", default=(upper - lower) / 2)
    if sd <= 0:
        raise InputError(
            f"sd of {row.cells['name']} is not positive", where=row.where, value=sd, expected="> 0"
        )
    return PhenotypeBounds(row.cells["name"], lower, upper, mean, sd, _kind(row, (lower, upper)))


def _range(row: _Row) -> tuple[float, float, float]:
    """Return the lower bound, the upper bound and the mean, after checking them."""
    name = row.cells["name"]
    lower, upper = row.number("lower"), row.number("upper")
    if not _SMALLEST_RANGE < upper - lower < _LARGEST_RANGE:
        raise InputError(
            f"the bounds of {name} are not an increasing range",
            where=row.where,
            value=f"{lower:g} and {upper:g}",
            expected="lower below upper",
        )
    mean = row.number("mean", default=lower + (upper - lower) / 2)
    if not lower <= mean <= upper:
        raise InputError(
            f"mean of {name} is outside its bounds",
            where=row.where,
            value=f"{mean:g}",
            limit=f"{lower:g} to {upper:g}",
            remedy="Give it in the unit of the bounds: of a trait coded 1 and 2 it is 1 plus the "
            "share of cases",
        )
    return lower, upper, mean


def _kind(row: _Row, bounds: tuple[float, float]) -> PhenotypeKind:
    codes = bounds in (ZERO_ONE, ONE_TWO)
    kind = row.cells.get("type", "binary" if codes else "quantitative")
    if kind not in get_args(PhenotypeKind):
        raise InputError(
            f"unknown type of {row.cells['name']}",
            where=row.where,
            value=kind,
            expected="quantitative or binary",
        )
    if kind == "binary" and not codes:
        raise InputError(
            f"the bounds of binary {row.cells['name']} are not case/control codes",
            where=row.where,
            value=f"{bounds[0]:g} and {bounds[1]:g}",
            expected="1 and 2, or 0 and 1",
        )
    return "binary" if kind == "binary" else "quantitative"


def _rows(path: Path) -> Iterator[_Row]:
    header: list[str] | None = None
    for line, found in table_lines(path):
        cells = [utf8_text(cell, path, line) for cell in found]
        if header is None:
            header = _checked_header(cells, f"{path}:{line}")
            continue
        if len(cells) != len(header):
            raise InputError(
                "the row and the header differ in length",
                where=f"{path}:{line}",
                value=f"{len(cells)} cells",
                expected=len(header),
                remedy="Write NA for a mean or sd that is not known",
            )
        named = zip(header, cells, strict=True)
        known = {n: cell for n, cell in named if n == "name" or cell not in _UNKNOWN}
        yield _Row(f"{path}:{line}", known)


def _checked_header(cells: list[str], where: str) -> list[str]:
    header = [cells[0].removeprefix("#"), *cells[1:]]
    if (
        len(set(header)) < len(header)
        or set(header) - set(_COLUMNS)
        or set(_REQUIRED_COLUMNS) - set(header)
    ):
        raise InputError(
            "not a header of bounds",
            where=where,
            value=" ".join(cells)[:80],
            expected="name lower upper [mean] [sd] [type]",
        )
    return header
