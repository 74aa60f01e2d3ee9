"""Figures 3 to 6 of the thesis: relative efficiency, share of lambda = 0, prediction errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import papers_constants as papers
from experiments.figure_drawing import draw
from experiments.papers_tables import tables_of
from experiments.reproduction import PaperFigure, Row, Task
from experiments.thesis_trials import (
    N_TRIALS,
    DataSet,
    real_table,
    run_trials,
    synthetic_data,
)

EPSILONS = (0.001, 0.01, 0.1, 1.0)
SIZES = (1280, 20_480, 327_680)
# bike is the paper's; the other two stand for its wine and yacht, which --tables adds.
_TABLES = ("bike", "airfoil", "insurance")
_FURTHER_TABLES = ("wine", "yacht")
_SYNTHETIC = tuple({"n": n, "epsilon": e} for n in SIZES for e in EPSILONS)
_QUICK = tuple({"n": n, "epsilon": e} for n in SIZES[:2] for e in EPSILONS)
_REPETITIONS = 100
_LABELS = {"efficiency": "relative efficiency", "prediction": "prediction error"}
_LINES = {"adaSSPbudget": "-", "SSP": "--", "constSSPfull": ":", "joint analytic": "-."}


def run_synthetic(task: Task) -> list[Row]:
    """Return the result of every method on each data set of a task."""
    n_people = int(task.setting["n"])
    rows: list[Row] = []
    for seed in task.seeds:
        data = synthetic_data(n_people, np.random.default_rng([seed, n_people]))
        rows += _run_one(task, seed, data)
    return rows


def run_table(folder: Path | None, task: Task) -> list[Row]:
    """Return the result of every method on a real table, for each run of 32 splits of a task."""
    data = real_table(str(task.setting["data"]), folder)
    return [row for seed in task.seeds for row in _run_one(task, seed, data)]


def _run_one(task: Task, seed: int, data: DataSet) -> list[Row]:
    epsilon = float(task.setting["epsilon"])
    rng = np.random.default_rng([seed, len(data.rows), round(1000 * epsilon)])
    return [{**task.setting, "seed": seed, **row} for row in run_trials(data, epsilon, rng)]


def _curves(y: str, by: str, rows: pd.DataFrame, axes: Any) -> None:
    """Draw the median over data sets or runs, and their middle 90%, against gamma.

    A method without gamma is a horizontal line, with its bar at the right.
    """
    for column, (method, line) in enumerate(_LINES.items()):
        axes.plot([], [], line, color="black", label=method)
        for place, (group, own) in enumerate(rows[rows.method == method].groupby(by, sort=False)):
            values = own.groupby("gamma", dropna=False)[y]
            low, middle, high = (values.quantile(q).to_numpy() for q in (0.05, 0.5, 0.95))
            gammas = np.array([*values.groups])
            style = {"color": f"C{place}", "lw": 1, "elinewidth": 0.5, "errorevery": (place, 4)}
            if len(gammas) == 1:
                gammas = np.array([1 + 0.02 * (place + 3 * column)])
                axes.plot([0, *gammas], [*middle, *middle], line, color=f"C{place}", lw=1)
                style["errorevery"] = 1
            label = f"{by} = {group}" if column == 0 else None
            axes.errorbar(gammas, middle, [middle - low, high - middle], label=label, **style)
    axes.axvline(papers.ADASSP_EIGENVALUE_SHARE, color="0.8")
    axes.set(xlabel="gamma", ylabel=_LABELS[y], yscale="log", xticks=[0, 0.5, 1])
    axes.set_title(f"epsilon = {rows.epsilon.iloc[0]:g}")


def _zeros(rows: pd.DataFrame, axes: Any) -> None:
    """Draw the exact mean of the share of lambda = 0, and dots for the measured one.

    Bars are the thesis' standard deviation, that of the share of 32 trials.
    """
    budget = rows[rows.method == "adaSSPbudget"]
    for place, (n_people, own) in enumerate(budget.groupby("n")):
        means = own.groupby("gamma")[["zeros", "expected_zeros"]].mean()
        style = {"color": f"C{place}", "lw": 1, "label": f"n = {n_people}"}
        axes.plot(means.index, means.expected_zeros, **style)
        dots = means.iloc[::2]
        spread = np.sqrt(dots.zeros * (1 - dots.zeros) / N_TRIALS)
        axes.errorbar(dots.index, dots.zeros, spread, fmt=".", color=f"C{place}", elinewidth=0.5)
    axes.set(xlabel="gamma", ylabel="share of lambda = 0", ylim=(-0.05, 1.05))
    axes.set_title(f"epsilon = {rows.epsilon.iloc[0]:g}")


def _draw_by_epsilon(
    panel: Callable[[pd.DataFrame, Any], None], rows: pd.DataFrame, path: Path
) -> None:
    panels = [partial(panel, own) for _, own in rows.groupby("epsilon")]
    draw([panels[:2], panels[2:]], path)


def _curves_of(y: str, by: str) -> Callable[[pd.DataFrame, Path], None]:
    return partial(_draw_by_epsilon, partial(_curves, y, by))


def figure_6(folder: Path | None) -> PaperFigure:
    """Return Figure 6 on the tables of the repository, and those of a folder of the user."""
    names = (*_TABLES, *(tables_of(folder, _FURTHER_TABLES) if folder else ()))
    return PaperFigure(
        "Thesis, Figure 6: prediction error on real tables against gamma",
        tuple({"data": name, "epsilon": e} for name in names for e in EPSILONS),
        partial(run_table, folder),
        _curves_of("prediction", "data"),
        repetitions=_REPETITIONS,
    )


FIGURES = {
    f"thesis-{number}": PaperFigure(
        f"Thesis, Figure {number}: {title}, on synthetic data, against gamma",
        _SYNTHETIC,
        run_synthetic,
        drawing,
        repetitions=_REPETITIONS,
        quick_settings=_QUICK,
        runs="thesis-3",
    )
    for number, title, drawing in (
        (3, "relative efficiency", _curves_of("efficiency", "n")),
        (4, "share of lambda = 0", partial(_draw_by_epsilon, _zeros)),
        (5, "prediction error", _curves_of("prediction", "n")),
    )
}
ON_TABLES = {"thesis-6": figure_6}
