"""Fits of one cohort by the product's methods and by those they are compared with.

All private fits of a cohort keep one promise (epsilon, delta) for one person's row with all
outcomes, under replace-one, except where a name says otherwise. Scales that the product takes from
public knowledge (quantiles of row norms, standard deviations, bounds of values) are those of the
simulated cohort, for every method alike.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from experiments import product_methods as ours
from experiments import published_methods as published
from experiments.dp_sgd import Training, dp_sgd, noise_multiplier
from experiments.gaussian_noise import Draws, Float64, draw
from experiments.haplotypes import Cohort
from experiments.multi_party import mixed_gram
from experiments.other_libraries import Fitted, fit_by
from experiments.product_weights import product_weights
from experiments.reproduction import Row, Setting, Task
from primo_scale.gaussian.calibration import mu_for
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.privacy.mechanism import Promise

Fits = dict[str, Callable[[], Float64 | Fitted]]

EPSILON = 5.0
TRAININGS = (
    *(Training(10, clip, rate) for clip in (0.25, 0.5) for rate in (0.2, 0.4)),
    *(Training(30, clip, rate) for clip in (0.25, 0.5, 1.0) for rate in (0.1, 0.2, 0.4)),
    *(Training(100, clip, 0.2) for clip in (0.25, 0.5, 1.0)),
)
"""Grid of DP-SGD. Figures show the point with the best mean R^2, at no cost of privacy."""

# Opacus loops over the outcomes, so it runs three points only.
_OPACUS_TRAININGS = tuple(Training(steps, 0.25, 0.2) for steps in (10, 30, 100))
_Y_BOUND = 3.0  # standard deviations


@dataclass(frozen=True, eq=False)
class Repetition:
    """One repetition: a cohort, the promise for it, and the seed of all noise."""

    cohort: Cohort
    epsilon: float
    delta: float
    seed: int

    def rng(self, name: str) -> np.random.Generator:
        """Return the generator of one method, so that methods can run in any order."""
        return np.random.default_rng([self.seed, *name.encode()])

    def draws(self, name: str) -> Draws:
        """Return the noise of one method on sums of products."""
        n_features, n_outcomes = self.cohort.cross.shape
        return draw(n_features, n_outcomes, self.rng(name))

    @property
    def x_bounds(self) -> Float64:
        """Bounds on the magnitude of each feature, shape (d,); 1 for a constant one."""
        largest = np.abs(self.cohort.haplotypes).max(axis=0)
        return np.where(largest > 0, largest, 1.0)

    @property
    def y_bound(self) -> float:
        """Bound on the magnitude of an outcome, for methods that need one."""
        return _Y_BOUND * self.cohort.phenotype_sd


def non_private(repetition: Repetition, heritability: float) -> Fits:
    """Return OLS, and ridge regression with the penalty of effects of a known variance."""
    left = (1 - heritability) / heritability
    penalty = left * float(np.trace(repetition.cohort.gram)) / repetition.cohort.n
    return {
        "OLS": partial(published.least_squares, repetition.cohort),
        "ridge": partial(published.ridge, repetition.cohort, penalty),
    }


def naive(repetition: Repetition) -> Fits:
    """Return the product of one private regression for each outcome, with an oracle's ridge."""
    promise = (repetition.epsilon, repetition.delta)
    noise = (repetition.draws("cross"), *promise, repetition.rng("gram"))
    return {"naive": partial(published.naive, repetition.cohort, *noise)}


def product(repetition: Repetition) -> Fits:
    """Return the product's default methods for its three privacy units."""
    return {f"{unit.value} DP": partial(_product, repetition, unit) for unit in PrivacyUnit}


def _product(repetition: Repetition, unit: PrivacyUnit) -> Float64:
    promise = Promise(repetition.epsilon, repetition.delta, unit)
    feature = unit is PrivacyUnit.FEATURE
    bound = None if feature else ours.planned_phenotype_bound(repetition.cohort, promise)
    draws = repetition.draws("product")
    noisy = ours.release(repetition.cohort, draws, promise, phenotype_bound=bound)
    method = "reuse-cov-proj-y" if feature else "reuse-cov-gauss"
    return product_weights(noisy, repetition.cohort, ESTIMATORS["known-noise"], method=method)


