"""Figures 2 to 5 of PRIMO: accuracy against the number of outcomes l."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import draw as draw_noise
from experiments.primo_cohorts import draw_cohort
from experiments.primo_methods import METHODS, Trial
from experiments.reproduction import PaperFigure, Row, Setting, Task

_DATA = {"haplotypes": 5008, "genotypes": 6042}
_FEW = (1, 11, 101, 201, 401, 601, 801, 1001)
_MANY = (10_000, 100_000)
_LARGE_N = 500_000
_LARGE_N_OUTCOMES = (1, 10, 25, 100, 500, 1000, 5000)
_RATIO = "log loss ratio to OLS"


def run_accuracy(task: Task) -> list[Row]:
    """Return R^2 and the log of the loss ratio of every method on the cohorts of a task."""
    n_phenotypes = int(task.setting["l"])
    rows: list[Row] = []
    for seed in task.seeds:
        cohort = draw_cohort(task.setting, seed)
        rng = np.random.default_rng([seed, n_phenotypes])
        trial = Trial(cohort, draw_noise(len(cohort.gram), n_phenotypes, rng))
        fitted = {
            method: cohort.pooled_r_squared(weights(trial)) for method, weights in METHODS.items()
        }
        for method, r_squared in fitted.items():
            ratio = math.log((1 - r_squared) / (1 - fitted["OLS"]))
            accuracy: Row = {"method": method, "R^2": r_squared, _RATIO: ratio}
            rows.append({**task.setting, "seed": seed, **accuracy})
    return rows


def _private(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without those of OLS, whose ratio is 0."""
    return rows[rows.method != "OLS"]


def draw_figure_2(rows: pd.DataFrame, path: Path) -> None:
    """Draw R^2 against l: whole, at its upper end, and for many more outcomes."""
    panels = [
        [
            Panel(own[own.l <= largest], "l", "R^2", [*METHODS], title, scales, limits)
            for title, own in _by(rows, "features")
        ]
        for largest, scales, limits in (
            (_FEW[-1], ("linear", "linear"), (-2.0, 0.75)),
            (_FEW[-1], ("linear", "linear"), (-0.05, 0.75)),
            (math.inf, ("log", "linear"), (-0.05, 0.75)),
        )
    ]
    draw(panels, path)


def draw_figure_3(rows: pd.DataFrame, path: Path) -> None:
    """Draw the log of the loss ratio against l, up to the largest and to 1,001."""
    panels = [
        [
            Panel(own[own.l <= largest], "l", _RATIO, [*METHODS], title, (scale, "linear"))
            for title, own in _by(_private(rows), "features")
        ]
        for largest, scale in ((math.inf, "log"), (_FEW[-1], "linear"))
    ]
    draw(panels, path)


def draw_figure_4(rows: pd.DataFrame, path: Path) -> None:
    """Draw the log of the loss ratio and R^2 against l."""
    ratios = Panel(_private(rows), "l", _RATIO, [*METHODS], scales=("log", "log"))
    draw([[ratios, Panel(rows, "l", "R^2", [*METHODS])]], path)


def draw_figure_5(rows: pd.DataFrame, path: Path) -> None:
    """Draw the log of the loss ratio against l for each kind of outcomes."""
    panels = [
        Panel(own, "l", _RATIO, [*METHODS], title) for title, own in _by(_private(rows), "outcomes")
    ]
    draw([panels], path)


def _by(rows: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    return [
        (f"{name}, n = {own.n.iloc[0]:,}", own)
        for name, own in ((name, rows[rows[column] == name]) for name in rows[column].unique())
    ]


def _settings(
    features: str, n_people: int, counts: Sequence[int], outcomes: str = "linear"
) -> tuple[Setting, ...]:
    return tuple(
        {"features": features, "outcomes": outcomes, "n": n_people, "l": count} for count in counts
    )


def _of_both(counts: Sequence[int]) -> tuple[Setting, ...]:
    return tuple(setting for name, n in _DATA.items() for setting in _settings(name, n, counts))


_FIGURE_2 = PaperFigure(
    "PRIMO, Figure 2: R^2 against l",
    _of_both(_FEW + _MANY),
    run_accuracy,
    draw_figure_2,
    repetitions=10,
    quick_settings=_of_both((1, 101, 1001)),
    seeds_per_task=1,
    runs="primo-2",
)
FIGURES = {
    "primo-2": _FIGURE_2,
    "primo-3": replace(
        _FIGURE_2, title="PRIMO, Figure 3: log of the loss ratio against l", draw=draw_figure_3
    ),
    "primo-4": PaperFigure(
        "PRIMO, Figure 4: 500,000 people",
        _settings("genotypes", _LARGE_N, _LARGE_N_OUTCOMES),
        run_accuracy,
        draw_figure_4,
        repetitions=10,
        quick_settings=_settings("genotypes", 50_000, (1, 100, 1000)),
        seeds_per_task=1,
    ),
    "primo-5": PaperFigure(
        "PRIMO, Figure 5: linear outcomes and those of a network",
        tuple(
            setting
            for outcomes in ("linear", "perceptron")
            for setting in _settings("gaussian", 5000, (1, 11, 101), outcomes)
        ),
        run_accuracy,
        draw_figure_5,
        repetitions=5,
    ),
}
