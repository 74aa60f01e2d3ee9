"""Figures 2 and 3 and Table 1 of Wu et al., on their synthetic data and on two of their tables."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import papers_constants as papers
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Float64
from experiments.multi_party import DELTA, LARGEST_PARTY, synthetic_data, trials
from experiments.reproduction import PaperFigure, Row, Task

EPSILONS = (1.0, 0.3, 0.1)
BETAS = (0.1, 0.3, 1.0)
METHODS = ("OLS", "BGM-OLS", "DGM-OLS", "RMGM-OLS")
_SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
_SCATTER_SIZE = 1_000_000
_MIXTURES = (100, 300, 1_000, 3_000, 10_000)
_DATA = Path(__file__).parent / "data"
_TEST_SHARE = 0.2
# Loss of DGM, RMGM and BGM at epsilon 1, 0.3 and 0.1, as Table 1 prints them.
_TABLE_1 = {
    "insurance": ((0.7015, 0.0791, 0.0805), (0.7550, 0.0782, 0.0850), (0.7263, 0.0793, 0.0832)),
    "bike": ((0.8105, 0.0581, 0.0691), (0.9080, 0.0711, 0.0703), (0.8792, 0.0700, 0.0707)),
}


def run_synthetic(task: Task) -> list[Row]:
    """Return the errors of every method on the data sets of a task, at one n and epsilon."""
    n_people, epsilon = int(task.setting["n"]), float(task.setting["epsilon"])
    sd = papers.multi_party_noise(epsilon, DELTA, LARGEST_PARTY)
    k = papers.multi_party_mixtures(n_people, epsilon, DELTA)
    rows: list[Row] = []
    for seed in task.seeds:
        rng = np.random.default_rng([seed, n_people, round(10 * epsilon)])
        data, true = synthetic_data(n_people, rng)
        rows += [
            {
                **task.setting,
                "seed": seed,
                "method": trial.method,
                "error": float(np.linalg.norm(trial.weights - true)),
                "eigenvalue": trial.smallest_eigenvalue,
            }
            for trial in trials(data, sd, [k], rng)
        ]
    return rows


def read_table(name: str) -> tuple[Float64, int]:
    """Return the values of a table within [0, 1], the target last, and the number of parties.

    The paper does not name its columns. Categories become indicators, which gives its d = 9 for
    insurance; the day of the month is the thirteenth attribute of bike.
    """
    if name == "insurance":
        table = pd.get_dummies(pd.read_csv(_DATA / "insurance.csv"), columns=["region"])
        table["sex"], table["smoker"] = table["sex"] == "male", table["smoker"] == "yes"
        target = "expenses"
    else:
        table = pd.read_csv(_DATA / "bike_hour.csv.gz")
        unused = ["instant", "dteday_year", "dteday_month", "casual", "registered"]
        table, target = table.drop(columns=unused), "cnt"
    values = table[[*table.columns.drop(target), target]].to_numpy(np.float64)
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / (high - low), 5


def run_table(task: Task) -> list[Row]:
    """Return the squared loss of every method on the test rows of random splits of one table."""
    values, n_parties = read_table(str(task.setting["data"]))
    epsilon = float(task.setting["epsilon"])
    sd = papers.multi_party_noise(epsilon, DELTA, math.ceil(values.shape[1] / n_parties))
    rows: list[Row] = []
    for seed in task.seeds:
        rng = np.random.default_rng([seed, round(10 * epsilon), len(values)])
        order = rng.permutation(len(values))
        test, training = np.split(values[order], [round(_TEST_SHARE * len(values))])
        for trial in trials(training, sd, _MIXTURES, rng):
            left = test[:, -1] - test[:, :-1] @ trial.weights
            loss, eigenvalue = float((left**2).mean()), trial.smallest_eigenvalue
            method: Row = {"method": trial.method, "loss": loss, "eigenvalue": eigenvalue}
            rows.append({**task.setting, "seed": seed, **method})
    return rows


def draw_figure_2(rows: pd.DataFrame, path: Path) -> None:
    """Draw P(||w - w*|| > beta) and E||w - w*|| against n, with standard errors."""
    beyond = {f"P(error > {beta:g})": rows.error > beta for beta in BETAS}
    epsilons = rows.assign(**beyond).groupby("epsilon", sort=False)
    panels = [
        [Panel(own, "n", name, METHODS, f"epsilon = {epsilon:g}") for epsilon, own in epsilons]
        for name in beyond
    ]
    means = [Panel(own, "n", "error", METHODS, scales=("log", "log")) for _, own in epsilons]
    draw([*panels, means], path)


def draw_figure_3(rows: pd.DataFrame, path: Path) -> None:
    """Draw the error against the smallest eigenvalue of the Hessian matrix."""

    def scatter(axes: Any) -> None:
        for method in METHODS[1:]:
            own = rows[rows.method == method]
            axes.plot(own.eigenvalue, own.error, ".", label=method)
        axes.set(xscale="log", yscale="log", xlabel="smallest |eigenvalue|", ylabel="error")

    draw([[scatter]], path)


def draw_table_1(rows: pd.DataFrame, path: Path) -> None:
    """Draw the losses with standard errors, the best k of RMGM, and the paper's numbers."""

    def losses(data: str, own_rows: pd.DataFrame, axes: Any) -> None:
        for place, epsilon in enumerate(EPSILONS):
            own = own_rows[own_rows.epsilon == epsilon]
            means = own.groupby("method").loss.agg(["mean", "sem"])
            best = means[means.index.str.startswith("RMGM")]["mean"].idxmin()
            shown = means.loc[["DGM-OLS", best, "BGM-OLS"]]
            x = place + np.array([-0.2, 0, 0.2])
            axes.errorbar(x, shown["mean"], shown["sem"], fmt="o", color="C0")
            axes.plot(x, _TABLE_1[data][place], "x", color="C1")
        axes.set_xticks(range(len(EPSILONS)), [f"epsilon {e:g}\nDGM RMGM BGM" for e in EPSILONS])
        title = f"{data}: ours (dots), the paper's (crosses)"
        axes.set(yscale="log", ylabel="squared loss", title=title)

    draw([[partial(losses, data, rows[rows.data == data]) for data in rows.data.unique()]], path)


FIGURES = {
    "wu-2": PaperFigure(
        "Wu et al., Figure 2: error against n",
        tuple({"n": n, "epsilon": e} for n in _SIZES for e in EPSILONS),
        run_synthetic,
        draw_figure_2,
        repetitions=1000,
        quick_settings=tuple({"n": n, "epsilon": e} for n in (10_000, 100_000) for e in EPSILONS),
    ),
    "wu-3": PaperFigure(
        "Wu et al., Figure 3 (a): error against the smallest eigenvalue",
        ({"n": _SCATTER_SIZE, "epsilon": 1.0},),
        run_synthetic,
        draw_figure_3,
        repetitions=1000,
        quick_settings=({"n": 100_000, "epsilon": 1.0},),
        quick_repetitions=10,
    ),
    "wu-table-1": PaperFigure(
        "Wu et al., Table 1: loss on real tables, two of five",
        tuple({"data": data, "epsilon": e} for data in _TABLE_1 for e in EPSILONS),
        run_table,
        draw_table_1,
        repetitions=100,
        quick_settings=tuple({"data": "insurance", "epsilon": e} for e in EPSILONS),
    ),
}
