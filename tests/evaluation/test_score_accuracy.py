"""Statistics of an evaluation against scikit-learn, definitions, and simulated people."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score
from tiers import thinned

from primo_scale.evaluation.accuracy import (
    Estimate,
    area_under_curve,
    calibrate,
    correlation,
    decile_means,
    squared,
)
from primo_scale.privacy.held_out_accuracy import NORMAL_QUANTILE

DRAWS, PEOPLE = 1000, 400
NONE = np.empty((PEOPLE, 0))


def squared_r(phenotype, score, covariates):
    return squared(correlation(phenotype, score, covariates))


def linear_draw(rng):
    """Phenotype, score and two covariates, which the score correlates with."""
    covariates = rng.normal(size=(PEOPLE, 2))
    own = rng.normal(size=PEOPLE)
    score = own + covariates @ [0.5, 0.2]
    return own + covariates @ [1.0, -1.0] + rng.normal(size=PEOPLE), score, covariates


def test_r2_and_its_increment_are_those_of_linear_models():
    phenotype, score, covariates = linear_draw(np.random.default_rng(1))
    with_score = np.column_stack([covariates, score])

    def r2(design):
        return LinearRegression().fit(design, phenotype).score(design, phenotype)

    plain = squared_r(phenotype, score, NONE)
    assert plain.value == pytest.approx(r2(score[:, None]), rel=1e-12)
    increment = squared_r(phenotype, score, covariates)
    assert increment.value == pytest.approx(r2(with_score) - r2(covariates), rel=1e-10)
    nothing = squared_r(phenotype, 1 + covariates @ [1.0, 2.0], covariates)
    assert nothing == Estimate(0, 0, 0)
    everything = squared_r(phenotype, 3 * phenotype, NONE)
    assert everything.lower == pytest.approx(1) == everything.upper


def test_the_correlation_keeps_its_sign():
    phenotype, score, _ = linear_draw(np.random.default_rng(1))
    found, reversed_ = (correlation(phenotype, sign * score, NONE) for sign in (1, -1))
    assert found.value == pytest.approx(np.corrcoef(phenotype, score)[0, 1])
    assert reversed_ == Estimate(-found.value, -found.upper, -found.lower)
    assert squared(reversed_) == squared(found)


@pytest.mark.parametrize("largest", [1.0, 2e7, 1e12])
def test_a_small_covariate_counts_beside_a_large_one(largest):
    """A date as YYYYMMDD or in milliseconds, and a principal component as plink2 scales it."""
    rng = np.random.default_rng(4)
    component, date, *own = rng.normal(size=(4, 50_000))
    covariates = np.column_stack([largest * (1 + date / 10), component / 50_000**0.5])
    phenotype, score = (component + each for each in own)
    constant = np.full((len(date), 1), 0.1)
    assert squared_r(phenotype, score, covariates).value < 1e-3
    with_constant = np.column_stack([covariates, constant])
    assert squared_r(phenotype, score, with_constant).value < 1e-3
    assert squared_r(phenotype, score, covariates[:, :1]).value > 0.2


def test_calibration_is_the_least_squares_line():
    phenotype, score, _ = linear_draw(np.random.default_rng(2))
    found, line = calibrate(phenotype, score), stats.linregress(score, phenotype)
    assert (found.slope, found.intercept) == pytest.approx((line.slope, line.intercept))


def test_deciles_are_means_of_sorted_people():
    score = np.random.default_rng(3).permutation(105).astype(float)
    deciles = decile_means(2 * score, score)
    assert sum(decile.n for decile in deciles) == 105
    assert deciles[0].n == 11
    assert deciles[0].mean_phenotype == 2 * deciles[0].mean_score == 10
    assert deciles[0].se == pytest.approx(stats.sem(np.arange(0, 22, 2)))
    assert deciles[-1].mean_score == np.arange(95, 105).mean()


def test_auc_and_its_interval_follow_the_definition():
    rng = np.random.default_rng(4)
    is_case = rng.random(90) < 0.3
    score = np.round(rng.normal(size=90) + is_case, 1)  # with ties
    found = area_under_curve(is_case, score)
    assert found.value == pytest.approx(roc_auc_score(is_case, score), abs=1e-14)
    above = score[is_case][:, None] - score[~is_case]
    wins = (above > 0) + 0.5 * (above == 0)
    variance = sum(np.var(wins.mean(axis=a), ddof=1) / wins.shape[1 - a] for a in (0, 1))
    half = NORMAL_QUANTILE * np.sqrt(variance)
    assert (found.lower, found.upper) == pytest.approx((found.value - half, found.value + half))


# ---- Intervals -----------------------------------------------------------------------------------


def normal_r2(rng):
    score = rng.normal(size=PEOPLE)
    return squared_r(0.5 * score + rng.normal(size=PEOPLE), score, NONE), 0.2


def r2_with_unequal_variances(rng):
    score = rng.normal(size=PEOPLE)
    noise = rng.normal(size=PEOPLE) * np.abs(score)
    return squared_r(0.5 * score + noise, score, NONE), 0.2


def increment_of_r2(rng):
    phenotype, score, covariates = linear_draw(rng)
    return squared_r(phenotype, score, covariates), 1 / 4


def binary_r2(rng):
    """Cases are the upper 20% of a liability that the score explains 30% of."""
    score = rng.normal(size=PEOPLE)
    threshold = stats.norm.isf(0.2)
    liability = np.sqrt(0.3) * score + np.sqrt(0.7) * rng.normal(size=PEOPLE)
    truth = 0.3 * stats.norm.pdf(threshold) ** 2 / (0.2 * 0.8)
    return squared_r((liability > threshold).astype(float), score, NONE), truth


def binormal_auc(rng):
    is_case = np.arange(PEOPLE) < 80
    found = area_under_curve(is_case, rng.normal(size=PEOPLE) + is_case)
    return found, stats.norm.cdf(np.sqrt(0.5))


def slope_with_unequal_variances(rng):
    score = rng.normal(size=PEOPLE)
    line = calibrate(3 + 0.8 * score + rng.normal(size=PEOPLE) * np.abs(score), score)
    half = NORMAL_QUANTILE * line.slope_se
    return Estimate(line.slope, line.slope - half, line.slope + half), 0.8


def intercept(rng):
    score = 1 + rng.normal(size=PEOPLE)
    line = calibrate(3 + 0.8 * score + rng.normal(size=PEOPLE), score)
    half = NORMAL_QUANTILE * line.intercept_se
    return Estimate(line.intercept, line.intercept - half, line.intercept + half), 3


@pytest.mark.parametrize(
    "draw",
    thinned(
        [
            normal_r2,
            r2_with_unequal_variances,
            increment_of_r2,
            binary_r2,
            binormal_auc,
            slope_with_unequal_variances,
            intercept,
        ],
        every=7,
    ),
)
def test_intervals_cover_the_truth_and_half_as_wide_ones_do_not(draw):
    rng = np.random.default_rng(5)
    whole = half = 0
    for _ in range(DRAWS):
        found, truth = draw(rng)
        whole += found.lower <= truth <= found.upper
        half += found.value + found.lower <= 2 * truth <= found.value + found.upper
    # Intervals by asymptotic variances cover 93.5% to 95% with 400 people.
    lowest, highest = stats.binom.ppf([1e-4, 1 - 1e-4], DRAWS, [0.935, 0.95])
    assert lowest <= whole <= highest, whole / DRAWS
    assert half < lowest - 0.1 * DRAWS


def test_r2_of_an_unrelated_score_has_an_interval_from_zero():
    rng = np.random.default_rng(6)
    found = squared_r(rng.normal(size=PEOPLE), np.arange(PEOPLE) * 1.0, NONE)
    assert found.lower == 0 <= found.value < found.upper < 0.05
