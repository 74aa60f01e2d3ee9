"""The figures that compare DP-SGD and other baselines with the product."""

import pandas as pd
import pytest

from experiments import primo_baselines
from experiments.baselines import best_of_grids
from experiments.reproduction import Task


def test_dp_sgd_wins_for_one_outcome_of_many_pixels():
    """PRIMO's Figure 6 on the digits, at its promise."""
    setting = {"data": "digits", "l": 1, "by": "here"}
    rows = pd.DataFrame(primo_baselines.run(Task(setting, range(3))))
    means = best_of_grids(rows, ["l"]).groupby("method")["R^2"].mean()
    assert means["OLS"] == pytest.approx(0.52, abs=0.02)
    assert means["ReuseCovGauss as printed"] < means["full DP"] < means["DP-SGD"] < means["OLS"]
    assert means["DP-SGD"] < means["DP-SGD (add-remove)"]
