"""Figure 6 of PRIMO: DP-SGD against ReuseCov on images, for few outcomes.

scikit-learn's digits (1,797 images of 8 x 8 pixels) stand for MNIST, unless the environment's MNIST
is the path of its file train-images-idx3-ubyte, or the .gz of it. The paper does not state the
noise of its linear model or the hyperparameters. Here the weights of each outcome have norm 1, the
noise has the variance of the signal, and the hyperparameters of DP-SGD are the best of a grid.
"""

from __future__ import annotations

import gzip
import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import published_methods as published
from experiments.baselines import (
    Fits,
    Repetition,
    best_of_grids,
    by_dp_sgd,
    by_opacus,
    naive,
    product,
    run_fits,
)
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Float64
from experiments.haplotypes import Cohort, centred, cohort_of
from experiments.other_libraries import INSTALLED, WITHOUT
from experiments.reproduction import PaperFigure, Setting
from primo_scale.gaussian.sensitivity import Adjacency

_OUTCOMES = (1, 11, 101)
_N_IMAGES = 5000  # of MNIST
METHODS = (
    "OLS",
    "DP-SGD",
    "DP-SGD (add-remove)",
    "Opacus (add-remove)",
    "full DP",
    "naive",
    "ReuseCovGauss as printed",
    "ReuseCovProj_X as printed",
)


def read_idx_images(path: Path) -> Float64:
    """Return the images of an IDX file, such as MNIST's, within [0, 1], shape (n, pixels)."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        _, n_images, *_ = np.frombuffer(file.read(16), ">i4")
        return np.frombuffer(file.read(), np.uint8).reshape(n_images, -1) / 255


def images(data: str, rng: np.random.Generator) -> Float64:
    """Return the images of one repetition, within [0, 1]."""
    if data == "mnist":
        every = read_idx_images(Path(os.environ["MNIST"]))
        return every[rng.choice(len(every), _N_IMAGES, replace=False)]
    from sklearn.datasets import load_digits  # a dependency of the tests

    return np.asarray(load_digits().data / 16)


def image_cohort(setting: Setting, rng: np.random.Generator) -> tuple[Cohort, Cohort]:
    """Draw the outcomes of one repetition, in whose people methods are fitted and scored."""
    X = centred(images(str(setting["data"]), rng))
    weights = rng.standard_normal((X.shape[1], int(setting["l"])))
    signal = X @ (weights / np.linalg.norm(weights, axis=0))
    Y = centred(signal + signal.std() * rng.standard_normal(signal.shape))
    cohort = cohort_of(X, lambda: [(X, Y)])
    return cohort, cohort


def fits_here(repetition: Repetition) -> Fits:
    """Return the methods that need no other environment."""
    cohort = repetition.cohort
    noise = published.printed_noise(cohort, repetition.epsilon, repetition.delta)
    draws = repetition.draws("printed")
    radius = float(np.sqrt(cohort.phenotypes.size)) * noise.largest_value
    return {
        "OLS": partial(published.least_squares, cohort),
        "full DP": product(repetition)["full DP"],
        **naive(repetition),
        **by_dp_sgd(repetition),
        **by_dp_sgd(repetition, Adjacency.ADD_REMOVE),
        "ReuseCovGauss as printed": partial(published.algorithm_1, cohort, draws, noise),
        "ReuseCovProj_X as printed": partial(
            published.projection_x, cohort, draws, noise, radius=radius
        ),
    }


run = partial(run_fits, cohorts=image_cohort, fits_by={"here": fits_here, "Opacus": by_opacus})


def draw_figure(rows: pd.DataFrame, path: Path) -> None:
    """Draw R^2 against the number of outcomes, at the best hyperparameters."""
    best = best_of_grids(rows, ["data", "l"])
    draw([[Panel(best, "l", "R^2", METHODS, best.data[0], y_limits=(-1, 0.6))]], path)


_DATA = "mnist" if "MNIST" in os.environ else "digits"
_LIBRARIES = ("here", "Opacus") if INSTALLED else ("here",)

FIGURES = {
    "primo-6": PaperFigure(
        f"PRIMO, Figure 6: DP-SGD against ReuseCov on {_DATA}{WITHOUT}",
        tuple({"data": _DATA, "l": count, "by": by} for count in _OUTCOMES for by in _LIBRARIES),
        run,
        draw_figure,
        repetitions=5,
        quick_settings=tuple({"data": _DATA, "l": count, "by": "here"} for count in _OUTCOMES[:2]),
    )
}
