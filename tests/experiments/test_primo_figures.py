"""Data and figures of PRIMO: generators against closed forms, and the order of the methods."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from experiments import primo_rates
from experiments.haplotypes import simulate
from experiments.primo_figures import run_accuracy
from experiments.reproduction import Task

SETTING = {"features": "gaussian", "outcomes": "linear", "n": 2000, "l": 101}
FULL = "product: full privacy"
GAUSS = "ReuseCovGauss as printed"


def losses(setting):
    """Mean log of the loss ratio of each method over four repetitions."""
    rows = pd.DataFrame(run_accuracy(Task(setting, range(4))))
    return rows.groupby("method")["log loss ratio to OLS"].mean()


@pytest.mark.parametrize("outcomes", ["linear", "perceptron"])
def test_the_order_of_methods_is_as_in_figure_5(outcomes):
    found = losses({**SETTING, "outcomes": outcomes})
    assert found["OLS"] == 0
    assert 0 < found["product: label privacy, projected"] < found[GAUSS]
    assert found[FULL] < found["ReuseCovProj_X, radius without sqrt(l)"] < found[GAUSS]
    assert found[GAUSS] < found["ReuseCovProj_X as printed"]


@pytest.mark.parametrize("row", [1, 2])
def test_rates_of_full_privacy_are_those_of_table_1(row):
    for axis, printed in primo_rates.TABLE[row].exponents.items():
        task = Task({"row": row, "axis": axis}, range(1))
        measured = primo_rates.exponent(pd.DataFrame(primo_rates.run_rates(task)))
        assert measured == pytest.approx(printed, abs=0.2)


def test_cohort_is_as_the_paper_describes():
    cohort = simulate(400, 7, 3, np.random.default_rng(2))
    np.testing.assert_allclose(cohort.haplotypes.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(cohort.phenotypes.mean(axis=0), 0, atol=1e-12)
    for column in cohort.haplotypes.T:
        assert np.ptp(column) == pytest.approx(1)
        assert len(np.unique(column)) == 2
    np.testing.assert_allclose(cohort.cross, cohort.haplotypes.T @ cohort.phenotypes)


def test_pooled_r_squared_is_that_of_scikit_learn():
    rng = np.random.default_rng(4)
    cohort = simulate(300, 5, 4, rng)
    weights = rng.standard_normal((5, 4))
    expected = r2_score(cohort.phenotypes.ravel(), (cohort.haplotypes @ weights).ravel())
    assert cohort.pooled_r_squared(weights) == pytest.approx(expected, rel=1e-9)
