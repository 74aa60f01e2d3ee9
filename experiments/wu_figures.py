"""Figures 2 and 3 (a) of Wu et al., on their synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import papers_constants as papers
from experiments.figure_drawing import Panel, draw
from experiments.multi_party import DELTA, LARGEST_PARTY, synthetic_data, trials
from experiments.reproduction import PaperFigure, Row, Task

EPSILONS = (1.0, 0.3, 0.1)
BETAS = (0.1, 0.3, 1.0)
METHODS = ("OLS", "BGM-OLS", "DGM-OLS", "RMGM-OLS")
_SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
_SCATTER_SIZE = 1_000_000


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
}
