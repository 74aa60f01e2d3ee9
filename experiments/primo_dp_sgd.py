"""PRIMO's haplotypes with up to 100,000 outcomes: DP-SGD, and the algorithms with public bounds.

An early form of the paper states that DP-SGD is worse than its algorithms there. All outcomes share
the budget, so that the noise of an outcome depends on their number l, and its accuracy on l through
that noise alone: DP-SGD is run for the first outcomes of a cohort with the noise for all l. Its
hyperparameters are those of `experiments.baselines`, and three with smaller steps.

Public bounds are the 99% quantile of row norms, which the product uses as well, and three standard
deviations of an outcome. Rows and outcomes are clipped to them. The algorithms are as printed
otherwise.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import published_methods as published
from experiments.baselines import EPSILON, TRAININGS, best_of_grids
from experiments.dp_sgd import Training, dp_sgd, noise_multiplier
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Draws, Float64
from experiments.gaussian_noise import draw as draw_noise
from experiments.haplotypes import Cohort, cohort_of
from experiments.papers_constants import primo_algorithm_1
from experiments.primo_cohorts import draw_cohort
from experiments.primo_methods import METHODS, Trial
from experiments.reproduction import PaperFigure, Row, Task
from primo_scale.gaussian.sensitivity import Adjacency

_QUANTILE = 0.99
_Y_BOUND = 3.0  # standard deviations
_MOST_OUTCOMES = 200  # of DP-SGD
_TRAININGS = (
    *TRAININGS,
    Training(3, 0.25, 0.2),
    *(Training(10, 0.25, rate) for rate in (0.05, 0.01)),
)
_OUTCOMES = (1, 11, 101, 1001, 10_000, 100_000)
_WITH_TRIALS = ("OLS", "ReuseCovGauss as printed", "ReuseCovProj_X as printed")
_PRODUCT = "product: full privacy"
GAUSS = "ReuseCovGauss with public bounds"
PROJ_X = "ReuseCovProj_X with public bounds"
SMALL_RADIUS = f"{PROJ_X} and radius without sqrt(l)"


def by_public_bounds(cohort: Cohort, draws: Draws, delta: float) -> dict[str, Float64]:
    """Return the weights of the printed algorithms on rows clipped to public bounds."""
    largest = _Y_BOUND * cohort.phenotype_sd
    row_bound = float(np.quantile(np.linalg.norm(cohort.haplotypes, axis=1), _QUANTILE))
    clipped = _clipped(cohort, row_bound, largest)
    scales = primo_algorithm_1(EPSILON, delta)
    root = math.sqrt(cohort.cross.shape[1])
    noise = published.PrintedNoise(
        largest,
        gram=scales.gram * row_bound**2,
        cross=scales.cross * row_bound * root * largest,
    )
    radius = math.sqrt(cohort.n) * largest
    project = partial(published.projection_x, clipped, draws, noise)
    return {
        GAUSS: published.algorithm_1(clipped, draws, noise),
        PROJ_X: project(radius=root * radius),
        SMALL_RADIUS: project(radius=radius),
    }


def _clipped(cohort: Cohort, row_bound: float, largest: float) -> Cohort:
    def shortened(X: Float64) -> Float64:
        factors = np.minimum(1, row_bound / np.linalg.norm(X, axis=1))
        return np.asarray(X * factors[:, None], np.float64)

    return cohort_of(
        shortened(cohort.haplotypes),
        lambda: ((shortened(X), np.clip(Y, -largest, largest)) for X, Y in cohort.parts()),
    )


def by_dp_sgd(cohort: Cohort, delta: float, seed: int) -> list[Row]:
    """Return R^2 of the first outcomes for each point of the grid, with the noise for all."""
    n_outcomes = cohort.cross.shape[1]
    X = cohort.haplotypes
    Y = np.vstack([part[:, :_MOST_OUTCOMES] for _, part in cohort.parts()])
    first = cohort_of(X, lambda: [(X, Y)])
    rows: list[Row] = []
    for training in _TRAININGS:
        steps = training.steps * n_outcomes
        z = noise_multiplier(EPSILON, delta, n_steps=steps, adjacency=Adjacency.REPLACE_ONE)
        rng = np.random.default_rng([seed, *str(training).encode()])
        weights = dp_sgd(X, Y, training, z, rng)
        score = first.pooled_r_squared(weights)
        rows.append({"method": f"DP-SGD, {training}", "R^2": score})
    return rows


def run(task: Task) -> list[Row]:
    """Return R^2 of every method on the cohorts of a task."""
    n_outcomes = int(task.setting["l"])
    rows: list[Row] = []
    for seed in task.seeds:
        cohort = draw_cohort(task.setting, seed)
        rng = np.random.default_rng([seed, n_outcomes])
        trial = Trial(cohort, draw_noise(len(cohort.gram), n_outcomes, rng))
        fitted = {name: METHODS[name](trial) for name in (*_WITH_TRIALS, _PRODUCT)}
        fitted |= by_public_bounds(cohort, trial.draws, trial.delta)
        found: list[Row] = [
            {"method": name, "R^2": cohort.pooled_r_squared(weights)}
            for name, weights in fitted.items()
        ]
        found += by_dp_sgd(cohort, trial.delta, seed)
        rows += [{**task.setting, "seed": seed, **row} for row in found]
    return rows


def draw_figure(rows: pd.DataFrame, path: Path) -> None:
    """Draw R^2 against l, DP-SGD at its best hyperparameters for each l."""
    best = best_of_grids(rows, ["features", "l"])
    methods = [name for name in best.method.unique() if name != "OLS"]
    panels = [
        Panel(best, "l", "R^2", ["OLS", *methods], y_limits=limits)
        for limits in ((-0.05, 0.4), (-40, 1))
    ]
    draw([panels], path)


def settings(counts: tuple[int, ...]) -> tuple[dict[str, float | int | str], ...]:
    """Return settings of haplotypes for numbers of outcomes."""
    return tuple(
        {"features": "haplotypes", "outcomes": "linear", "n": 5008, "l": count} for count in counts
    )


FIGURES = {
    "primo-dp-sgd": PaperFigure(
        "PRIMO: DP-SGD and public bounds on haplotypes for up to 100,000 outcomes",
        settings(_OUTCOMES),
        run,
        draw_figure,
        repetitions=5,
        quick_settings=settings((1, 101)),
        quick_repetitions=2,
        seeds_per_task=1,
    )
}
