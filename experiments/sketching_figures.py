"""Iterative Hessian Mixing and BoostedAdaSSP beside AdaSSP, SSP, DP-SGD and the product.

The data are the papers' real tables (90% of the rows for the methods, and R^2 in the rest), and
groups of five correlated features (r = .7 within a group), such as public scores of related traits,
with effects that explain .3 of each outcome; R^2 is then measured in fresh people. Neighbours
differ by one added person; delta is ``1/n^2``. Public are the standard deviation of the outcomes
and the 99% quantile of the norms of feature rows, to which rows are clipped.

Each method has its best hyperparameters by the R^2 shown, at no cost of privacy. The product has
none.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import product_methods as ours
from experiments import sketching, thesis
from experiments.baselines import TRAININGS, Fits, best_of_grids
from experiments.dp_sgd import dp_sgd, noise_multiplier
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Float64
from experiments.gaussian_noise import draw as draw_noise
from experiments.haplotypes import Cohort, cohort_of
from experiments.product_weights import product_weights
from experiments.reproduction import PaperFigure, Row, Setting, Task
from experiments.thesis_figures import real_table
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.privacy.mechanism import Promise

METHODS = ("product", "DP-SGD", "IHM", "BoostedAdaSSP", "AdaSSP", "AdaSSP printed", "SSP")
TABLES = ("wine", "yacht", "airfoil", "insurance", "bike")
_SIZES = ((25, 1), (250, 1), (2500, 1), (25, 10), (25, 100), (250, 10), (250, 100))  # K and l
_EPSILONS = (1.0, 5.0)
_PEOPLE, _FRESH = 20_000, 5_000
_GROUP, _CORRELATION, _EXPLAINED = 5, 0.7, 0.3
_QUANTILE = 0.99
_CLIPS = (1.0, 3.0)  # standard deviations of an outcome times sqrt(l)
AUTHORS = sketching.Mixing(3, 6)
_MIXINGS = tuple(sketching.Mixing(rounds, factor) for rounds in (1, 3, 6) for factor in (6, 20))
_ROUNDS = (3, 10, 30)
_LARGE = 1000  # features from which on grids are smaller
_noise_of = lru_cache(sketching.mixing_noise)


def cohorts(setting: Setting, rng: np.random.Generator) -> tuple[Cohort, Cohort]:
    """Draw the people of the methods, and those in whom they are scored."""
    name = str(setting["data"])
    if name != "features":
        rows = rng.permutation(real_table(name).rows)
        n_own = int(0.9 * len(rows))
        return _cohort(rows[:n_own, :-1], rows[:n_own, -1:]), _cohort(
            rows[n_own:, :-1], rows[n_own:, -1:]
        )
    size, count, n_people = int(setting["K"]), int(setting["l"]), _PEOPLE + _FRESH
    X = rng.standard_normal((n_people, size)) * math.sqrt(1 - _CORRELATION)
    common = rng.standard_normal((n_people, size // _GROUP)) * math.sqrt(_CORRELATION)
    X += np.repeat(common, _GROUP, axis=1)
    signal = X @ rng.standard_normal((size, count))
    signal *= math.sqrt(_EXPLAINED) / signal.std(axis=0)
    Y = signal + math.sqrt(1 - _EXPLAINED) * rng.standard_normal(signal.shape)
    return _cohort(X[:_PEOPLE], Y[:_PEOPLE]), _cohort(X[_PEOPLE:], Y[_PEOPLE:])


def _cohort(X: Float64, Y: Float64) -> Cohort:
    return cohort_of(X, lambda: [(X, Y)])


def fits_of(cohort: Cohort, epsilon: float, seed: int) -> Fits:
    """Return the fits of a cohort by ``method, hyperparameters``."""
    delta, (size, count) = float(cohort.n**-2.0), cohort.cross.shape
    norms = np.linalg.norm(cohort.haplotypes, axis=1)
    bound = float(np.quantile(norms, _QUANTILE))
    X = cohort.haplotypes / np.maximum(norms, bound)[:, None]
    Y, scale = cohort.phenotypes, cohort.phenotype_sd * math.sqrt(count)
    gram = X.T @ X
    large = size >= _LARGE

    def rng(name: str) -> np.random.Generator:
        return np.random.default_rng([seed, *name.encode()])

    def of_sums(function: object, clip: float) -> Float64:
        cross = X.T @ np.clip(Y, -clip, clip)
        problem = thesis.Problem(gram, cross, clip, epsilon, delta)
        draws = draw_noise(size, count, rng("sums"))
        if function is thesis.ssp:
            return thesis.ssp(problem, draws) / bound
        normal = float(rng("eigenvalue").standard_normal())
        return thesis.ada_ssp_budget(problem, draws, 1 / 3, on_eigenvalue=normal) / bound

    def mixed(mixing: sketching.Mixing, clip: float) -> Float64:
        k = mixing.sketch_rows(size, delta)
        noise = _noise_of(epsilon, delta, rounds=mixing.rounds, sketch_rows=k)
        own = rng(f"{mixing}")
        return sketching.iterative_mixing(X, Y, clip, noise, mixing, k, own, gram) / bound

    def boosted(rounds: int, clip: float) -> Float64:
        own = rng(f"boosted {rounds}")
        draws = draw_noise(size, count, rng("sums"))
        return (
            sketching.boosted_ada_ssp(X, Y, clip, (epsilon, delta), rounds, draws, own, gram)
            / bound
        )

    def product() -> Float64:
        promise = Promise(epsilon, delta, PrivacyUnit.FULL, adjacency=Adjacency.ADD_REMOVE)
        clip = ours.planned_phenotype_bound(cohort, promise)
        draws = draw_noise(size, count, rng("sums"))
        noisy = ours.release(cohort, draws, promise, phenotype_bound=clip)
        return product_weights(noisy, cohort, ESTIMATORS["known-noise"])

    def descended(number: int) -> Float64:
        training = TRAININGS[number]
        z = noise_multiplier(epsilon, delta, n_steps=training.steps, adjacency=Adjacency.ADD_REMOVE)
        return dp_sgd(X, Y, training, z, rng(f"{training}")) / bound

    fits: Fits = {
        "OLS": lambda: np.asarray(np.linalg.lstsq(cohort.gram, cohort.cross, rcond=1e-10)[0]),
        "product": product,
    }
    for in_sds in _CLIPS:
        clip, named = in_sds * scale, f"C = {in_sds:g}"
        if count == 1:
            fits[f"SSP, {named}"] = partial(of_sums, thesis.ssp, clip)
            fits[f"AdaSSP printed, {named}"] = partial(of_sums, None, clip)
        fits[f"AdaSSP, {named}"] = partial(boosted, 1, clip)
        for rounds in _ROUNDS:
            fits[f"BoostedAdaSSP, {named} T = {rounds}"] = partial(boosted, rounds, clip)
        mixings = (AUTHORS, sketching.Mixing(1, 6)) if large else _MIXINGS
        for mixing in mixings:
            fits[f"IHM, {named} {mixing}"] = partial(mixed, mixing, clip)
    fits["IHM (authors' point)"] = partial(mixed, AUTHORS, _CLIPS[-1] * scale)
    for number, training in enumerate(TRAININGS):
        if training.steps <= (10 if large or count > 10 else 100):
            fits[f"DP-SGD, {training}"] = partial(descended, number)
    return fits


def run(task: Task) -> list[Row]:
    """Return R^2 of every fit of a task."""
    rows: list[Row] = []
    for seed in task.seeds:
        sizes = int(task.setting["K"]), int(task.setting["l"])
        key = [seed, *str(task.setting["data"]).encode(), *sizes]
        cohort, scored = cohorts(task.setting, np.random.default_rng(key))
        for epsilon in _EPSILONS:
            for method, fit in fits_of(cohort, epsilon, seed).items():
                found = fit()
                assert isinstance(found, np.ndarray)
                score = scored.pooled_r_squared(found)
                of_row: Row = {"epsilon": epsilon, "seed": seed, "method": method, "R^2": score}
                rows.append({**task.setting, **of_row})
    return rows


def best(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the best hyperparameters of each method for each data set and epsilon."""
    return best_of_grids(rows, ["data", "K", "l", "epsilon"])


def draw_figure(rows: pd.DataFrame, path: Path) -> None:
    """Draw R^2 for correlated features against their number."""
    kept = best(rows[(rows.data == "features") & (rows.l == 1)])
    panels = [
        Panel(own, "K", "R^2", ("OLS", *METHODS), f"epsilon = {epsilon:g}", y_limits=(-0.1, 0.32))
        for epsilon, own in kept.groupby("epsilon")
    ]
    draw([panels], path)


def _settings(names: tuple[str, ...], sizes: tuple[tuple[int, int], ...]) -> tuple[Row, ...]:
    tables: list[Row] = [{"data": name, "K": 0, "l": 1} for name in names]
    features: list[Row] = [{"data": "features", "K": size, "l": count} for size, count in sizes]
    return (*tables, *features)


FIGURES = {
    "sketching": PaperFigure(
        "Iterative Hessian Mixing and BoostedAdaSSP on real tables and correlated features",
        _settings(TABLES, _SIZES),
        run,
        draw_figure,
        repetitions=5,
        quick_settings=_settings(("yacht",), ((25, 1),)),
        quick_repetitions=2,
        seeds_per_task=1,
    )
}
