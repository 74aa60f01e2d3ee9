"""The scale of the liability to a binary trait, against simulation and published formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from primo_scale.privacy.liability_scale import area_under_curve, liability_r2, residual_spread


@pytest.mark.parametrize("prevalence", [0.01, 0.5])
@pytest.mark.parametrize("r2", [0.0, 0.3])
def test_the_area_is_that_of_simulated_liabilities(r2, prevalence):
    random = np.random.default_rng(1)
    u, e = random.standard_normal((2, 400_000))
    case = math.sqrt(r2) * u + math.sqrt(1 - r2) * e > stats.norm.isf(prevalence)
    exact = stats.mannwhitneyu(u[case], u[~case]).statistic / (case.sum() * (~case).sum())
    error = 1 / math.sqrt(12 * min(case.sum(), (~case).sum()))
    assert area_under_curve(r2, prevalence) == pytest.approx(exact, abs=4.5 * error)


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


@pytest.mark.parametrize(("prevalence", "case_share"), [(0.2, 0.2), (0.01, 0.3)])
def test_liability_r2_is_that_of_a_simulated_liability(prevalence, case_share):
    rng = np.random.default_rng(7)
    people, explained = 1_500_000, 0.3
    score = np.sqrt(explained) * rng.normal(size=people)
    liability = score + np.sqrt(1 - explained) * rng.normal(size=people)
    is_case = liability > stats.norm.isf(prevalence)
    n_controls = int(is_case.sum() * (1 - case_share) / case_share)
    chosen = np.concatenate([np.flatnonzero(is_case), np.flatnonzero(~is_case)[:n_controls]])
    r2 = np.corrcoef(is_case[chosen], score[chosen])[0, 1] ** 2
    assert liability_r2(r2, case_share, prevalence) == pytest.approx(explained, abs=0.01)
    assert liability_r2(r2 / 2, case_share, prevalence) < explained
    # Without the correction for ascertainment it would differ.
    uncorrected = liability_r2(r2, prevalence, prevalence)
    assert (abs(uncorrected - explained) > 0.03) == (case_share != prevalence)


@pytest.mark.parametrize(("prevalence", "case_share"), [(0.05, 0.05), (0.5, 0.5), (0.1, 0.4)])
def test_the_spread_of_residuals_is_that_of_simulated_cases(prevalence, case_share):
    rng = np.random.default_rng(8)
    people, explained = 2_000_000, 0.3
    u = rng.normal(size=people)
    liability = np.sqrt(explained) * u + np.sqrt(1 - explained) * rng.normal(size=people)
    is_case = liability > stats.norm.isf(prevalence)
    n_controls = int(is_case.sum() * (1 - case_share) / case_share)
    chosen = np.concatenate([np.flatnonzero(is_case), np.flatnonzero(~is_case)[:n_controls]])
    x, y = u[chosen] - u[chosen].mean(), is_case[chosen] - is_case[chosen].mean()
    e = y - (x @ y) / (x @ x) * x
    expected = (x**2 @ e**2) / len(x) / (x.var() * e.var())
    assert residual_spread(explained, case_share, prevalence) == pytest.approx(expected, rel=0.01)
