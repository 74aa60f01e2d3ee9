"""All methods on the same cohorts at the same promise for a person, scored in fresh people.

Genotypes are pairs of the unlinked haplotypes of `experiments.haplotypes`, centred; effects are
normal, and every outcome has heritability 0.3. Each repetition draws 20,000 people for the methods,
and 5,000 more for R^2.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.baselines import (
    Fits,
    Repetition,
    best_of_grids,
    by_diffprivlib,
    by_dp_sgd,
    by_parties,
    naive,
    non_private,
    product,
    run_fits,
)
from experiments.figure_drawing import Panel, draw
from experiments.haplotypes import Cohort, cohort_of, simulate
from experiments.other_libraries import INSTALLED, WITHOUT
from experiments.reproduction import PaperFigure, Setting

N_PEOPLE, N_FRESH = 20_000, 5_000
_OWN, _FRESH = slice(N_PEOPLE), slice(N_PEOPLE, None)
_HERITABILITY = 0.3
_VARIANTS, _OUTCOMES = (5, 25, 200), (1, 10, 100)
_AXES, _LIMITS = ("log", "log"), (1e-4, 1.0)
METHODS = ("label DP", "full DP", "feature DP", "DP-SGD", "naive", "RMGM", "diffprivlib")


def cohorts(setting: Setting, rng: np.random.Generator) -> tuple[Cohort, Cohort]:
    """Draw the cohort of one repetition, and fresh people with the same effects."""
    d, n_outcomes = int(setting["d"]), int(setting["l"])
    haplotypes = simulate(2 * (N_PEOPLE + N_FRESH), d, 1, rng).haplotypes
    X = haplotypes[0::2] + haplotypes[1::2]
    effects = rng.standard_normal((d, n_outcomes)) * math.sqrt(_HERITABILITY / X.var(axis=0).sum())
    Y = X @ effects + math.sqrt(1 - _HERITABILITY) * rng.standard_normal((len(X), n_outcomes))
    own, fresh = ((X[part], Y[part]) for part in (_OWN, _FRESH))
    return cohort_of(own[0], lambda: [own]), cohort_of(fresh[0], lambda: [fresh])


def fits_here(repetition: Repetition) -> Fits:
    """Return the methods that need no other environment."""
    plain = non_private(repetition, _HERITABILITY)
    released = product(repetition) | naive(repetition)
    return plain | released | by_parties(repetition) | by_dp_sgd(repetition)


run = partial(run_fits, cohorts=cohorts, fits_by={"here": fits_here, "diffprivlib": by_diffprivlib})


def draw_figure(rows: pd.DataFrame, path: Path) -> None:
    """Draw the loss of R^2 against OLS in the same repetition, at the best hyperparameters."""
    best, repetition = best_of_grids(rows, ["d", "l"]), ["d", "l", "seed"]
    reached = best[best.method == "OLS"].set_index(repetition)["R^2"].rename("OLS")
    best["loss of R^2"] = best.join(reached, on=repetition)["OLS"] - best["R^2"]
    panels = [
        Panel(own, "l", "loss of R^2", METHODS, f"d = {d}", _AXES, _LIMITS)
        for d, own in best.groupby("d")
    ]
    draw([panels], path)


_LIBRARIES = ("here", "diffprivlib") if INSTALLED else ("here",)

FIGURES = {
    "side-by-side": PaperFigure(
        f"Every method on the same cohorts, scored in fresh people{WITHOUT}",
        tuple(
            {"d": d, "l": count, "by": by}
            for d in _VARIANTS
            for count in _OUTCOMES
            for by in _LIBRARIES
        ),
        run,
        draw_figure,
        repetitions=5,
        quick_settings=tuple({"d": 25, "l": count, "by": "here"} for count in _OUTCOMES[:2]),
    )
}
