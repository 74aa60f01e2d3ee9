"""Statistics of an evaluation against scikit-learn, definitions, and simulated people."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score
from support.tiers import thinned

from primo_scale.evaluation import accuracy
from primo_scale.verify.held_out_accuracy import NORMAL_QUANTILE

DRAWS, PEOPLE = 1000, 400
NONE = np.empty((PEOPLE, 0))


def squared_r(phenotype, score, covariates):
    return accuracy.squared(accuracy.correlation(phenotype, score, covariates))


def linear_draw(rng):
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
    assert nothing == accuracy.Estimate(0, 0, 0)
    everything = squared_r(phenotype, 3 * phenotype, NONE)
    assert everything.lower == pytest.approx(1) == everything.upper


def test_measures_beyond_covariates_are_those_of_linear_models():
    """Against residuals and the coefficient of scikit-learn, and the partial correlation by the
    inverse of the correlation matrix."""
    phenotype, score, covariates = linear_draw(np.random.default_rng(1))
    found = accuracy.partial_measures(phenotype, score, covariates)
    rest, own = (
        values - LinearRegression().fit(covariates, values).predict(covariates)
        for values in (phenotype, score)
    )
    precision = np.linalg.inv(np.corrcoef(np.column_stack([phenotype, score, covariates]).T))
    r = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
    assert found.r.value == pytest.approx(r, rel=1e-10)
    assert found.r2.value == pytest.approx(np.corrcoef(rest, own)[0, 1] ** 2, rel=1e-10)
    slope = LinearRegression().fit(np.column_stack([score, covariates]), phenotype).coef_[0]
    assert found.slope == pytest.approx(slope, rel=1e-10)
    increment = squared_r(phenotype, score, covariates).value
    left = 1 - LinearRegression().fit(covariates, phenotype).score(covariates, phenotype)
    assert found.r2.value == pytest.approx(increment / left, rel=1e-10)
    explained = 1 + covariates @ [1.0, 2.0]
    assert accuracy.partial_measures(phenotype, explained, covariates) is None
    assert accuracy.partial_measures(explained, score, covariates) is None


def in_groups(rng, effect, sizes=(250, 100, 50)):
    groups = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    covariate, own, noise = rng.normal(size=(3, len(groups)))
    score = 2.0 * groups + own * groups + covariate
    phenotype = 1.5 * groups + effect * own * groups + covariate + noise
    return accuracy.Sample(phenotype, score, covariate[:, None], None), groups


def test_measures_within_groups_are_those_of_models_with_a_constant_for_each():
    sample, groups = in_groups(np.random.default_rng(1), 0.5)
    found = accuracy.measure(sample.within(groups), None)
    dummies = (groups[:, None] == [2, 3]) * 1.0
    plain = accuracy.partial_measures(sample.phenotype, sample.score, dummies)
    both = accuracy.partial_measures(
        sample.phenotype, sample.score, np.hstack([dummies, sample.covariates])
    )
    for ours, theirs in ((found, plain), (found.partial, both)):
        for ends in ("value", "lower", "upper"):
            assert getattr(ours.r2, ends) == pytest.approx(getattr(theirs.r2, ends), rel=1e-9)
        assert ours.slope == pytest.approx(theirs.slope, rel=1e-10)
        assert ours.slope_se == pytest.approx(theirs.slope_se, rel=1e-10)
    assert found.intercept is found.intercept_se is None
    assert accuracy.measure(sample, None).r2.value > found.r2.upper


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


def test_auc_and_its_interval_follow_the_definition():
    rng = np.random.default_rng(4)
    is_case = rng.random(90) < 0.3
    score = np.round(rng.normal(size=90) + is_case, 1)  # with ties
    found = accuracy.area_under_curve(is_case, score)
    assert found.value == pytest.approx(roc_auc_score(is_case, score), abs=1e-14)
    above = score[is_case][:, None] - score[~is_case]
    wins = (above > 0) + 0.5 * (above == 0)
    variance = sum(np.var(wins.mean(axis=a), ddof=1) / wins.shape[1 - a] for a in (0, 1))
    half = NORMAL_QUANTILE * np.sqrt(variance)
    assert (found.lower, found.upper) == pytest.approx((found.value - half, found.value + half))


def normal_r2(rng):
    score = rng.normal(size=PEOPLE)
    return squared_r(0.5 * score + rng.normal(size=PEOPLE), score, NONE), 0.2


def partial_r2(rng):
    """Half of the variance of the phenotype beyond the covariates is that of the score."""
    return accuracy.partial_measures(*linear_draw(rng)).r2, 1 / 2


def partial_slope(rng):
    phenotype, score, covariates = linear_draw(rng)
    own = score - covariates @ [0.5, 0.2]
    found = accuracy.partial_measures(phenotype + rng.normal(size=PEOPLE) * own, score, covariates)
    half = NORMAL_QUANTILE * found.slope_se
    return accuracy.Estimate(found.slope, found.slope - half, found.slope + half), 1


def r2_within_groups(rng):
    """Groups of unequal size and spread: the effect is the same in all."""
    sample, groups = in_groups(rng, 0.5)
    spread = np.mean(groups**2)
    truth = 0.25 * spread  # of own * groups, beside the covariate and the noise
    return accuracy.measure(sample.within(groups), None).partial.r2, truth / (truth + 1)


def binary_r2(rng):
    """Cases are the upper 20% of a liability that the score explains 30% of."""
    score = rng.normal(size=PEOPLE)
    threshold = stats.norm.isf(0.2)
    liability = np.sqrt(0.3) * score + np.sqrt(0.7) * rng.normal(size=PEOPLE)
    truth = 0.3 * stats.norm.pdf(threshold) ** 2 / (0.2 * 0.8)
    return squared_r((liability > threshold).astype(float), score, NONE), truth


def binormal_auc(rng):
    is_case = np.arange(PEOPLE) < 80
    found = accuracy.area_under_curve(is_case, rng.normal(size=PEOPLE) + is_case)
    return found, stats.norm.cdf(np.sqrt(0.5))


def slope_with_unequal_variances(rng):
    score = rng.normal(size=PEOPLE)
    slope, se, *_ = accuracy.calibrate(
        3 + 0.8 * score + rng.normal(size=PEOPLE) * np.abs(score), score
    )
    half = NORMAL_QUANTILE * se
    return accuracy.Estimate(slope, slope - half, slope + half), 0.8


@pytest.mark.parametrize(
    "draw",
    thinned(
        [
            normal_r2,
            partial_r2,
            partial_slope,
            r2_within_groups,
            binary_r2,
            binormal_auc,
            slope_with_unequal_variances,
        ],
        every=6,
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