def by_dp_sgd(repetition: Repetition, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> Fits:
    """Return DP-SGD for each point of the grid."""
    X, Y = repetition.cohort.haplotypes, repetition.cohort.phenotypes
    name = "DP-SGD" if adjacency is Adjacency.REPLACE_ONE else "DP-SGD (add-remove)"
    fits: Fits = {}
    for training in TRAININGS:
        steps = training.steps * Y.shape[1]
        z = noise_multiplier(
            repetition.epsilon, repetition.delta, n_steps=steps, adjacency=adjacency
        )
        fits[f"{name}, {training}"] = partial(
            dp_sgd, X, Y, training, z, repetition.rng(str(training))
        )
    return fits


def by_opacus(repetition: Repetition) -> Fits:
    """Return DP-SGD by Opacus, with the noise that its accountant states."""
    X, Y = repetition.cohort.haplotypes, repetition.cohort.phenotypes
    promise = {"epsilon": repetition.epsilon, "delta": repetition.delta, "seed": repetition.seed}
    fits: Fits = {}
    for training in _OPACUS_TRAININGS:
        clip, rate = training.absolute(X, Y)
        inputs = {"X": X, "Y": Y, "steps": training.steps, "clip": clip, "rate": rate}
        fits[f"Opacus (add-remove), {training}"] = partial(
            fit_by, "opacus_dp_sgd", **inputs, **promise
        )
    return fits


def by_diffprivlib(repetition: Repetition) -> Fits:
    """Return diffprivlib's LinearRegression, one fit for all outcomes at (epsilon, 0)."""
    cohort = repetition.cohort
    inputs = {"X": cohort.haplotypes, "Y": cohort.phenotypes, "x_bounds": repetition.x_bounds}
    others = {"y_bound": repetition.y_bound, "epsilon": repetition.epsilon, "seed": repetition.seed}
    return {"diffprivlib": partial(fit_by, "diffprivlib_regression", **inputs, **others)}


def by_parties(repetition: Repetition) -> Fits:
    """Return RMGM-OLS for two numbers of mixtures: the genotypes and outcomes are two parties'.

    The noise keeps the promise for a person, who is at both parties (docs/maths/parties.md).
    """
    return {f"RMGM, k x {factor}": partial(_by_parties, repetition, factor) for factor in (1, 4)}


def _by_parties(repetition: Repetition, factor: int) -> Float64:
    cohort, bounds = repetition.cohort, repetition.x_bounds
    rows = np.hstack([cohort.haplotypes / bounds, cohort.phenotypes / repetition.y_bound]).clip(
        -1, 1
    )
    n, width = rows.shape
    sd = 2 * math.sqrt(width) / mu_for(repetition.epsilon, repetition.delta)
    balanced = n * float((rows**2).mean()) / sd**2
    k = factor * max(round(balanced), 2 * width)
    gram, d = mixed_gram(rows, sd, k, repetition.rng("parties")), len(bounds)
    weights = np.linalg.solve(gram[:d, :d], gram[:d, d:])
    return np.asarray(weights * (repetition.y_bound / bounds[:, None]))


def run_fits(
    task: Task,
    cohorts: Callable[[Setting, np.random.Generator], tuple[Cohort, Cohort]],
    fits_by: Mapping[str, Callable[[Repetition], Fits]],
) -> list[Row]:
    """Return the pooled R^2 and the processor time of every fit of a task.

    `cohorts` draws the people whom the methods see, and those in whom they are scored. `fits_by`
    are the methods by the name of the environment that they need.
    """
    rows: list[Row] = []
    sizes = [int(task.setting[name]) for name in ("d", "l") if name in task.setting]
    for seed in task.seeds:
        cohort, scored = cohorts(task.setting, np.random.default_rng([seed, *sizes]))
        repetition = Repetition(cohort, EPSILON, 1 / cohort.n**2, seed)
        for method, fit in fits_by[str(task.setting["by"])](repetition).items():
            start = time.process_time()
            found = fit()
            if not isinstance(found, Fitted):
                found = Fitted(found, time.process_time() - start)
            score = scored.pooled_r_squared(found.weights)
            result: Row = {"method": method, "R^2": score, "CPU s": found.cpu_seconds}
            rows.append({**task.setting, "seed": seed, **result})
    return rows


def best_of_grids(rows: pd.DataFrame, setting: list[str]) -> pd.DataFrame:
    """Keep, for each setting and method, the hyperparameters with the best mean R^2.

    A method's hyperparameters are what follows the comma of its name; they are left out of it.
    """
    rows = rows.assign(family=rows.method.str.split(",").str[0])
    keys = [*setting, "family"]
    best = rows.groupby([*keys, "method"])["R^2"].mean().groupby(keys).idxmax()
    kept = rows.set_index([*keys, "method"]).loc[best].reset_index()
    return kept.assign(method=kept.family)
