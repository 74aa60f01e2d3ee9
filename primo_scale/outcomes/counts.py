"""Warnings of phenotypes and covariates whose values are probably mistaken, by counts. PRIVATE."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np

from primo_scale.humanize import examples
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import (
    Bool,
    CovariateCoding,
    Float64,
    Int64,
    OutcomeCoding,
    is_missing_number,
    outside_bounds,
)

_MOST_OUTSIDE = 0.05  # share of a column's values
_MOST_OF_A_CODE = 0.002  # share of a column's values that one value out of bounds may have
_MOST_MISSING = 0.05  # share of the genotyped people
_MOST_KEPT = 1 << 16  # values out of bounds whose counts are kept

LOGGER = logging.getLogger("primo_scale")


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
        self._outliers, self._covariate_outliers = _Outliers(), _Outliers()

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
        _warn_of_missing(self.covariates, self._covariates[0], self.n_people)


class _Outliers:
    """Values out of bounds and their counts, by column.

    Of more values than `_MOST_KEPT`, those that occur once are forgotten.
    """

    def __init__(self) -> None:
        self._columns, self._counts = np.zeros((2, 0), dtype=np.int64)
        self._values = np.zeros(0)

    def add(self, values: Float64, outside: Bool) -> None:
        """Count the values, float64 (people, k), of the mask `outside`."""
        columns = np.concatenate([self._columns, np.nonzero(outside)[1]])
        if len(columns) == len(self._columns):
            return
        found = np.concatenate([self._values, values[outside]])
        counts = np.concatenate([self._counts, np.ones(len(found) - len(self._counts), np.int64)])
        order = np.lexsort((found, columns))
        columns, found = columns[order], found[order]
        first = np.ones(len(found), dtype=np.bool_)
        first[1:] = (columns[1:] != columns[:-1]) | (found[1:] != found[:-1])
        counts = np.add.reduceat(counts[order], np.flatnonzero(first))
        columns, found = columns[first], found[first]
        if len(counts) > _MOST_KEPT:
            kept = np.argsort(-counts, kind="stable")[: min(_MOST_KEPT, int((counts > 1).sum()))]
            columns, found, counts = columns[kept], found[kept], counts[kept]
        self._columns, self._values, self._counts = columns, found, counts

    def commonest(self, column: int) -> tuple[float, int]:
        """Return the value of a column that occurs most often, and its count; 0 without one."""
        counts = np.where(self._columns == column, self._counts, 0)
        if not counts.any():
            return math.nan, 0
        place = int(counts.argmax())
        return float(self._values[place]), int(counts[place])


def _warn_of_columns(
    columns: Sequence[PhenotypeBounds | CovariateCoding],
    counts: Int64,
    outliers: _Outliers,
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


def _warn_of_missing(covariates: Sequence[CovariateCoding], observed: Int64, n_people: int) -> None:
    """Warn of covariates that many of the genotyped people lack, who count as the centre."""
    for covariate, people in zip(covariates, observed, strict=True):
        missing = n_people - people
        if people and missing > _MOST_MISSING * n_people:
            centre = covariate.centre
            is_middle = centre == (covariate.lower + covariate.upper) / 2
            LOGGER.warning(
                "%s: %.1f%% of %d genotyped people have no value and count as %g, the %s; "
                "if that is wrong, leave the covariate out with --covar-name, or these people with "
                "--keep where it is public who they are",
                covariate.name, 100 * missing / n_people, n_people, centre,
                "middle of its bounds" if is_middle else "mean beside its bounds",
            )  # fmt: skip
