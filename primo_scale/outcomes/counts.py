"""Warnings of phenotypes and covariates whose values are probably mistaken, by counts. PRIVATE."""

from __future__ import annotations

import logging
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
