"""The outcome side of a row, [constant, covariates, phenotypes], on the integer lattice.

Each value is clamped to public bounds, centred and scaled by public numbers, and truncated to
int16; a missing value becomes 0. That is a fixed function of one person's record, so it costs no
privacy (docs/maths/clipping-and-integers.md, steps 1 and 2).

Missing values, as plink2 reads them: ``NA`` and ``nan``, and any number equal to -9, in
phenotypes and in covariates; also 0 in a binary trait coded 1/2, but in no other column. In a
binary trait every other number that is none of its two codes is missing too: it says neither case
nor control, and to refuse the file for it would tell of one person's value.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.outcomes.bounds import ONE_TWO, CovariateBounds, PhenotypeBounds
from primo_scale.storage.files import sha256_of_json

MISSING_NUMBER = -9.0
CONSTANT_NAME = "intercept"

LARGEST_VALUE = 32767
LARGEST_UNIT = 1 << 13
SMALLEST_UNIT = 1 << 10
"""Lattice units a standard deviation: entries are truncated, by at most 1/1024 of one."""

_Int16 = npt.NDArray[np.int16]
_Float64 = npt.NDArray[np.float64]
_Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CovariateCoding:
    """A covariate c becomes ``trunc((clamp(c) - centre) scale)``.

    Attributes
    ----------
    name : str
    lower, upper, centre : float
        In the covariate's own unit.
    scale : float
        Lattice units for one of the covariate's.
    """

    name: str
    lower: float
    upper: float
    centre: float
    scale: float


@dataclass(frozen=True)
class OutcomeCoding:
    """How covariates and phenotypes become int16. Public.

    The columns are the constant, the covariates, the phenotypes: q of them.

    Attributes
    ----------
    constant : int
        kappa, the lattice value of the constant column.
    covariates : tuple of CovariateCoding
    phenotypes : tuple of PhenotypeBounds
        A phenotype y becomes ``trunc((clamp(y) - mean) / sd * unit)``.
    unit : int
        s_y, lattice units for one sd of any phenotype.
    """

    constant: int
    covariates: tuple[CovariateCoding, ...]
    phenotypes: tuple[PhenotypeBounds, ...]
    unit: int

    @property
    def n_columns(self) -> int:
        """Q."""
        return 1 + len(self.covariates) + len(self.phenotypes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the q columns."""
        covariates = (covariate.name for covariate in self.covariates)
        phenotypes = (phenotype.name for phenotype in self.phenotypes)
        return (CONSTANT_NAME, *covariates, *phenotypes)

    @property
    def max_abs(self) -> npt.NDArray[np.int64]:
        """Largest magnitude each column can take, int64 (q,)."""
        rows = [
            np.concatenate(
                [[self.constant], self._covariate_lattice(c), self._phenotype_lattice(y)]
            )
            for c, y in zip(_ends(self.covariates), _ends(self.phenotypes), strict=True)
        ]
        return np.asarray(np.abs(rows).max(axis=0), dtype=np.int64)

    @property
    def constant_norm(self) -> int:
        """Squared norm that the constant and the covariates of no row can exceed."""
        return int((self.max_abs[: 1 + len(self.covariates)] ** 2).sum())

    @property
    def phenotype_norm_cap(self) -> int:
        """Squared norm that the phenotypes of no row can exceed, clipped or not."""
        return int((self.max_abs[1 + len(self.covariates) :] ** 2).sum())

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of everything the lattice values depend on."""
        return sha256_of_json(dataclasses.asdict(self))

    def code_covariates(self, values: _Float64) -> _Int16:
        """Code covariates: float64 (..., c) with nan or -9 where missing, to int16 (..., c)."""
        missing = _is_missing_number(values)
        return np.where(missing, 0.0, self._covariate_lattice(values)).astype(np.int16)

    def code_phenotypes(self, values: _Float64) -> _Int16:
        """Code phenotypes: float64 (..., l), missing or not, to int16 (..., l)."""
        lattice = self._phenotype_lattice(values)
        return np.where(self.observed(values), lattice, 0.0).astype(np.int16)

    def observed(self, values: _Float64) -> _Bool:
        """Which phenotypes, of float64 (..., l), are not missing."""
        return np.asarray(~(self._marked_missing(values) | self.invalid_codes(values)))

    def invalid_codes(self, values: _Float64) -> _Bool:
        """Which values, of float64 (..., l), are missing as no code of their binary trait."""
        lower, upper = _columns(self.phenotypes, "lower", "upper")
        no_code = (values != lower) & (values != upper)
        return np.asarray(self._binary & ~self._marked_missing(values) & no_code)

    def cases(self, values: _Float64) -> _Bool:
        """Which values, of float64 (..., l), are the case code of a binary trait."""
        (upper,) = _columns(self.phenotypes, "upper")
        return np.asarray(self._binary & (values == upper))

    def _marked_missing(self, values: _Float64) -> _Bool:
        zero_is_missing = [_is_one_two(phenotype) for phenotype in self.phenotypes]
        zero = (values == 0) & np.array(zero_is_missing, dtype=bool)
        return np.asarray(zero | _is_missing_number(values))

    @property
    def _binary(self) -> _Bool:
        return np.array([phenotype.kind == "binary" for phenotype in self.phenotypes], dtype=bool)

    def _covariate_lattice(self, values: _Float64) -> _Float64:
        lower, upper, centre, scale = _columns(self.covariates, "lower", "upper", "centre", "scale")
        return np.trunc((np.clip(values, lower, upper) - centre) * scale)

    def _phenotype_lattice(self, values: _Float64) -> _Float64:
        lower, upper, mean, sd = _columns(self.phenotypes, "lower", "upper", "mean", "sd")
        return np.trunc((np.clip(values, lower, upper) - mean) / sd * self.unit)


def code_outcomes(
    phenotypes: Sequence[PhenotypeBounds],
    covariates: Sequence[CovariateBounds],
    *,
    weight: float,
) -> OutcomeCoding:
    """Choose the lattice of the outcome side from public bounds alone.

    Parameters
    ----------
    phenotypes, covariates
        In the order of their columns.
    weight
        Size of the constant, and of every covariate at its farther bound, in phenotype sds.

    Raises
    ------
    InputError
        Two columns of one name, or bounds of a phenotype farther than 31.9 sds from its mean.
    """
    uses = Counter([*(p.name for p in phenotypes), *(c.name for c in covariates)])
    name, count = max(uses.items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise InputError(
            f"the name {name} is used for {count} columns",
            remedy="Choose every phenotype and covariate once",
        )
    unit = _common_unit(phenotypes)
    constant = min(LARGEST_VALUE, max(1, round(weight * unit)))
    return OutcomeCoding(
        constant=constant,
        covariates=tuple(_covariate_coding(bounds, constant) for bounds in covariates),
        phenotypes=tuple(phenotypes),
        unit=unit,
    )


def _common_unit(phenotypes: Sequence[PhenotypeBounds]) -> int:
    unit = LARGEST_UNIT
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
    return unit


def _covariate_coding(bounds: CovariateBounds, largest: int) -> CovariateCoding:
    """Scale a covariate so that its farther bound becomes `largest`."""
    farthest = max(bounds.upper - bounds.centre, bounds.centre - bounds.lower)
    scale = largest / farthest
    return CovariateCoding(bounds.name, bounds.lower, bounds.upper, bounds.centre, scale)


def _is_missing_number(values: _Float64) -> _Bool:
    return np.asarray(np.isnan(values) | (values == MISSING_NUMBER))


def _is_one_two(phenotype: PhenotypeBounds) -> bool:
    return phenotype.kind == "binary" and (phenotype.lower, phenotype.upper) == ONE_TWO


def _columns(
    columns: Sequence[CovariateCoding] | Sequence[PhenotypeBounds], *attributes: str
) -> tuple[_Float64, ...]:
    """One float64 array an attribute, one entry a column."""
    return tuple(
        np.array([getattr(column, attribute) for column in columns], dtype=np.float64)
        for attribute in attributes
    )


def _ends(
    columns: Sequence[CovariateCoding] | Sequence[PhenotypeBounds],
) -> tuple[_Float64, ...]:
    """The lower and the upper bounds."""
    return _columns(columns, "lower", "upper")
