"""Figures of PRIMO: generators against closed forms, and the order of the methods."""

import math

import numpy as np
import pandas as pd
import pytest

from experiments import papers_constants as papers
from experiments import primo_cohorts, primo_rates, product_methods
from experiments.gaussian_noise import symmetric_upper
from experiments.primo_cohorts import draw_cohort, genotypes, perceptron
from experiments.primo_figures import run_accuracy
from experiments.releases import demo_panel
from experiments.reproduction import Task
from primo_scale.papers.estimators import phenotype_projection

SETTING = {"features": "gaussian", "outcomes": "linear", "n": 2000, "l": 101}
FULL = "product: full privacy"
GAUSS = "ReuseCovGauss as printed"


def losses(setting):
    """Mean log of the loss ratio of each method over four repetitions."""
    rows = pd.DataFrame(run_accuracy(Task(setting, range(4))))
    return rows.groupby("method")["log loss ratio to OLS"].mean()


def test_sums_do_not_depend_on_the_parts(monkeypatch):
    setting = {**SETTING, "features": "haplotypes", "n": 300, "l": 4}
    whole = draw_cohort(setting, 0)
    Y = whole.phenotypes
    np.testing.assert_allclose(whole.cross, whole.haplotypes.T @ Y, rtol=1e-9)
    assert whole.total == pytest.approx((Y**2).sum())
    assert whole.largest_value == np.abs(Y).max()
    assert len(list(whole.parts())) == 1
    monkeypatch.setattr(primo_cohorts, "_VALUES_AT_A_TIME", 4 * 70)
    parts = list(draw_cohort(setting, 0).parts())
    assert [len(X) for X, _ in parts] == [70, 70, 70, 70, 20]
    np.testing.assert_array_equal(np.vstack([X for X, _ in parts]), whole.haplotypes)
    np.testing.assert_array_equal(parts[0][1], Y[:70])  # the residuals of later parts are new
    again = draw_cohort(setting, 0)
    np.testing.assert_array_equal(again.phenotypes, np.vstack([Y for _, Y in parts]))


def test_methods_of_streamed_and_held_phenotypes_agree(monkeypatch):
    """The same cohort in one part and in many; the same weights to rounding."""
    monkeypatch.setattr(primo_cohorts, "_VALUES_AT_A_TIME", 101 * 33)
    streamed = losses(SETTING)
    original = primo_cohorts.cohort_of

    def held(features, outcomes):
        parts = [(features, np.vstack([Y for _, Y in outcomes()]))]
        return original(features, lambda: parts)

    monkeypatch.setattr(primo_cohorts, "cohort_of", held)
    pd.testing.assert_series_equal(losses(SETTING), streamed, rtol=1e-9, atol=1e-12)


def test_mosaic_genotypes_have_the_frequencies_and_variances_of_the_panel():
    n = 40_000
    x = genotypes(n, np.random.default_rng(1))
    panel = demo_panel()
    chosen = np.sort(
        np.random.default_rng(1).choice(
            np.flatnonzero(np.minimum(panel.a1_frequency, 1 - panel.a1_frequency) >= 0.01),
            25,
            replace=False,
        )
    )
    copies = np.array([2.0, np.nan, 1.0, 0.0])[panel.codes[chosen]]
    assert set(np.unique(x)) == {0, 1, 2}
    error = np.sqrt(copies.var(axis=1) / n)
    assert (np.abs(x.mean(axis=0) - copies.mean(axis=1)) < 6 * error).all()
    np.testing.assert_allclose(x.var(axis=0), copies.var(axis=1), rtol=0.2)


def test_signals_have_the_stated_variance_and_mean_zero():
    """5 standard errors of 200 outcomes that share 50 hidden units; a tenth more is rejected."""
    x = np.random.default_rng(2).standard_normal((20_000, 25))
    signal = perceptron(200, np.random.default_rng(3))(x)
    assert abs(signal.mean()) < 0.02
    assert signal.var() == pytest.approx(math.sqrt(25), rel=0.1)
    # A network is no linear function: least squares leaves a share of its variance.
    left = signal - x @ np.linalg.lstsq(x, signal, rcond=None)[0]
    assert 0.15 < left.var() / signal.var() < 0.4


@pytest.mark.parametrize("outcomes", ["linear", "perceptron"])
def test_the_order_of_methods_is_as_in_figure_5(outcomes):
    found = losses({**SETTING, "outcomes": outcomes})
    assert found["OLS"] == 0
    assert 0 < found["product: label privacy, projected"] < found[GAUSS]
    assert found[FULL] < found["ReuseCovProj_X, radius without sqrt(l)"] < found[GAUSS]
    assert found[GAUSS] < found["ReuseCovProj_X as printed"]


