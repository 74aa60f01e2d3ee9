"""Projections of noisy sums beside shrinkage, for many phenotypes and few features.

Features come in groups of five (r = .7 within a group), such as public scores of related traits;
phenotypes have effects that are independent, or mixtures of ten common factors, and .3 of their
variance is explained. R^2 is that of new people, exactly, from the true effects.

PRIMO's projections are those by Y'Y (feature privacy, Y is public), by X'X (label privacy, X is
public) and by the noisy X'X (full privacy); their radii are the true norms. Beside them:

* the nuclear-norm ball, which contains every X'Y of rows with these norms: its radius is
  ``||X||_F ||Y||_F``, or the true nuclear norm, which no release knows;
* positive semidefinite matrices (full privacy): the noisy Gram matrix of (x, k y), whose part Y'Y
  costs nothing (docs/maths/sensitivity.md, Theorem 2), also with the true trace.

Each projected X'Y is solved by ridge at the penalty with the best R^2, of a grid, and so is the
noisy X'Y without a projection; the product's estimators take no such help.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

from experiments import product_methods as ours
from experiments import product_weights as solved
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Float64, symmetric_upper
from experiments.gaussian_noise import draw as draw_noise
from experiments.haplotypes import Cohort, cohort_of
from experiments.reproduction import PaperFigure, Row, Task
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.methods.linear_algebra import floored_at_zero
from primo_scale.papers.estimators import ball_multiplier
from primo_scale.privacy.mechanism import Promise

_GROUP, _CORRELATION, _EXPLAINED, _FACTORS = 5, 0.7, 0.3, 10
_PEOPLE = 5008
_EPSILONS = (1.0, 5.0)
_PENALTIES = np.geomspace(1e-3, 1e3, 25)  # in units of the mean eigenvalue of X'X
_MOST_STACKED = 1000  # phenotypes, since a matrix of them is decomposed
_ESTIMATORS = ("known-noise", "effect-variances", "genetic-factors")
NONE, BY_X, BY_Y = "no projection", "PRIMO's, by X'X", "PRIMO's, by Y'Y"
NUCLEAR, ORACLE = "nuclear norm", "nuclear norm, true"
PSD, TRACE = "semidefinite", "semidefinite, true trace"
# The posterior for known noise after a projection: for the noise of the release, or (by Y'Y) for
# what the projection leaves of it, as reuse-cov-proj-y does.
TRACE_KNOWN, LEFT = f"{TRACE}, known noise", f"{BY_Y}, remaining noise"
METHODS = (NONE, BY_X, BY_Y, LEFT, NUCLEAR, ORACLE, PSD, TRACE, TRACE_KNOWN, *_ESTIMATORS)


@dataclass(frozen=True, eq=False)
class Population:
    """Features, phenotypes and what generated them."""

    cohort: Cohort
    covariance: Float64  # of a row of features, shape (d, d)
    effects: Float64  # shape (d, l)

    def r_squared(self, weights: Float64) -> float:
        """Return the R^2 of weights in new people, pooled over phenotypes of variance 1."""
        error = weights - self.effects
        lost = float(np.sum(error * (self.covariance @ error))) / error.shape[1]
        return float(_EXPLAINED - lost)

    @cached_property
    def outcome_spectrum(self) -> tuple[Float64, Float64]:
        """Eigenvalues of Y'Y that are not 0 by necessity, and their vectors in columns."""
        Y = self.cohort.phenotypes
        if Y.shape[1] <= len(Y):
            values, vectors = scipy.linalg.eigh(Y.T @ Y)
            return floored_at_zero(values), vectors
        values, left = scipy.linalg.eigh(Y @ Y.T)
        values = floored_at_zero(values)
        return values, (Y.T @ left) / np.sqrt(np.maximum(values, 1e-9))


