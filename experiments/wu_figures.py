"""Figures 2 and 3 and Table 1 of Wu et al., on their synthetic data and on real tables."""

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
from experiments.papers_tables import read_table, tables_of
from experiments.reproduction import PaperFigure, Row, Task

EPSILONS = (1.0, 0.3, 0.1)
BETAS = (0.1, 0.3, 1.0)
METHODS = ("OLS", "BGM-OLS", "DGM-OLS", "RMGM-OLS")
_SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
_SCATTER_SIZE = 1_000_000
_MIXTURES = (100, 300, 1_000, 3_000, 10_000)
_TEST_SHARE = 0.2
# Parties, and loss of DGM, RMGM and BGM at epsilon 1, 0.3 and 0.1, as Table 1 prints them.
_TABLE_1 = {
    "insurance": (5, ((0.7015, 0.0791, 0.0805), (0.755, 0.0782, 0.085), (0.7263, 0.0793, 0.0832))),
    "bike": (5, ((0.8105, 0.0581, 0.0691), (0.908, 0.0711, 0.0703), (0.8792, 0.07, 0.0707))),
    "superconductor": (
        10,
        ((0.9794, 0.0659, 0.067), (1.0075, 0.0707, 0.0704), (0.922, 0.0699, 0.0704)),
    ),
    "gpu": (5, ((0.6953, 0.0137, 0.0158), (0.7843, 0.016, 0.016), (0.7822, 0.0165, 0.016))),
    "music": (10, ((1.0167, 0.0202, 0.7194), (1.6462, 0.1039, 0.7479), (1.5583, 0.5654, 0.7508))),
}
_TABLES, _FURTHER_TABLES = tuple(_TABLE_1)[:2], tuple(_TABLE_1)[2:]


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


def draw_figure_2(rows: pd.DataFrame, path: Path) -> None:
    """Draw P(||w - w*|| > beta) and E||w - w*|| against n, with standard errors.

    OLS, whose error is below 1e-5, is left out.
    """
    beyond = {f"P(error > {beta:g})": rows.error > beta for beta in BETAS}
    epsilons = rows.assign(**beyond).groupby("epsilon", sort=False)
    panels = [
        [
            Panel(own, "n", name, METHODS[1:], f"epsilon = {epsilon:g}", y_limits=(-0.03, 1.03))
            for epsilon, own in epsilons
        ]
        for name in beyond
    ]
    means = [Panel(own, "n", "error", METHODS[1:], scales=("log", "log")) for _, own in epsilons]
    draw([*panels, means], path)


def draw_scatter(rows: pd.DataFrame, path: Path) -> None:
    """Draw the error against the smallest eigenvalue of the Hessian matrix."""

    def scatter(axes: Any) -> None:
        for method in METHODS[1:]:
            own = rows[rows.method == method]
            axes.plot(own.eigenvalue, own.error, ".", label=method, rasterized=True)
        axes.set(xscale="log", yscale="log", xlabel="smallest |eigenvalue|", ylabel="error")

    draw([[scatter]], path)


def unit_values(name: str, folder: Path | None) -> Float64:
    """Return the values of a table within [0, 1], the target last.

    The paper does not name its columns. Categories become indicators, which gives its d = 9 for
    insurance; the day of the month is the thirteenth attribute of bike.
    """
    table = read_table(name, folder)
    if name == "bike":
        table = table.drop(columns=["dteday_year", "dteday_month", "casual", "registered"])
    return np.asarray((table - table.min()) / (table.max() - table.min()), np.float64)


def run_table(folder: Path | None, task: Task) -> list[Row]:
    """Return the results of every method for random splits of one table.

    They are the squared loss on the test rows, and the distance `error` to the weights of least
    squares, which Figure 3 (b) shows; the paper does not say what its distance is to.
    """
    name, epsilon = str(task.setting["data"]), float(task.setting["epsilon"])
    values = unit_values(name, folder)
    n_parties, _ = _TABLE_1[name]
    sd = papers.multi_party_noise(epsilon, DELTA, math.ceil(values.shape[1] / n_parties))
    rows: list[Row] = []
    for seed in task.seeds:
        rng = np.random.default_rng([seed, round(10 * epsilon), len(values)])
        order = rng.permutation(len(values))
        test, training = np.split(values[order], [round(_TEST_SHARE * len(values))])
        found = trials(training, sd, _MIXTURES, rng)
        for trial in found:
            left = test[:, -1] - test[:, :-1] @ trial.weights
            method: Row = {
                "method": trial.method,
                "loss": float((left**2).mean()),
                "error": float(np.linalg.norm(trial.weights - found[0].weights)),
                "eigenvalue": trial.smallest_eigenvalue,
            }
            rows.append({**task.setting, "seed": seed, **method})
    return rows


def draw_table_1(rows: pd.DataFrame, path: Path) -> None:
    """Draw the losses with standard errors, the best k of RMGM, and the paper's numbers."""

    def losses(data: str, own_rows: pd.DataFrame, axes: Any) -> None:
        """Draw the losses on one dataset."""
        for place, epsilon in enumerate(EPSILONS):
            own = own_rows[own_rows.epsilon == epsilon]
            means = own.groupby("method").loss.agg(["mean", "sem"])
            shown = means.loc[["DGM-OLS", _best_mixture(own), "BGM-OLS"]]
            x = place + np.array([-0.2, 0, 0.2])
            axes.errorbar(x, shown["mean"], shown["sem"], fmt="o", color="C0", label="ours")
            axes.plot(x, _TABLE_1[data][1][place], "x", color="C1", label="the paper's")
        axes.set_xticks(range(len(EPSILONS)), [f"epsilon {e:g}\nDGM RMGM BGM" for e in EPSILONS])
        axes.tick_params("x", labelsize="x-small")
        axes.set(yscale="log", ylabel="squared loss", title=data)

    draw([[partial(losses, data, rows[rows.data == data]) for data in rows.data.unique()]], path)


def draw_figure_3b(rows: pd.DataFrame, path: Path) -> None:
    """Draw the error against the smallest eigenvalue, for RMGM at its best k."""
    draw_scatter(rows.replace({"method": {_best_mixture(rows): "RMGM-OLS"}}), path)


def _best_mixture(rows: pd.DataFrame) -> str:
    means = rows[rows.method.str.startswith("RMGM")].groupby("method").loss.mean()
    return str(means.idxmin())


def table_1(folder: Path | None) -> PaperFigure:
    """Return Table 1 on the tables of the repository, and those of a folder of the user."""
    further = tables_of(folder, _FURTHER_TABLES) if folder else []
    names, quick = (*_TABLES, *further), ("insurance", *further)
    return PaperFigure(
        f"Wu et al., Table 1: loss on real tables ({', '.join(names)})",
        tuple({"data": data, "epsilon": e} for data in names for e in EPSILONS),
        partial(run_table, folder),
        draw_table_1,
        repetitions=100,
        quick_settings=tuple({"data": data, "epsilon": e} for data in quick for e in EPSILONS),
    )


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
        draw_scatter,
        repetitions=1000,
        quick_settings=({"n": 100_000, "epsilon": 1.0},),
        quick_repetitions=10,
    ),
    "wu-3b": PaperFigure(
        "Wu et al., Figure 3 (b): error against the smallest eigenvalue on insurance",
        ({"data": "insurance", "epsilon": 1.0},),
        partial(run_table, None),
        draw_figure_3b,
        repetitions=1000,
        quick_repetitions=10,
    ),
}
ON_TABLES = {"wu-table-1": table_1}
