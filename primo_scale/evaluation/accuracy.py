"""Accuracy of a score in a group of people: arrays in, numbers out.

Intervals have a level of 95% and count the sampling of people, with the weights as given.
docs/evaluating.md has the formulas and their sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from primo_scale.verify.held_out_accuracy import NORMAL_QUANTILE, liability_r2

Floats = npt.NDArray[np.float64]

LEAST_PEOPLE = 30
"""Smallest number of people, and of cases and of controls, that a result is computed for."""
_BINARY = 2
_DECILES = 10
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Estimate:
    """Estimate with the ends of its 95% interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Fit:
    """Accuracy of a score by a linear model of the phenotype.

    A slope of 1 means that a difference of scores is a difference of expected phenotypes. Its
    standard error allows unequal variances.
    """

    r: Estimate  # correlation of score and phenotype
    r2: Estimate  # its square
    slope: float  # of the phenotype on the score
    slope_se: float


@dataclass(frozen=True)
class Measures(Fit):
    """Accuracy of one score in one group of people.

    With `offset`, the intercept and covariates times weights of the release are subtracted from the
    phenotype before its regression on the score.
    """

    n: int  # people with the phenotype and all covariates
    offset: bool  # whether the score is of a release, all of whose covariates are known
    # Of the regression on the score; None within groups, each of which has its own.
    intercept: float | None
    intercept_se: float | None
    # Increase of a linear model's R^2 by the score; None without covariates.
    incremental_r2: Estimate | None
    # Of score and phenotype less what the covariates explain; None without covariates, and if they
    # explain all of the score or of the phenotype.
    partial: Fit | None
    # Of a phenotype of two values, otherwise None.
    n_cases: int | None
    auc: Estimate | None
    # R^2 of the liability (`primo_scale.verify.held_out_accuracy`); None without a prevalence.
    liability_r2: Estimate | None
    deciles: tuple[dict[str, float], ...]  # see `decile_means`


@dataclass(frozen=True, eq=False)
class Sample:
    """Values of n people without missing ones."""

    phenotype: Floats  # shape (n,)
    score: Floats  # shape (n,)
    covariates: Floats  # without a constant, shape (n, c)
    # Sum of the intercept and covariates times their published weights, shape (n,), or None.
    offset: Floats | None
    n_means: int = 1  # number of groups whose means are subtracted; 1: nothing is

    def select(self, people: npt.NDArray[np.bool_]) -> Sample:
        """Return the sample of a mask of people."""
        offset = None if self.offset is None else self.offset[people]
        return Sample(self.phenotype[people], self.score[people], self.covariates[people], offset)

    def within(self, groups: npt.NDArray[np.int64]) -> Sample:
        """Return all values less the means of each person's group; of one group, the values."""
        n_groups = len(np.unique(groups))
        if n_groups == 1:
            return self

        def centred(values: Floats) -> Floats:
            means = pd.DataFrame(values).groupby(groups).transform("mean").to_numpy()
            return _without_rounding(values - means.reshape(values.shape), values)

        return Sample(
            centred(self.phenotype),
            centred(self.score),
            centred(self.covariates),
            None if self.offset is None else centred(self.offset),
            n_groups,
        )


def why_unmeasured(sample: Sample) -> str | None:
    """Return why a score has no result in these people, or None if it has one."""
    n_people, n_covariates = sample.covariates.shape
    least = LEAST_PEOPLE + n_covariates + sample.n_means - 1
    codes, sizes = np.unique(sample.phenotype, return_counts=True)
    if not n_people:
        return f"nobody has a value{' and all covariates' if n_covariates else ''}"
    if len(codes) < _BINARY:
        return f"the phenotype does not vary, it is {codes[0]:g} in all {n_people} people"
    if n_people < least:
        return f"there are {n_people} people, and a result needs at least {least}"
    if len(codes) == _BINARY and sizes.min() < LEAST_PEOPLE:
        few = f"{sizes.min()} people have the value {codes[sizes.argmin()]:g}"
        return f"{few}, and a result needs at least {LEAST_PEOPLE} cases and controls each"
    if np.ptp(sample.score) == 0:
        return "the score does not vary"
    return None


