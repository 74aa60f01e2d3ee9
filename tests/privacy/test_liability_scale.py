"""The scale of the liability to a binary trait, against simulation and published formulas."""

import math

import numpy as np
import pytest
from scipy import stats

from primo_scale.verify.held_out_accuracy import (
    area_under_curve,
    liability_r2,
    residual_spread,
    share_of_codes,
)


@pytest.mark.parametrize("prevalence", [0.01, 0.5])
@pytest.mark.parametrize("r2", [0.0, 0.3])
def test_the_area_is_that_of_simulated_liabilities(r2, prevalence):
    random = np.random.default_rng(1)
    u, e = random.standard_normal((2, 400_000))
    case = math.sqrt(r2) * u + math.sqrt(1 - r2) * e > stats.norm.isf(prevalence)
    exact = stats.mannwhitneyu(u[case], u[~case]).statistic / (case.sum() * (~case).sum())
    error = 1 / math.sqrt(12 * min(case.sum(), (~case).sum()))
    assert area_under_curve(r2, prevalence) == pytest.approx(exact, abs=4.5 * error)


@pytest.mark.parametrize(("prevalence", "share"), [(0.01, 0.0718), (0.3, 0.5757), (0.5, 0.6366)])
def test_the_codes_have_their_share_of_the_liability(prevalence, share):
    """The values are those of tables of the normal density."""
    assert share_of_codes(prevalence) == pytest.approx(share, abs=2e-4)
    assert liability_r2(0.2 * share_of_codes(prevalence), prevalence, prevalence) == pytest.approx(
        0.2
    )


EXPLAINED = 0.3


def simulated(seed, prevalence, case_share):
    """Return the scores of cases and controls, which explain the liability, and who is a case."""
    rng, people = np.random.default_rng(seed), 2_000_000
    score = rng.normal(size=people)
    liability = np.sqrt(EXPLAINED) * score + np.sqrt(1 - EXPLAINED) * rng.normal(size=people)
    is_case = liability > stats.norm.isf(prevalence)
    n_controls = int(is_case.sum() * (1 - case_share) / case_share)
    chosen = np.concatenate([np.flatnonzero(is_case), np.flatnonzero(~is_case)[:n_controls]])
    return score[chosen], is_case[chosen]


@pytest.mark.parametrize(("prevalence", "case_share"), [(0.2, 0.2), (0.01, 0.3)])
def test_liability_r2_is_that_of_a_simulated_liability(prevalence, case_share):
    score, is_case = simulated(7, prevalence, case_share)
    r2 = np.corrcoef(is_case, score)[0, 1] ** 2
    assert liability_r2(r2, case_share, prevalence) == pytest.approx(EXPLAINED, abs=0.01)
    assert liability_r2(r2 / 2, case_share, prevalence) < EXPLAINED
    # Without the correction for ascertainment it would differ.
    uncorrected = liability_r2(r2, prevalence, prevalence)
    assert (abs(uncorrected - EXPLAINED) > 0.03) == (case_share != prevalence)


@pytest.mark.parametrize(("prevalence", "case_share"), [(0.05, 0.05), (0.5, 0.5), (0.1, 0.4)])
def test_the_spread_of_residuals_is_that_of_simulated_cases(prevalence, case_share):
    score, is_case = simulated(8, prevalence, case_share)
    x, y = score - score.mean(), is_case - is_case.mean()
    e = y - (x @ y) / (x @ x) * x
    expected = (x**2 @ e**2) / len(x) / (x.var() * e.var())
    assert residual_spread(EXPLAINED, case_share, prevalence) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("prevalence", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("r2", [0.02, 0.1, 0.25])
def test_the_area_is_close_to_the_approximation_of_wray_and_others(r2, prevalence):
    """PLoS Genetics 6:e1000864 (2010), equation 3."""
    threshold = stats.norm.isf(prevalence)
    case = stats.norm.pdf(threshold) / prevalence
    control = -case * prevalence / (1 - prevalence)
    spread = 2 - r2 * case * (case - threshold) - r2 * control * (control - threshold)
    approximate = stats.norm.cdf((case - control) * r2 / math.sqrt(r2 * spread))
    assert area_under_curve(r2, prevalence) == pytest.approx(approximate, abs=0.005)
