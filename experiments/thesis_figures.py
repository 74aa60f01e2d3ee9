"""Figures 1 to 6 of the thesis: relative efficiency, share of lambda = 0, prediction errors.

Figures 1 and 2 are reprinted there from Wang's paper on adaSSP, with ``delta = n^-2``: SSP and
adaSSP on real tables against epsilon, and on synthetic data against n.

Its section 5.2: d = 10, rows of X Gaussian and scaled to norm 1, ``||theta_0|| = 1``,
``y = X theta_0 + N(0, 0.1^2)``. Its section 5.4: ``delta = n^-1.1``, and 32 random splits of the
rows into 90% and 10%, every algorithm with fresh noise on each. The relative efficiency is the
mean squared error of the weights over that of least squares; the prediction error is the mean
squared error on the 10% over the variance of y.

Where the text is silent, the author's program (TPiazza21/Thesis, commit 0fb030b) gives the detail:
By is the largest |y|; gamma is 0.01 to 0.05 and then multiples of 0.05, and here also 1/3;
features of real tables are standardised and their rows scaled to norm 1; the outcome of bike is
log(cnt), and every other column but the row number is a feature. The text is followed where the
program differs: ``||theta_0|| = 1`` (there: 0.71), and delta of real tables (there: 1e-6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import papers_constants as papers
from experiments import thesis
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Float64
from experiments.gaussian_noise import draw as draw_noise
from experiments.papers_tables import read_table
from experiments.reproduction import PaperFigure, Row, Task

GAMMAS = (
    *(k / 100 for k in (1, 2, 3, 4, 5, 10, 15, 20, 25, 30)),
    papers.ADASSP_EIGENVALUE_SHARE,
    *(k / 100 for k in range(35, 100, 5)),
)
# Every method with its gamma, if it has one.
METHODS = (
    *((name, math.nan) for name in ("least squares", "SSP", "constSSPfull", "joint analytic")),
    *(("adaSSPbudget", gamma) for gamma in GAMMAS),
)
N_VARIABLES = 10
N_TRIALS = 32
_TRAINING_SHARE = 0.9
_RESIDUAL_SD = 0.1
# Eigenvalues of X'X below this share of the largest are 0: bike has its date twice.
_SINGULAR = 1e-10
EPSILONS = (0.001, 0.01, 0.1, 1.0)
SIZES = (1280, 20_480, 327_680)
_TABLES = ("bike", "wine", "yacht")
_WANGS_TABLES = (*_TABLES, "airfoil")
_WANGS_POWER = 2.0  # of n in 1/delta
_WANGS_EPSILONS = (0.001, 0.01, 0.1, 1.0, 10.0)
_WANGS_SIZES = (320, 1280, 5120, 20_480, 81_920, 327_680)
_WANGS_METHODS = ("least squares", "SSP", "adaSSP", "joint analytic")
_POWER = 1.1
_SYNTHETIC = tuple({"n": n, "epsilon": e} for n in SIZES for e in EPSILONS)
_QUICK = tuple({"n": n, "epsilon": e} for n in SIZES[:2] for e in EPSILONS)
_REPETITIONS = 100
_LABELS = {"efficiency": "relative efficiency", "prediction": "prediction error"}
_LINES = {"adaSSPbudget": "-", "SSP": "--", "constSSPfull": ":", "joint analytic": "-."}


@dataclass(frozen=True, eq=False)
class DataSet:
    """Data of an experiment."""

    rows: Float64  # features, of norm 1 by row, and the outcome last, shape (n, d + 1)
    true_weights: Float64  # that the outcome was made from, shape (d,); NaN for a real table
    # Public guess of the smallest eigenvalue of X'X: n/d for synthetic data, whose features are
    # independent; 0 for a real table, whose features may be collinear.
    least_eigenvalue: float


def synthetic_data(n_people: int, rng: np.random.Generator) -> DataSet:
    """Return a data set of section 5.2."""
    theta = rng.standard_normal(N_VARIABLES)
    theta /= np.linalg.norm(theta)
    X = rng.standard_normal((n_people, N_VARIABLES))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = X @ theta + _RESIDUAL_SD * rng.standard_normal(n_people)
    return DataSet(np.column_stack([X, y]), theta, n_people / N_VARIABLES)


def real_table(name: str) -> DataSet:
    """Return a real table with standardised columns and rows of features scaled to norm 1."""
    table = read_table(name)
    if name == "bike":
        table["cnt"] = np.log(table["cnt"])
    values = ((table - table.mean()) / table.std()).to_numpy()
    X, y = values[:, :-1], values[:, -1]
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    return DataSet(np.column_stack([unit, y]), np.full(X.shape[1], np.nan), 0.0)


def run_trials(
    data: DataSet, epsilon: float, rng: np.random.Generator, *, power: float = _POWER
) -> list[Row]:
    """Return the means over the trials of one data set, for each of `METHODS`.

    Delta is ``n^-power``.

    Columns: squared `error` of the weights and its relative `efficiency` (synthetic data);
    `prediction` error; `zeros`, the share of trials with lambda = 0; `expected_zeros`, the mean of
    its exact probability.
    """
    outcome, n_people = data.rows[:, -1], len(data.rows)
    whole, bound = data.rows.T @ data.rows, float(np.abs(outcome).max())
    n_test = n_people - int(_TRAINING_SHARE * n_people)
    delta = float(n_people) ** -power
    errors, predictions, zeros, expected = (np.empty((N_TRIALS, len(METHODS))) for _ in range(4))
    for trial in range(N_TRIALS):
        test = data.rows[rng.choice(n_people, n_test, replace=False, shuffle=False)]
        held_out = test.T @ test
        gram = whole - held_out
        problem = thesis.Problem(gram[:-1, :-1], gram[:-1, -1:], bound, epsilon, delta)
        weights, zeros[trial], expected[trial] = _fit_all(problem, data.least_eigenvalue, rng)
        residual = np.vstack([-weights, np.ones(len(METHODS))])
        predictions[trial] = (residual * (held_out @ residual)).sum(axis=0) / n_test
        errors[trial] = ((weights - data.true_weights[:, None]) ** 2).sum(axis=0)
    columns = {
        "error": errors.mean(axis=0),
        "efficiency": errors.mean(axis=0) / errors[:, 0].mean(),
        "prediction": predictions.mean(axis=0) / outcome.var(),
        "zeros": zeros.mean(axis=0),
        "expected_zeros": expected.mean(axis=0),
    }
    return [
        {"method": name, "gamma": gamma, **{key: float(v[m]) for key, v in columns.items()}}
        for m, (name, gamma) in enumerate(METHODS)
    ]


def _fit_all(
    problem: thesis.Problem, least_eigenvalue: float, rng: np.random.Generator
) -> tuple[Float64, Float64, Float64]:
    """Return weights, shape (d, methods), whether lambda is 0, and the probability of that.

    All methods share their standard normal noise.
    """
    noise, on_eigenvalue = draw_noise(len(problem.cross), 1, rng), float(rng.standard_normal())
    rules = [thesis.EigenvalueRidge(problem, gamma) for gamma in GAMMAS]
    weights = [
        np.linalg.lstsq(problem.gram, problem.cross, rcond=_SINGULAR)[0],
        thesis.ssp(problem, noise),
        thesis.const_ssp_full(problem, noise),
        thesis.joint(problem, noise, least_eigenvalue=least_eigenvalue),
        *(
            thesis.ada_ssp_budget(problem, noise, gamma, on_eigenvalue=on_eigenvalue)
            for gamma in GAMMAS
        ),
    ]
    without = [math.nan] * (len(METHODS) - len(GAMMAS))
    zeros = [float(rule.at(on_eigenvalue) == 0) for rule in rules]
    expected = [rule.probability_of_zero for rule in rules]
    return np.hstack(weights), np.array(without + zeros), np.array(without + expected)


def run_synthetic(task: Task) -> list[Row]:
    """Return the result of every method on each data set of a task."""
    n_people = int(task.setting["n"])
    rows: list[Row] = []
    for seed in task.seeds:
        data = synthetic_data(n_people, np.random.default_rng([seed, n_people]))
        rows += _run_one(task, seed, data)
    return rows


def run_table(task: Task) -> list[Row]:
    """Return the result of every method on a real table, for each run of 32 splits of a task."""
    data = real_table(str(task.setting["data"]))
    return [row for seed in task.seeds for row in _run_one(task, seed, data)]


def _run_one(task: Task, seed: int, data: DataSet) -> list[Row]:
    epsilon = float(task.setting["epsilon"])
    rng = np.random.default_rng([seed, len(data.rows), round(1000 * epsilon)])
    power = float(task.setting.get("power", _POWER))
    found = run_trials(data, epsilon, rng, power=power)
    return [{**task.setting, "seed": seed, **row} for row in found]


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


def _draw_wangs(y: str, x: str, by: str, rows: pd.DataFrame, path: Path) -> None:
    """Draw SSP and adaSSP, which is adaSSPbudget at a third."""
    ada_ssp = np.isclose(rows.gamma, papers.ADASSP_EIGENVALUE_SHARE)
    named = rows.assign(method=rows.method.mask(ada_ssp, "adaSSP"))
    panels = [
        Panel(own, x, y, _WANGS_METHODS, f"{by} = {group}", ("log", "log"))
        for group, own in named.groupby(by, sort=False)
    ]
    draw([panels[start : start + 2] for start in range(0, len(panels), 2)], path)


FIGURES = {
    "thesis-1": PaperFigure(
        "Thesis, Figure 1: prediction error of SSP and adaSSP on real tables against epsilon",
        tuple(
            {"data": name, "epsilon": e, "power": _WANGS_POWER}
            for name in _WANGS_TABLES
            for e in _WANGS_EPSILONS
        ),
        run_table,
        partial(_draw_wangs, "prediction", "epsilon", "data"),
        repetitions=20,
        quick_settings=tuple(
            {"data": "yacht", "epsilon": e, "power": _WANGS_POWER} for e in _WANGS_EPSILONS
        ),
    ),
    "thesis-2": PaperFigure(
        "Thesis, Figure 2: relative efficiency of SSP and adaSSP on synthetic data against n",
        tuple(
            {"n": n, "epsilon": e, "power": _WANGS_POWER} for e in (0.1, 1.0) for n in _WANGS_SIZES
        ),
        run_synthetic,
        partial(_draw_wangs, "efficiency", "n", "epsilon"),
        repetitions=20,
        quick_settings=tuple(
            {"n": n, "epsilon": 1.0, "power": _WANGS_POWER} for n in _WANGS_SIZES[:3]
        ),
    ),
    **{
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
    },
    "thesis-6": PaperFigure(
        "Thesis, Figure 6: prediction error on real tables against gamma",
        tuple({"data": name, "epsilon": e} for name in _TABLES for e in EPSILONS),
        run_table,
        _curves_of("prediction", "data"),
        repetitions=_REPETITIONS,
    ),
}