def measure(sample: Sample, prevalence: float | None) -> Measures:
    """Return the accuracy of a score in people for whom `why_unmeasured` has no objection.

    `prevalence` is the share of cases of a binary phenotype in the population.
    """
    n_people, n_covariates = sample.covariates.shape
    codes = np.unique(sample.phenotype)
    values = sample.phenotype, sample.score
    beyond = (*values, sample.covariates, sample.n_means)
    r = correlation(*values, sample.covariates[:, :0], sample.n_means)
    offset = 0.0 if sample.offset is None else sample.offset
    line = calibrate(sample.phenotype - offset, sample.score, sample.n_means)
    n_cases = auc = liability = None
    if len(codes) == _BINARY and sample.n_means == 1:
        is_case = sample.phenotype == codes[1]
        n_cases, auc = int(is_case.sum()), area_under_curve(is_case, sample.score)
        if prevalence is not None:
            r2, share = squared(r), float(is_case.mean())
            ends = (r2.value, r2.lower, r2.upper)
            liability = Estimate(*(liability_r2(end, share, prevalence) for end in ends))
    return Measures(
        r=r,
        r2=squared(r),
        slope=line[0],
        slope_se=line[1],
        n=n_people,
        offset=sample.offset is not None,
        intercept=line[2],
        intercept_se=line[3],
        incremental_r2=squared(correlation(*beyond)) if n_covariates else None,
        partial=partial_measures(*beyond) if n_covariates else None,
        n_cases=n_cases,
        auc=auc,
        liability_r2=liability,
        deciles=decile_means(*values),
    )


def partial_measures(
    phenotype: Floats, score: Floats, covariates: Floats, n_means: int = 1
) -> Fit | None:
    """Return the accuracy of the score less, for the phenotype less, what the covariates explain.

    The slope is that of the score in a linear model with the covariates. The result is None if they
    explain all of the score or of the phenotype.
    """
    own, rest = _residual(score, covariates), _residual(phenotype, covariates)
    if not own.any() or not rest.any():
        return None
    # The residual of a residual is itself, so that the interval is that of a partial correlation.
    r = correlation(rest, score, covariates, n_means)
    slope, slope_se, *_ = calibrate(rest, own, n_means + covariates.shape[1])
    return Fit(r, squared(r), slope, slope_se)


def correlation(phenotype: Floats, score: Floats, covariates: Floats, n_means: int = 1) -> Estimate:
    """Return the correlation of the phenotype with the score beyond the covariates.

    That is the part of the score that is not linear in the covariates, so that the square is the
    increment of a linear model's R^2 by the score. The interval uses Fisher's z and the variance of
    the influence function of the correlation, which holds for every distribution with fourth
    moments, binary traits included.
    Phenotype and score, of shape (n,), are not constant. The covariates, of shape (n, c), have no
    constant; with c = 0, the result is the plain correlation. `n_means` means were subtracted.
    """
    n_people, n_covariates = covariates.shape
    total = (phenotype - phenotype.mean()) / phenotype.std()
    own = _residual(score, covariates)
    if not own.any():  # the score is linear in the covariates
        return Estimate(0.0, 0.0, 0.0)
    own /= own.std()
    r = float(np.clip(np.mean(total * own), _ROUNDING - 1, 1 - _ROUNDING))
    influence = _residual(total, covariates) * own - r / 2 * (total**2 + own**2)
    error = math.sqrt(np.mean(influence**2) / (n_people - 2 - n_means - n_covariates)) / (1 - r * r)
    lower, upper = (math.tanh(math.atanh(r) + s * NORMAL_QUANTILE * error) for s in (-1, 1))
    return Estimate(r, lower, upper)