def excess_over_expectation():
    """Mean excess loss of the printed projection where it is idle, over that of its noise.

    Weights have the error ``sigma S^-1 E``, so the sum of squares grows by ``sigma^2 l tr S^-1``.
    """
    setting = {**SETTING, "n": 20_000, "l": 11}
    rows = pd.DataFrame(run_accuracy(Task(setting, range(4))))
    r_squared = rows.pivot(index="seed", columns="method", values="R^2")
    found = (r_squared["OLS"] - r_squared["ReuseCovProj_X as printed"]).sum()
    expected = 0.0
    for seed in range(4):
        cohort = draw_cohort(setting, seed)
        Y = cohort.phenotypes
        bounds = np.linalg.norm(cohort.haplotypes, axis=1).max() * np.sqrt(11) * np.abs(Y).max()
        sigma = math.sqrt(2 * (1 / 2.5 + math.log(2 * 20_000**2) / 2.5**2)) * bounds
        expected += sigma**2 * 11 * np.trace(np.linalg.inv(cohort.gram)) / (Y**2).sum()
    return found / expected


def test_printed_noise_costs_what_its_scale_implies(monkeypatch):
    """1,100 normal numbers: standard error 4%. Noise with a scale 20% larger is rejected."""
    assert excess_over_expectation() == pytest.approx(1, abs=0.2)
    right = papers.primo_c
    monkeypatch.setattr(papers, "primo_c", lambda epsilon, delta: 1.2 * right(epsilon, delta))
    assert excess_over_expectation() > 1.25


def test_twice_the_noise_costs_the_product_twice_the_loss_at_least(monkeypatch):
    once, right = losses({**SETTING, "l": 11}), product_methods._scales
    monkeypatch.setattr(
        product_methods, "_scales", lambda *given: [2 * sigma for sigma in right(*given)]
    )
    twice = losses({**SETTING, "l": 11})
    for method in (FULL, "product: label privacy", "product: label privacy, projected"):
        assert once[GAUSS] == twice[GAUSS]
        assert twice[method] > 2 * once[method]


def test_worst_excess_is_that_of_simulated_releases():
    """The formula against Algorithm 1 run on exact statistics, at one point of the family."""
    rng = np.random.default_rng(5)
    sizes, s, ridge = primo_rates.Sizes(10_000, 6, 4000, 1.0), 0.01, 0.02
    scales = papers.primo_algorithm_1(5.0, 1e-9)
    weights = rng.standard_normal((6, 4000))
    weights /= np.linalg.norm(weights, axis=0)
    e1 = scales.gram / sizes.n * symmetric_upper(6, rng)
    noisy = s * weights + scales.cross / sizes.n * math.sqrt(4000) * rng.standard_normal((6, 4000))
    fitted = np.linalg.solve((s + ridge) * np.eye(6) + e1, noisy)
    expected = s * ((fitted - weights) ** 2).sum(axis=0).mean()
    found = primo_rates.excess_loss("Gauss", sizes, np.linalg.eigvalsh(e1), (s, 4000.0), ridge)
    assert found == pytest.approx(expected, rel=0.03)  # 24,000 normal numbers: standard error 1%


def test_projected_excess_is_that_of_a_simulated_projection():
    """Y of rank 30 with equal eigenvalues, by the product's projection."""
    rng = np.random.default_rng(6)
    sizes, s, ridge = primo_rates.Sizes(3000, 20, 1000, 1.0), 0.05, 0.02
    range_of_y = np.linalg.qr(rng.standard_normal((1000, 300)))[0]
    weights = rng.standard_normal((20, 300)) @ range_of_y.T
    weights *= math.sqrt(1000) / np.linalg.norm(weights)
    sigma = papers.primo_algorithm_1(5.0, 1e-9).cross / 3000 * math.sqrt(1000)
    noisy = s * weights + sigma * rng.standard_normal((20, 1000))
    outcome_gram = 1000 / 300 * range_of_y @ range_of_y.T  # Y'Y/n; the radius is |X| = 1
    matrix, multiplier = phenotype_projection(outcome_gram, [noisy], 1.0)
    assert multiplier > 0
    fitted = noisy @ matrix / (s + ridge)
    expected = s * ((fitted - weights) ** 2).sum() / 1000
    found = primo_rates.excess_loss("Proj_Y", sizes, np.zeros(20), (s, 300.0), ridge)
    assert found == pytest.approx(expected, rel=0.05)  # 6,000 normal numbers: standard error 2%


@pytest.mark.parametrize("row", [1, 2])
def test_rates_of_full_privacy_are_those_of_table_1(row):
    for axis, printed in primo_rates.TABLE[row].exponents.items():
        task = Task({"row": row, "axis": axis}, range(1))
        measured = primo_rates.exponent(pd.DataFrame(primo_rates.run_rates(task)))
        assert measured == pytest.approx(printed, abs=0.2)