def simulate(size: int, n_phenotypes: int, effects: str, rng: np.random.Generator) -> Population:
    """Draw people with effects that are ``independent`` or mixtures of common ``factors``."""
    block = np.full((_GROUP, _GROUP), _CORRELATION) + (1 - _CORRELATION) * np.eye(_GROUP)
    covariance: Float64 = np.asarray(np.kron(np.eye(size // _GROUP), block))
    if effects == "factors":
        common = rng.standard_normal((size, _FACTORS))
        B = common @ rng.standard_normal((_FACTORS, n_phenotypes))
    else:
        B = rng.standard_normal((size, n_phenotypes))
    B *= np.sqrt(_EXPLAINED / np.sum(B * (covariance @ B), axis=0))
    X = rng.standard_normal((_PEOPLE, size)) @ np.linalg.cholesky(covariance).T
    Y = X @ B + math.sqrt(1 - _EXPLAINED) * rng.standard_normal((_PEOPLE, n_phenotypes))
    return Population(cohort_of(X, lambda: [(X, Y)]), covariance, B)


def onto_nuclear_ball(matrix: Float64, radius: float) -> Float64:
    """Return the nearest matrix, in Frobenius norm, with a nuclear norm of `radius` at most."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray((left * lowered_to_sum(values, radius)) @ right)


def onto_semidefinite(matrix: Float64, trace: float | None = None) -> Float64:
    """Return the nearest positive semidefinite matrix, and with a trace of `trace` at most."""
    values, vectors = scipy.linalg.eigh(matrix)
    values = np.maximum(values, 0)
    if trace is not None:
        values = lowered_to_sum(values, trace)
    return np.asarray((vectors * values) @ vectors.T)


def lowered_to_sum(values: Float64, total: float) -> Float64:
    """Return ``max(values - t, 0)`` with the least t >= 0 at which the sum is `total` at most."""
    if values.sum() <= total:
        return values
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(ordered > levels)[-1]
    return np.asarray(np.maximum(values - levels[kept], 0))


def projected(
    people: Population,
    noisy: ours.NoisyStatistics,
    unit: PrivacyUnit,
    outcomes: solved.NoisyOutcomes | None,
) -> dict[str, Callable[[], ours.NoisyStatistics]]:
    """Return the statistics after each projection; phenotypes are in standard deviations."""
    cohort = people.cohort
    by_x = float(np.trace(cohort.gram))
    by_y = noisy.attenuation**2 * cohort.total / noisy.unit**2
    exact = noisy.attenuation * cohort.cross / noisy.unit

    def nuclear(radius: float) -> ours.NoisyStatistics:
        return replace(noisy, cross=onto_nuclear_ball(noisy.cross, radius))

    found = {
        NONE: lambda: noisy,
        NUCLEAR: lambda: nuclear(math.sqrt(by_x * by_y)),
        ORACLE: lambda: nuclear(float(np.linalg.svd(exact, compute_uv=False).sum())),
    }
    if unit is PrivacyUnit.FEATURE:
        found[BY_Y] = lambda: _by_outcomes(people, noisy, by_x)
    if unit is PrivacyUnit.FULL and outcomes is not None:
        found[PSD] = lambda: _stacked(noisy, outcomes, None)
        found[TRACE] = lambda: _stacked(noisy, outcomes, (by_x, by_y))
    return found


def noisy_outcomes(
    people: Population, noisy: ours.NoisyStatistics, unit: PrivacyUnit, rng: np.random.Generator
) -> solved.NoisyOutcomes:
    """Return Y'Y with the noise that costs nothing beside X'Y; exact if phenotypes are public."""
    Y = people.cohort.phenotypes * (noisy.attenuation / noisy.unit)
    gram = Y.T @ Y
    if unit is PrivacyUnit.FEATURE:
        return solved.NoisyOutcomes(gram, 0.0)
    if unit is PrivacyUnit.LABEL:
        bounds = noisy.bounds
        sigma = math.sqrt(2) * noisy.cross_sigma * bounds.phenotype / bounds.row
    else:
        sigma = 2 * noisy.cross_sigma**2 / noisy.gram_sigma
    noise = symmetric_upper(len(gram), rng)
    noise[~np.eye(len(gram), dtype=bool)] *= math.sqrt(0.5)
    return solved.NoisyOutcomes(gram + sigma * noise, sigma)


def _by_outcomes(
    people: Population, noisy: ours.NoisyStatistics, squared_radius: float
) -> ours.NoisyStatistics:
    """Project by Y'Y; the sigma of X'Y is what the projection leaves of the noise, on average."""
    values, vectors = people.outcome_spectrum
    values = values / noisy.unit**2
    target = noisy.cross @ vectors
    multiplier = ball_multiplier(values, (target**2).sum(axis=0), squared_radius)
    kept = np.divide(values, values + multiplier, out=np.zeros_like(values), where=values > 0)
    left = math.sqrt(float(np.sum(kept**2)) / noisy.cross.shape[1])
    cross = np.asarray((target * kept) @ vectors.T)
    return replace(noisy, cross=cross, cross_sigma=left * noisy.cross_sigma)


def _stacked(
    noisy: ours.NoisyStatistics,
    outcomes: solved.NoisyOutcomes,
    norms: tuple[float, float] | None,
) -> ours.NoisyStatistics:
    """Project the noisy Gram matrix of (x, k y), in whose svec layout all noise is sigma1."""
    size = len(noisy.gram)
    k = noisy.gram_sigma / (math.sqrt(2) * noisy.cross_sigma)
    cross = k * noisy.cross
    whole = np.block([[noisy.gram, cross], [cross.T, k**2 * outcomes.gram]])
    found = onto_semidefinite(whole, None if norms is None else norms[0] + k**2 * norms[1])
    return replace(noisy, gram=found[:size, :size], cross=found[:size, size:] / k)


def _best_ridge(people: Population, noisy: ours.NoisyStatistics) -> float:
    mean = float(np.trace(people.cohort.gram)) / len(noisy.gram)
    found = (solved.ridge_weights(noisy, mean * penalty) for penalty in _PENALTIES)
    return max(people.r_squared(weights) for weights in found)


def _by_features(people: Population, noisy: ours.NoisyStatistics) -> float:
    """Return R^2 of PRIMO's ridge at the multiplier of the projection by X'X."""
    values, vectors = np.linalg.eigh(noisy.gram)
    squares = ((vectors.T @ noisy.cross) ** 2).sum(axis=1)
    radius = noisy.attenuation**2 * people.cohort.total / noisy.unit**2
    multiplier = ball_multiplier(floored_at_zero(values), squares, radius)
    if noisy.gram_sigma:
        multiplier = max(multiplier, noisy.gram_sigma * math.sqrt(2 * len(values)))
    return people.r_squared(solved.ridge_weights(noisy, multiplier))


def run(task: Task) -> list[Row]:
    """Return R^2 of all methods, as a share of that of least squares without noise."""
    size, count = int(task.setting["K"]), int(task.setting["l"])
    rows: list[Row] = []
    for seed in task.seeds:
        rng = np.random.default_rng([seed, size, count])
        people = simulate(size, count, str(task.setting["effects"]), rng)
        cohort = people.cohort
        exact = people.r_squared(np.asarray(np.linalg.solve(cohort.gram, cohort.cross)))
        for epsilon in _EPSILONS:
            for unit in PrivacyUnit:
                for method, score in _scores(people, unit, epsilon, seed):
                    found: Row = {"unit": unit.value, "epsilon": epsilon, "seed": seed}
                    found |= {"method": method, "relative R^2": score / exact, "exact": exact}
                    rows.append({**task.setting, **found})
    return rows


def _scores(
    people: Population, unit: PrivacyUnit, epsilon: float, seed: int
) -> list[tuple[str, float]]:
    cohort = people.cohort
    size, count = cohort.cross.shape
    promise = Promise(epsilon, float(cohort.n**-2.0), unit)
    feature = unit is PrivacyUnit.FEATURE
    bound = None if feature else ours.planned_phenotype_bound(cohort, promise)
    rng = np.random.default_rng([seed, round(10 * epsilon), size, count])
    noisy = ours.release(cohort, draw_noise(size, count, rng), promise, phenotype_bound=bound)
    few = count <= _MOST_STACKED
    outcomes = noisy_outcomes(people, noisy, unit, rng) if few else None
    found: list[tuple[str, float]] = []
    for name, make in projected(people, noisy, unit, outcomes).items():
        statistics = make()
        found.append((name, _best_ridge(people, statistics)))
        then = {BY_Y: LEFT, TRACE: TRACE_KNOWN}.get(name)
        if then is not None:
            weights = solved.product_weights(statistics, cohort, ESTIMATORS["known-noise"])
            found.append((then, people.r_squared(weights)))
    if not feature:
        found.append((BY_X, _by_features(people, noisy)))
    for estimator in (ESTIMATORS[name] for name in _ESTIMATORS):
        if few or not estimator.fits_variances:
            weights = solved.product_weights(noisy, cohort, estimator, outcomes=outcomes)
            found.append((estimator.name, people.r_squared(weights)))
    return found


def draw_figure(rows: pd.DataFrame, path: Path) -> None:
    """Draw the share of R^2 against l at 25 features, for each unit and epsilon."""
    own = rows[(rows.K.min() == rows.K) & (rows.effects == "independent")]
    panels = [
        [
            Panel(
                part,
                "l",
                "relative R^2",
                METHODS,
                f"{unit}, epsilon = {epsilon:g}",
                y_limits=(-0.1, 1.02),
            )
            for unit, part in half.groupby("unit")
        ]
        for epsilon, half in own.groupby("epsilon")
    ]
    draw(panels, path)


def _settings(sizes: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Row, ...]:
    return tuple(
        {"K": size, "l": count, "effects": effects}
        for size in sizes
        for count in counts
        for effects in ("independent", "factors")
    )


FIGURES = {
    "projections": PaperFigure(
        "PRIMO's projections, nuclear-norm and semidefinite ones beside shrinkage",
        _settings((25, 250), (100, 1000, 10_000)),
        run,
        draw_figure,
        repetitions=3,
        quick_settings=_settings((25,), (100,)),
        quick_repetitions=2,
        seeds_per_task=1,
    )
}
