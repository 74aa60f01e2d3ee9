"""The thesis' experiments: what its figures show, and the noise behind them."""

import numpy as np
import pandas as pd
import pytest

from experiments import papers_constants as papers
from experiments import thesis
from experiments.reproduction import Task
from experiments.thesis_figures import (
    GAMMAS,
    N_VARIABLES,
    figure_6,
    real_table,
    run_synthetic,
    run_table,
    synthetic_data,
)

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


def test_little_data_favours_a_ridge_at_every_gamma():
    """Figure 3, epsilon 0.1: the noise of SSP makes X'X indefinite."""
    small = run(1280, 0.1)
    ssp, const = (of(small, name, "efficiency") for name in ("SSP", "constSSPfull"))
    assert by_gamma(small, "efficiency").max() < ssp / 5
    np.testing.assert_allclose(by_gamma(small, "efficiency")[REASONABLE], const, rtol=0.3)


def excess(rows):
    """Return the error of SSP over that of least squares, and what its noise predicts.

    To first order the weights move by ``(X'X)^-1 (e - E theta)``: each of the d coordinates of e
    has variance ``(scale By)^2`` and of E theta ``scale^2``, and X'X is n/d times the identity.
    """
    scale = papers.thesis_gaussian(0.5, 20_480**-1.1 / 2)
    bound = np.mean(
        [
            np.abs(synthetic_data(20_480, np.random.default_rng([seed, 20_480])).rows[:, -1]).max()
            for seed in rows.seed.unique()
        ]
    )
    predicted = N_VARIABLES * (scale * N_VARIABLES / (0.9 * 20_480)) ** 2 * (1 + bound**2)
    return of(rows, "SSP", "error") - of(rows, "least squares", "error"), predicted


def test_error_of_ssp_is_that_of_its_noise(large, monkeypatch):
    """Medians of 5 means over 32 trials and 10 coordinates: 3% each; 1.3 times the noise fails."""
    found, predicted = excess(large)
    assert found == pytest.approx(predicted, rel=0.2)
    right = papers.thesis_gaussian
    monkeypatch.setattr(papers, "thesis_gaussian", lambda e, d: 1.3 * right(e, d))
    noisier, _ = excess(run(20_480, 1.0))
    assert noisier != pytest.approx(predicted, rel=0.2)


def test_share_of_zero_ridges_is_its_closed_form():
    """4,000 draws against the normal distribution, 5 standard deviations; 1.2 times the noise."""
    rows = synthetic_data(20_480, np.random.default_rng(1)).rows
    gram = rows.T @ rows
    problem = thesis.Problem(gram[:-1, :-1], gram[:-1, -1:], 1.3, 1.0, 20_480**-1.1)
    rule = thesis.EigenvalueRidge(problem, 0.02)
    noise = np.random.default_rng(2).standard_normal(4000)
    share = rule.probability_of_zero
    assert 0.1 < share < 0.9
    spread = np.sqrt(share * (1 - share) / len(noise))

    def measured(factor):
        return np.mean([rule.at(factor * z) == 0 for z in noise])

    assert abs(measured(1.0) - share) < 5 * spread
    assert abs(measured(1.2) - share) > 5 * spread


def test_zero_ridges_appear_with_data_and_are_few_at_extreme_shares(large):
    """Figure 4, epsilon 1: lambda is 0 for all gamma but the most extreme."""
    shares = by_gamma(large, "zeros")
    assert (shares[REASONABLE] == 1).all()
    assert shares.iloc[[0, -1]].max() < 0.1
    budget = large[large.method == "adaSSPbudget"]
    total = budget[["zeros", "expected_zeros"]].groupby(budget.gamma).mean()
    np.testing.assert_allclose(total.zeros, total.expected_zeros, atol=0.2)  # 160 trials, 5 sd


def test_prediction_error_of_nothing_is_one_and_of_all_is_the_residual(large):
    """Figure 5: y has variance 0.1 + 0.01, of which least squares leaves 0.01."""
    assert of(large, "least squares", "prediction") == pytest.approx(0.01 / 0.11, rel=0.02)
    assert by_gamma(large, "prediction")[REASONABLE].max() < 0.1
    assert of(run(1280, 0.001, 2), "constSSPfull", "prediction") == pytest.approx(1, abs=0.5)


def test_a_ridge_wins_on_a_real_table_and_lambda_is_never_zero():
    """Figure 6: features of bike include its date twice, so that X'X is singular."""
    bike = real_table("bike", None)
    assert bike.rows.shape == (17_379, 18)
    assert np.linalg.eigvalsh(bike.rows[:, :-1].T @ bike.rows[:, :-1])[0] < 1e-6
    rows = pd.DataFrame(run_table(None, Task({"data": "bike", "epsilon": 0.1}, range(2))))
    assert by_gamma(rows, "zeros").max() == 0
    assert by_gamma(rows, "prediction").max() < of(rows, "SSP", "prediction")
    assert of(rows, "constSSPfull", "prediction") < by_gamma(rows, "prediction").min()


def test_a_table_of_the_user_is_added_and_drawn(tmp_path):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.standard_normal((300, 3)), columns=["a", "b", "c"])
    table.assign(y=table.a - table.b).to_csv(tmp_path / "yacht.csv", index=False)
    figure = figure_6(tmp_path)
    assert {setting["data"] for setting in figure.settings} == {
        "bike",
        "airfoil",
        "insurance",
        "yacht",
    }
    settings = [setting for setting in figure.settings if setting["data"] == "yacht"]
    rows = pd.DataFrame([row for s in settings for row in figure.run(Task(s, range(1)))])
    assert of(rows, "least squares", "prediction") < 0.3  # rows are scaled, so not exactly linear
    figure.draw(rows, tmp_path / "figure.svg")
    assert "data = yacht" in (tmp_path / "figure.svg").read_text()
