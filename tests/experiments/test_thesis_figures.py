"""The thesis' experiments: what its figures show, and the noise behind them."""

import numpy as np
import pandas as pd
import pytest

from experiments import papers_constants as papers
from experiments.reproduction import Task
from experiments.thesis_figures import GAMMAS, real_table, run_synthetic, run_table

REASONABLE = [gamma for gamma in GAMMAS if 0.05 <= gamma <= 0.5]


def run(n_people, epsilon, n_data_sets=5):
    task = Task({"n": n_people, "epsilon": epsilon}, range(n_data_sets))
    return pd.DataFrame(run_synthetic(task))


def by_gamma(rows, column):
    return rows[rows.method == "adaSSPbudget"].groupby("gamma")[column].median()


def of(rows, method, column):
    return rows[rows.method == method][column].median()


@pytest.fixture(scope="module")
def large():
    return run(20_480, 1.0)


def test_much_data_favours_ssp_at_every_gamma(large):
    """Figure 3, epsilon 1: the smaller the ridge, the better."""
    budget = by_gamma(large, "efficiency")
    assert len(budget) == 24
    assert of(large, "joint analytic", "efficiency") < of(large, "SSP", "efficiency")
    assert of(large, "SSP", "efficiency") < budget.min()
    assert budget[REASONABLE].max() < of(large, "constSSPfull", "efficiency")


def test_a_ridge_wins_on_a_real_table_and_lambda_is_never_zero():
    """Figure 6: features of bike include its date twice, so that X'X is singular."""
    bike = real_table("bike")
    assert bike.rows.shape == (17_379, 18)
    assert np.linalg.eigvalsh(bike.rows[:, :-1].T @ bike.rows[:, :-1])[0] < 1e-6
    rows = pd.DataFrame(run_table(Task({"data": "bike", "epsilon": 0.1}, range(2))))
    assert by_gamma(rows, "zeros").max() == 0
    assert by_gamma(rows, "prediction").max() < of(rows, "SSP", "prediction")
    assert of(rows, "constSSPfull", "prediction") < by_gamma(rows, "prediction").min()


def test_small_epsilon_favours_ada_ssp_on_real_tables_and_large_n_ssp_on_synthetic_data():
    """Figures 1 and 2, which the thesis takes from Wang."""
    small = Task({"data": "yacht", "epsilon": 0.01, "power": 2.0}, range(3))
    large = Task({"n": 20_480, "epsilon": 1.0, "power": 2.0}, range(3))
    on_table, synthetic = pd.DataFrame(run_table(small)), pd.DataFrame(run_synthetic(large))
    ada_ssp = by_gamma(on_table, "prediction")[papers.ADASSP_EIGENVALUE_SHARE]
    assert ada_ssp < of(on_table, "SSP", "prediction") / 10
    ada_ssp = by_gamma(synthetic, "efficiency")[papers.ADASSP_EIGENVALUE_SHARE]
    assert 1 < of(synthetic, "SSP", "efficiency") < ada_ssp
