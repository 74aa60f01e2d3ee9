"""Public bounds of phenotypes and covariates, and the integer coding that follows from them.

The bounds are given by the user and never taken from the cohort.

The file is a table with the columns ``name``, ``lower`` and ``upper`` and, optionally, ``mean``,
``sd`` and ``type``, in any order, separated by tabs, blanks or commas. Its content is public and
part of the release. ``NA`` in an optional column means not given. Files for covariates have the
same layout; their ``mean`` is the centre, and ``sd`` and ``type`` are not used.

Each value of an outcome column (constant, covariates, phenotypes) is clamped to these bounds,
centred and scaled by public numbers, and truncated to int16; a missing value becomes 0. The coding
is a fixed function of one person's record and costs no privacy
(docs/maths/planning.md, steps 2 and 3).

As in plink2, missing values are ``NA``, ``nan`` and -9 in phenotypes and covariates, and 0 in a
binary trait coded 1/2. In a binary trait, any other number than its two codes is missing as well:
it is neither case nor control, and refusing the file would reveal one person's value.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import table_lines, utf8_text
from primo_scale.humanize import examples
from primo_scale.storage.files import sha256_of_json

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
            also = f"also at {rows[name].where}"
            raise InputError(f"{name} is repeated", where=row.where, value=also)
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
    name, (lower, upper, mean) = row.cells["name"], _range(row)
    sd = row.number("sd", default=(upper - lower) / 2)
    if sd <= 0:
        raise InputError(f"sd of {name} is not positive", where=row.where, value=sd, expected="> 0")
    codes = (lower, upper) in (ZERO_ONE, ONE_TWO)
    kind = row.cells.get("type", "binary" if codes else "quantitative")
    if kind not in get_args(PhenotypeKind):
        raise InputError(
            f"unknown type of {name}",
            where=row.where,
            value=kind,
            expected="quantitative or binary",
        )
    if kind == "binary" and not codes:
        raise InputError(
            f"the bounds of binary {name} are not case/control codes",
            where=row.where,
            value=f"{lower:g} and {upper:g}",
            expected="1 and 2, or 0 and 1",
        )
    return PhenotypeBounds(name, lower, upper, mean, sd, cast("PhenotypeKind", kind))


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


def _rows(path: Path) -> Iterator[_Row]:
    header: list[str] | None = None
    for line, found in table_lines(path):
        cells = [utf8_text(cell, path, line) for cell in found]
        if header is None:
            header = [cells[0].removeprefix("#"), *cells[1:]]
            known = set(header)
            if len(known) < len(header) or not set(_REQUIRED_COLUMNS) <= known <= set(_COLUMNS):
                raise InputError(
                    "not a header of bounds",
                    where=f"{path}:{line}",
                    value=" ".join(cells)[:80],
                    expected="name lower upper [mean] [sd] [type]",
                )
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
        given = {n: cell for n, cell in named if n == "name" or cell not in _UNKNOWN}
        yield _Row(f"{path}:{line}", given)


MISSING_NUMBER = -9.0

LARGEST_VALUE = 32767
LARGEST_UNIT = 1 << 13
ADJUSTED_UNIT = 1 << 12
"""Largest unit of phenotypes that will be adjusted, whose sds may become smaller: eight of them fit
on the lattice."""
SMALLEST_UNIT = 1 << 10
"""Smallest number of lattice units per standard deviation, so that truncation errors are at most
1/1024 of a standard deviation."""

BOUNDED_UNIT = 1 << 20
"""Largest magnitude of a value that is coded by its bounds alone."""

EFFECT_UNIT = 1 << 15
"""Steps in which effects of covariates on a phenotype are stated, in one lattice unit of it."""

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CovariateCoding(CovariateBounds):
    """Coding of a covariate c as ``trunc((clamp(c) - centre) scale)``."""

    scale: float  # lattice units per unit of the covariate


@dataclass(frozen=True)
class OutcomeCoding:
    """Public coding of the q outcome columns (constant, covariates, phenotypes) as int16."""

    constant: int  # lattice value kappa of the constant column
    covariates: tuple[CovariateCoding, ...]
    # Bounds of each phenotype y, which becomes ``trunc((clamp(y) - mean) / sd * unit)``.
    phenotypes: tuple[PhenotypeBounds, ...]
    unit: int  # number of lattice units s_y per sd of every phenotype
    # Effects of the codes of the constant and of each covariate on each phenotype, in lattice units
    # over `EFFECT_UNIT`; they are subtracted from it. Empty if phenotypes are not adjusted.
    effects: tuple[tuple[int, ...], ...] = ()

    @property
    def n_columns(self) -> int:
        """Number of columns q."""
        return 1 + len(self.covariates) + len(self.phenotypes)

    @cached_property
    def max_abs(self) -> npt.NDArray[np.int64]:
        """Largest possible magnitude in each column, int64 (q,)."""
        covariates = self._covariate_lattice(np.array(_columns(self.covariates, "lower", "upper")))
        phenotypes = self._phenotype_lattice(np.array(_columns(self.phenotypes, "lower", "upper")))
        farther = np.abs(np.hstack([covariates, phenotypes])).max(axis=0)
        largest = np.array([self.constant, *farther], dtype=np.int64)
        if self.effects:
            n_fixed = 1 + len(self.covariates)
            moved = largest[:n_fixed] @ np.abs(self._effects)
            largest[n_fixed:] += -(-moved // EFFECT_UNIT)
        return np.minimum(largest, LARGEST_VALUE)

    @property
    def phenotype_norm_cap(self) -> int:
        """Largest possible squared norm of a row's phenotypes before clipping."""
        return int((self.max_abs[1 + len(self.covariates) :] ** 2).sum())

    @property
    def digest(self) -> str:
        """SHA-256 digest of all parameters of the coding, as hexadecimal text."""
        return sha256_of_json(dataclasses.asdict(self))

    @property
    def means(self) -> Float64:
        """Mean of each phenotype at the centres of the covariates, shape (l,).

        It is the public mean, and for adjusted phenotypes that with the effect of the constant.
        """
        mean, sd = _columns(self.phenotypes, "mean", "sd")
        if not self.effects:
            return mean
        return np.asarray(mean + self.constant * self._effects[0] * (sd / self.unit / EFFECT_UNIT))

    @property
    def covariate_weights(self) -> Float64:
        """Change of each phenotype per unit of each covariate, by its effects, shape (c, l)."""
        (sd,), (scale,) = _columns(self.phenotypes, "sd"), _columns(self.covariates, "scale")
        if not self.effects:
            return np.zeros((len(scale), len(sd)))
        return np.asarray(self._effects[1:] * scale[:, None] * (sd / self.unit / EFFECT_UNIT))

    @cached_property
    def _effects(self) -> Int64:
        """Effects in lattice units over `EFFECT_UNIT` per code, shape (1 + c, l)."""
        return np.array(self.effects, dtype=np.int64).T

    def residuals(self, rows: Int16, before: OutcomeCoding) -> Int16:
        """Return rows, shape (people, q), with residuals in place of the phenotypes.

        `rows` are those of the coding `before`, with 0 for a missing phenotype, and so are the
        results.
        """
        n_fixed = 1 + len(self.covariates)
        codes = rows[:, n_fixed:].astype(np.float64)
        mean, sd = _columns(self.phenotypes, "mean", "sd")
        mean_before, sd_before = _columns(before.phenotypes, "mean", "sd")
        values = mean_before + codes * (sd_before / before.unit)
        lattice = (values - mean) / sd * self.unit
        fixed = rows[:, :n_fixed].astype(np.int64)
        fixed[:, 0] = self.constant
        lattice -= (fixed @ self._effects) / EFFECT_UNIT  # of exact integers
        lattice = np.trunc(np.clip(lattice, -LARGEST_VALUE, LARGEST_VALUE))
        # An observed value remains different from a missing one.
        lattice = np.where(codes == 0, 0, np.where(lattice == 0, 1, lattice))
        return np.hstack([rows[:, :n_fixed], lattice.astype(np.int16)])

    def code_covariates(self, values: Float64, which: slice = slice(None)) -> Int16:
        """Return the codes of `which` covariates, int16 (..., c), from values, float64 (..., c)."""
        missing = is_missing_number(values)
        return np.where(missing, 0.0, self._covariate_lattice(values, which)).astype(np.int16)

    def code_phenotypes(self, values: Float64, observed: Bool | None = None) -> Int16:
        """Return the codes of phenotypes, int16 (..., l), from values, float64 (..., l).

        `observed` is the result of `self.observed`, if it is known.
        """
        lattice = self._phenotype_lattice(values)
        missing = ~(self.observed(values) if observed is None else observed)
        np.copyto(lattice, 0.0, where=missing)
        return lattice.astype(np.int16)

    def observed(self, values: Float64) -> Bool:
        """Return a mask of the phenotypes, float64 (..., l), that are not missing."""
        return np.asarray(~(self._marked_missing(values) | self._without_code(values)))

    def invalid_codes(self, values: Float64) -> Bool:
        """Return a mask of the values, float64 (..., l), that are no code of a binary trait."""
        found = self._without_code(values)
        return found & ~self._marked_missing(values) if found.any() else found

    def cases(self, values: Float64) -> Bool:
        """Return a mask of the values, float64 (..., l), that are cases of a binary trait."""
        (upper,) = _columns(self.phenotypes, "upper")
        found = np.zeros(values.shape, dtype=bool)
        found[..., self._binary] = values[..., self._binary] == upper[self._binary]
        return found

    def _marked_missing(self, values: Float64) -> Bool:
        missing = is_missing_number(values)
        lower, upper = _columns(self.phenotypes, "lower", "upper")
        coded = (lower == ONE_TWO[0]) & (upper == ONE_TWO[1])
        one_two = self._binary[coded[self._binary]]
        missing[..., one_two] |= values[..., one_two] == 0
        return missing

    def _without_code(self, values: Float64) -> Bool:
        """Return a mask of the values of binary traits that equal neither of the two codes."""
        lower, upper = _columns(self.phenotypes, "lower", "upper")
        binary = self._binary
        found = np.zeros(values.shape, dtype=bool)
        coded = values[..., binary]
        found[..., binary] = (coded != lower[binary]) & (coded != upper[binary])
        return found

    @cached_property
    def _binary(self) -> npt.NDArray[np.intp]:
        """Positions of the binary phenotypes."""
        return np.flatnonzero([phenotype.kind == "binary" for phenotype in self.phenotypes])

    def _covariate_lattice(self, values: Float64, which: slice = slice(None)) -> Float64:
        lower, upper, centre, scale = _columns(
            self.covariates[which], "lower", "upper", "centre", "scale"
        )
        return np.trunc((np.clip(values, lower, upper) - centre) * scale)

    def _phenotype_lattice(self, values: Float64) -> Float64:
        lower, upper, mean, sd = _columns(self.phenotypes, "lower", "upper", "mean", "sd")
        units = np.clip(values, lower, upper)
        units -= mean
        units /= sd
        units *= self.unit
        return np.asarray(np.trunc(units, out=units))