def squared(r: Estimate) -> Estimate:
    """Return the square of a correlation; its interval begins at 0 if that of r contains 0."""
    ends = sorted((r.lower**2, r.upper**2))
    return Estimate(r.value**2, 0.0 if r.lower < 0 < r.upper else ends[0], ends[1])


def calibrate(
    phenotype: Floats, score: Floats, n_fitted: int = 1
) -> tuple[float, float, float | None, float | None]:
    """Return slope and intercept of the phenotype on the score, each with its standard error.

    These are White's (HC1). `n_fitted` coefficients beside the slope were fitted; if several, there
    is no intercept.
    """
    n_people, mean = len(score), score.mean()
    per_person = (score - mean) / np.sum((score - mean) ** 2)  # of the slope
    slope = per_person @ phenotype
    intercept = phenotype.mean() - slope * mean
    residual = phenotype - intercept - slope * score
    residual *= math.sqrt(n_people / (n_people - 1 - n_fitted))
    slope_se = np.linalg.norm(residual * per_person)
    if n_fitted > 1:
        return float(slope), float(slope_se), None, None
    intercept_se = np.linalg.norm(residual * (1 / n_people - mean * per_person))
    return float(slope), float(slope_se), float(intercept), float(intercept_se)


def decile_means(phenotype: Floats, score: Floats) -> tuple[dict[str, float], ...]:
    """Return the people, means and standard error of the mean phenotype by decile of the score.

    Equal scores keep their order.
    """
    parts = np.array_split(np.argsort(score, kind="stable"), _DECILES)
    return tuple(
        {
            "n": len(part),
            "mean_score": float(score[part].mean()),
            "mean_phenotype": float(phenotype[part].mean()),
            "se": float(phenotype[part].std(ddof=1) / math.sqrt(len(part))),
        }
        for part in parts
    )


def area_under_curve(is_case: npt.NDArray[np.bool_], score: Floats) -> Estimate:
    """Return the area under the ROC curve, with the interval of DeLong et al. (1988).

    It is the probability that a case has a higher score than a control, with ties as halves.
    Mid-ranks give it in O(n log n) operations (Sun and Xu 2014). There are at least two cases and
    two controls.
    """
    n_cases, n_controls = int(is_case.sum()), int((~is_case).sum())
    ranks = _mid_ranks(score)
    # Share of the controls below each case, and of the cases above each control.
    of_cases = (ranks[is_case] - _mid_ranks(score[is_case])) / n_controls
    of_controls = 1 - (ranks[~is_case] - _mid_ranks(score[~is_case])) / n_cases
    area = float(of_cases.mean())
    variance = of_cases.var(ddof=1) / n_cases + of_controls.var(ddof=1) / n_controls
    half = NORMAL_QUANTILE * math.sqrt(variance)
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0))


def _mid_ranks(values: Floats) -> Floats:
    # Importing `scipy.stats` for its `rankdata` takes a second.
    return np.asarray(pd.Series(values).rank(), dtype=np.float64)


def _residual(values: Floats, covariates: Floats) -> Floats:
    """Return the values without their projection on the covariates and a constant.

    The covariates get one scale, because least squares drops a column that is much smaller than the
    largest one, such as a principal component beside a date.
    """
    centred = covariates - covariates.mean(axis=0)
    largest = np.abs(centred).max(axis=0, initial=0.0)
    varies = largest > _ROUNDING * np.abs(covariates).max(axis=0, initial=0.0)
    design = np.column_stack([np.ones(len(values)), centred[:, varies] / largest[varies]])
    return _without_rounding(values - design @ np.linalg.lstsq(design, values)[0], values)


def _without_rounding(residual: Floats, values: Floats) -> Floats:
    """Return the residual of values, and exact zeros in place of rounding errors."""
    return np.where(residual.std(axis=0) < _ROUNDING * values.std(axis=0), 0.0, residual)
