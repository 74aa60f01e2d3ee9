"""Figures of PRIMO: generators against closed forms, and the order of the methods."""

import pandas as pd
import pytest

from experiments import primo_rates
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
