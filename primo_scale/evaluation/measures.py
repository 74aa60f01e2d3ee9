"""Accuracy of scores in groups of people: what is measured, and its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.evaluation.accuracy import (
    Calibration,
    Decile,
    Discrimination,
    Estimate,
    Floats,
    area_under_curve,
    calibrate,
    decile_means,
    squared_correlation,
)
from primo_scale.privacy.liability_scale import liability_r2

LEAST_PEOPLE = 30
"""Smallest number of people, and of cases and of controls, that a result is computed for."""
_BINARY = 2


@dataclass(frozen=True, eq=False)
class Sample:
    """Values of n people without missing ones."""

    phenotype: Floats  # shape (n,)
    score: Floats  # shape (n,)
    covariates: Floats  # without a constant, shape (n, c)
    # Sum of the intercept and covariates times their published weights, shape (n,), or None.
    offset: Floats | None

    def select(self, people: npt.NDArray[np.bool_]) -> Sample:
        """Return the sample of a mask of people."""
        offset = None if self.offset is None else self.offset[people]
        return Sample(self.phenotype[people], self.score[people], self.covariates[people], offset)


@dataclass(frozen=True)
class Measures:
    """Accuracy of one score in one group of people."""

    n: int  # people with the phenotype and all covariates
    r2: Estimate  # squared correlation of score and phenotype
    # Increase of a linear model's R^2 by the score; None without covariates.
    incremental_r2: Estimate | None
    # Regression of the phenotype on the score. With `offset`, the intercept and covariates times
    # weights of the release are subtracted from the phenotype before.
    calibration: Calibration
    offset: bool  # whether the score is of a release, all of whose covariates are known
    discrimination: Discrimination | None  # for a phenotype of two values
    deciles: tuple[Decile, ...]  # of the score


def measure(sample: Sample, prevalence: float | None) -> Measures | None:
    """Return the accuracy of a score, or None for too few people or a constant score or phenotype.

    `prevalence` is the share of cases of a binary phenotype in the population.
    """
    n_people, n_covariates = sample.covariates.shape
    if n_people < LEAST_PEOPLE + n_covariates or np.ptp(sample.score) == 0:
        return None
    codes, sizes = np.unique(sample.phenotype, return_counts=True)
    is_binary = len(codes) == _BINARY
    if len(codes) < _BINARY or (is_binary and sizes.min() < LEAST_PEOPLE):
        return None
    values = sample.phenotype, sample.score
    r2 = squared_correlation(*values, sample.covariates[:, :0])
    discrimination = None
    if is_binary:
        is_case = sample.phenotype == codes[1]
        liability = None
        if prevalence is not None:
            ends = (r2.value, r2.lower, r2.upper)
            share = float(is_case.mean())
            liability = Estimate(*(liability_r2(each, share, prevalence) for each in ends))
        area = area_under_curve(is_case, sample.score)
        discrimination = Discrimination(int(is_case.sum()), area, liability)
    offset = 0.0 if sample.offset is None else sample.offset
    return Measures(
        n=n_people,
        r2=r2,
        incremental_r2=squared_correlation(*values, sample.covariates) if n_covariates else None,
        calibration=calibrate(sample.phenotype - offset, sample.score),
        offset=sample.offset is not None,
        discrimination=discrimination,
        deciles=decile_means(*values),
    )