def code_outcomes(
    phenotypes: Sequence[PhenotypeBounds],
    covariates: Sequence[CovariateBounds],
    *,
    largest_unit: int = LARGEST_UNIT,
) -> OutcomeCoding:
    """Choose the coding of the outcome columns from public bounds, in the order of the columns.

    The constant, and every covariate at its farther bound, are as large as a phenotype's sd, which
    is at most `largest_unit`. Two columns of one name are refused, and so is a phenotype with a
    bound farther than 31.9 sds from its mean.
    """
    uses = Counter([*(p.name for p in phenotypes), *(c.name for c in covariates)])
    name, count = max(uses.items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise InputError(
            f"the name {name} is used for {count} columns",
            remedy="Choose every phenotype and covariate once",
        )
    unit = largest_unit
    for bounds in phenotypes:
        farthest = max(bounds.upper - bounds.mean, bounds.mean - bounds.lower) / bounds.sd
        if farthest * SMALLEST_UNIT > LARGEST_VALUE:
            raise InputError(
                f"the bounds of {bounds.name} are too far from its mean for its sd",
                value=f"{farthest:.1f} sds",
                limit=f"{LARGEST_VALUE / SMALLEST_UNIT:.1f} sds",
                remedy="Give tighter bounds, or transform the phenotype",
            )
        unit = min(unit, math.floor(LARGEST_VALUE / farthest))
    scaled = (
        CovariateCoding(**vars(c), scale=unit / max(c.upper - c.centre, c.centre - c.lower))
        for c in covariates
    )
    return OutcomeCoding(unit, tuple(scaled), tuple(phenotypes), unit)


def code_within_bounds(
    values: Float64, phenotypes: Sequence[PhenotypeBounds]
) -> tuple[Int64, Bool]:
    """Code values by their public bounds alone, and find those that are not missing.

    A value y becomes ``trunc(2^20 u)`` with ``u = (clamp(y) - midpoint) / half range`` in [-1, 1].
    The values are float64 of shape (people, l), nan where missing. The result has the codes, 0
    where missing, and whether each value is observed, both of this shape.
    """
    lower, upper = _columns(phenotypes, "lower", "upper")
    observed = code_outcomes(phenotypes, ()).observed(values)
    u = (np.clip(values, lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2)
    units = np.clip(np.trunc(BOUNDED_UNIT * u), -BOUNDED_UNIT, BOUNDED_UNIT)
    return np.where(observed, units, 0).astype(np.int64), observed


def outside_bounds(
    values: Float64, columns: Sequence[CovariateCoding] | Sequence[PhenotypeBounds]
) -> Bool:
    """Return a mask of the values, float64 (..., k), beyond the bounds of their columns."""
    lower, upper = _columns(columns, "lower", "upper")
    return np.asarray((values < lower) | (values > upper))


def is_missing_number(values: Float64) -> Bool:
    """Return a mask of the values that are missing in any column."""
    return np.asarray(np.isnan(values) | (values == MISSING_NUMBER))


def _columns(
    columns: Sequence[CovariateCoding] | Sequence[PhenotypeBounds], *attributes: str
) -> tuple[Float64, ...]:
    """Return one float64 array for each attribute, with one entry for each column."""
    return tuple(
        np.array([getattr(column, attribute) for column in columns], dtype=np.float64)
        for attribute in attributes
    )


# PC1, pc_01, PCA.2, PC1_AVG, gPC10 and UK Biobank's field 22009, but not NPC1 or PCSK9.
_COMPONENT = re.compile(
    r"((?<![A-Za-z])(?i:pca?)|(?<![A-Z])PCA?)[ ._-]?\d+(?![A-Za-z0-9])|(?<!\d)22009(?!\d)"
)

NO_COMPONENTS = (
    "No covariate is named as a principal component (PC1, PC_1 or PC01), so that scores may "
    "predict ancestry besides the phenotype, and be wrong in scale and sign for other people."
)
"""What the absence of principal components does to the scores."""

COMPONENTS_REMEDY = "Give --pc-loadings of a public panel."
"""How to add components without a breach of the guarantee."""


def has_components(covariates: Iterable[str]) -> bool:
    """Return whether one of the covariates' names is that of a principal component."""
    return any(_COMPONENT.search(name) for name in covariates)
