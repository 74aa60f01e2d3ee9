"""Fits of one cohort by the product's methods and by those they are compared with.

All private fits of a cohort keep one promise (epsilon, delta) for one person's row with all
outcomes, under replace-one, except where a name says otherwise. Scales that the product takes from
public knowledge (quantiles of row norms, standard deviations, bounds of values) are those of the
simulated cohort, for every method alike.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
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
from experiments.reproduction import Row
from primo_scale.gaussian.calibration import mu_for
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.privacy.mechanism import Promise

Fits = dict[str, Callable[[], Float64 | Fitted]]

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
class Trial:
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


def non_private(trial: Trial, heritability: float) -> Fits:
    """Return OLS, and ridge regression with the penalty of effects of a known variance."""
    left = (1 - heritability) / heritability
    penalty = left * float(np.trace(trial.cohort.gram)) / trial.cohort.n
    return {
        "OLS": partial(published.least_squares, trial.cohort),
        "ridge": partial(published.ridge, trial.cohort, penalty),
    }


def naive(trial: Trial) -> Fits:
    """Return the product of one private regression for each outcome, with an oracle's ridge."""
    promise = (trial.epsilon, trial.delta)
    noise = (trial.draws("cross"), *promise, trial.rng("gram"))
    return {"naive": partial(published.naive, trial.cohort, *noise)}


def product(trial: Trial) -> Fits:
    """Return the product's default methods for its three privacy units."""
    return {f"{unit.value} DP": partial(_product, trial, unit) for unit in PrivacyUnit}


def _product(trial: Trial, unit: PrivacyUnit) -> Float64:
    promise = Promise(trial.epsilon, trial.delta, unit)
    feature = unit is PrivacyUnit.FEATURE
    bound = None if feature else ours.planned_phenotype_bound(trial.cohort, promise)
    draws = trial.draws("product")
    noisy = ours.release(trial.cohort, draws, promise, phenotype_bound=bound)
    method = "reuse-cov-proj-y" if feature else "reuse-cov-gauss"
    return product_weights(noisy, trial.cohort, ESTIMATORS["known-noise"], method=method)


def by_dp_sgd(trial: Trial, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> Fits:
    """Return DP-SGD for each point of the grid."""
    X, Y = trial.cohort.haplotypes, trial.cohort.phenotypes
    name = "DP-SGD" if adjacency is Adjacency.REPLACE_ONE else "DP-SGD (add-remove)"
    fits: Fits = {}
    for training in TRAININGS:
        steps = training.steps * Y.shape[1]
        z = noise_multiplier(trial.epsilon, trial.delta, n_steps=steps, adjacency=adjacency)
        fits[f"{name}, {training}"] = partial(dp_sgd, X, Y, training, z, trial.rng(str(training)))
    return fits


def by_opacus(trial: Trial) -> Fits:
    """Return DP-SGD by Opacus, with the noise that its accountant states."""
    X, Y = trial.cohort.haplotypes, trial.cohort.phenotypes
    fits: Fits = {}
    for training in _OPACUS_TRAININGS:
        clip, rate = training.absolute(X, Y)
        inputs = {"X": X, "Y": Y, "steps": training.steps, "clip": clip, "rate": rate}
        promise = {"epsilon": trial.epsilon, "delta": trial.delta, "seed": trial.seed}
        fits[f"Opacus (add-remove), {training}"] = partial(
            fit_by, "opacus_dp_sgd", **inputs, **promise
        )
    return fits


def by_diffprivlib(trial: Trial) -> Fits:
    """Return diffprivlib's LinearRegression, one fit for all outcomes at (epsilon, 0)."""
    cohort = trial.cohort
    inputs = {"X": cohort.haplotypes, "Y": cohort.phenotypes, "x_bounds": trial.x_bounds}
    others = {"y_bound": trial.y_bound, "epsilon": trial.epsilon, "seed": trial.seed}
    return {"diffprivlib": partial(fit_by, "diffprivlib_regression", **inputs, **others)}


def by_parties(trial: Trial) -> Fits:
    """Return RMGM-OLS for two numbers of mixtures: the genotypes and outcomes are two parties'.

    The noise keeps the promise for a person, who is at both parties (docs/maths/parties.md).
    """
    return {f"RMGM, k x {factor}": partial(_by_parties, trial, factor) for factor in (1, 4)}


def _by_parties(trial: Trial, factor: int) -> Float64:
    cohort, bounds = trial.cohort, trial.x_bounds
    rows = np.hstack([cohort.haplotypes / bounds, cohort.phenotypes / trial.y_bound]).clip(-1, 1)
    n, width = rows.shape
    sd = 2 * math.sqrt(width) / mu_for(trial.epsilon, trial.delta)
    balanced = n * float((rows**2).mean()) / sd**2
    k = factor * max(round(balanced), 2 * width)
    gram, d = mixed_gram(rows, sd, k, trial.rng("parties")), len(bounds)
    weights = np.linalg.solve(gram[:d, :d], gram[:d, d:])
    return np.asarray(weights * (trial.y_bound / bounds[:, None]))


def measured(fits: Fits, score: Callable[[Float64], float]) -> Iterator[Row]:
    """Yield the R^2 and the processor time of every fit."""
    for method, fit in fits.items():
        start = time.process_time()
        found = fit()
        if not isinstance(found, Fitted):
            found = Fitted(found, time.process_time() - start)
        yield {"method": method, "R^2": score(found.weights), "CPU s": found.cpu_seconds}


def best_of_grids(rows: pd.DataFrame, setting: list[str]) -> pd.DataFrame:
    """Keep, for each setting and method, the hyperparameters with the best mean R^2.

    A method's hyperparameters are what follows the comma of its name; they are left out of it.
    """
    rows = rows.assign(family=rows.method.str.split(",").str[0])
    keys = [*setting, "family"]
    best = rows.groupby([*keys, "method"])["R^2"].mean().groupby(keys).idxmax()
    kept = rows.set_index([*keys, "method"]).loc[best].reset_index()
    return kept.assign(method=kept.family)
