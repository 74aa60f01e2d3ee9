"""The rows of the accuracy table of docs/reference_figures.md, each a method on one cohort."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from experiments import product_methods as ours
from experiments import product_weights as solved
from experiments import published_methods as published
from experiments.calibration_figures import EPSILON
from experiments.gaussian_noise import Draws, Float64
from experiments.haplotypes import Cohort
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.methods.shrinkage import JamesStein, Ridge
from primo_scale.privacy.mechanism import Promise

_FULL, _LABEL, _FEATURE = PrivacyUnit.FULL, PrivacyUnit.LABEL, PrivacyUnit.FEATURE
N_PHENOTYPES = (1, 11, 101, 1001)
_NOT_FOR_NAIVE = 1001  # the specification states no value, and the method fails at this size


@dataclass(frozen=True)
class Row:
    """One row of the table: its name in words, and a function for the weights, shape (d, l).

    `stated` is R^2 of the specification by number of phenotypes, "-" where it has none. `ours`
    marks the rows of the product, which have to land where the specification says.
    """

    name: str
    weights: Callable[[Trial], Float64]
    stated: tuple[str, str, str, str] = ("-", "-", "-", "-")
    ours: bool = False


@dataclass(frozen=True, eq=False)
class Trial:
    """One repetition: a cohort, the noise that all rows share, and common intermediate results.

    `rng` draws the copies of X'X of the naive row, and `noise_factor`, a factor on the sigmas of
    the product's rows, is 1 except in tests.
    """

    cohort: Cohort
    draws: Draws
    rng: np.random.Generator
    noise_factor: float = 1.0
    _released: dict[tuple[Any, ...], ours.NoisyStatistics] = field(default_factory=dict)

    @property
    def delta(self) -> float:
        """Delta of the paper, ``1 / n^2``."""
        return float(self.cohort.n**-2.0)

    @cached_property
    def printed(self) -> published.PrintedNoise:
        """Sigmas of Algorithm 1."""
        return published.printed_noise(self.cohort, EPSILON, self.delta)

    @property
    def small_radius(self) -> float:
        """Radius ``sqrt(n) max |y|`` of the stated set without its factor sqrt(l)."""
        return math.sqrt(self.cohort.n) * self.printed.largest_value

    @property
    def stated_radius(self) -> float:
        """Radius ``sqrt(n l) max |y|`` of the stated set."""
        return self.small_radius * math.sqrt(self.cohort.cross.shape[1])

    def released(
        self, unit: PrivacyUnit, *, split: float | None = None, planned: bool = False
    ) -> ours.NoisyStatistics:
        """Return the statistics of a privacy unit, computed once.

        `split` is t, by default the planner's, and `planned` stands for the product's clip of
        phenotype rows in place of the quantile. Statistics for feature privacy are not projected.
        """
        key = (unit, split, planned)
        if key not in self._released:
            promise = Promise(EPSILON, self.delta, unit)
            bound = ours.planned_phenotype_bound(self.cohort, promise) if planned else None
            self._released[key] = ours.release(
                self.cohort,
                self.draws,
                promise,
                split=split,
                phenotype_bound=bound,
                noise_factor=self.noise_factor,
            )
        return self._released[key]


def _solved(
    t: Trial, unit: PrivacyUnit, estimator: str, method: str = "reuse-cov-gauss", **released: Any
) -> Float64:
    noisy = t.released(unit, **released)
    return solved.product_weights(noisy, t.cohort, ESTIMATORS[estimator], method=method)


def _ridge_after_projection(t: Trial) -> Float64:
    noisy = t.released(_FEATURE)
    radius = solved.stated_radius(noisy, t.cohort)
    projected = solved.projected_on_phenotypes(noisy, t.cohort, radius)
    return solved.rule_weights(projected, Ridge(projected.usual_noise_norm))


def _james_stein_on_ridge(noisy: ours.NoisyStatistics) -> Float64:
    sigma = np.full(noisy.cross.shape[1], noisy.cross_sigma)
    return solved.rule_weights(noisy, JamesStein(noisy.noise_norm, sigma, floor=0.0))


ROWS = {
    "ols": Row(
        "OLS (non-private)",
        lambda t: published.least_squares(t.cohort),
        (".311", ".340", ".350", ".329"),
    ),
    "algorithm 1": Row(
        "Algorithm 1 as printed (truly eps = 6.85)",
        lambda t: published.algorithm_1(t.cohort, t.draws, t.printed),
        (".295", ".225", "-.74", "-12.9"),
    ),
    "projection x": Row(
        "label DP, Proj_X with the stated set K and sqrt(l) max abs y",
        lambda t: published.projection_x(t.cohort, t.draws, t.printed, radius=t.stated_radius),
        (".297", ".066", "-2.24", "-28.9"),
    ),
    "projection x, small": Row(
        "Proj_X with radius sqrt(n) max abs y",
        lambda t: published.projection_x(t.cohort, t.draws, t.printed, radius=t.small_radius),
        (".297", ".066", ".089", ".016"),
    ),
    "projection y": Row(
        "Proj_Y with the sqrt(l) max abs y noise",
        lambda t: published.projection_y(t.cohort, t.draws, t.printed),
        (".295", ".225", "-.098", ".132"),
    ),
    "naive": Row(
        "naive l x SSP, GDP, oracle ridge",
        lambda t: published.naive(t.cohort, t.draws, EPSILON, t.delta, t.rng),
        (".287", ".233", ".076", "-"),
    ),
    "full": Row(
        "joint calibration + row clip + James-Stein: full DP",
        lambda t: _solved(t, _FULL, "james-stein"),
        (".304", ".326", ".312", ".213"),
        ours=True,
    ),
    "full, even": Row(
        "the same at t = 1, which the specification seems to have used",
        lambda t: _solved(t, _FULL, "james-stein", split=1.0),
        (".304", ".326", ".312", ".213"),
        ours=True,
    ),
    "label": Row(
        "the same, label DP",
        lambda t: _solved(t, _LABEL, "james-stein"),
        (".308", ".330", ".319", ".224"),
        ours=True,
    ),
    "feature": Row(
        "feature DP, Proj_Y, joint calibration",
        _ridge_after_projection,
        (".299", ".320", ".297", ".276"),
        ours=True,
    ),
    "full, known noise": Row(
        "full DP, weights for known noise (the default)",
        lambda t: _solved(t, _FULL, "known-noise"),
    ),
    "full, planned": Row(
        "full DP, known noise and the planner's clip",
        lambda t: _solved(t, _FULL, "known-noise", planned=True),
    ),
    "full, ridge": Row(
        "full DP, James-Stein on a ridge at the noise norm (not the product's)",
        lambda t: _james_stein_on_ridge(t.released(_FULL)),
    ),
    "label, known noise": Row(
        "label DP, weights for known noise (the default)",
        lambda t: _solved(t, _LABEL, "known-noise"),
    ),
    "label, planned": Row(
        "label DP, known noise and the planner's clip",
        lambda t: _solved(t, _LABEL, "known-noise", planned=True),
    ),
    "label, projected": Row(
        "label DP, Proj_X with the exact noise and the planner's clip",
        lambda t: solved.projected_weights(t.released(_LABEL, planned=True), t.cohort.n),
    ),
    "feature, known noise": Row(
        "feature DP, Proj_Y, weights for known noise (the default)",
        lambda t: _solved(t, _FEATURE, "known-noise", "reuse-cov-proj-y"),
    ),
    "feature, ridge": Row(
        "feature DP, Proj_Y, ridge at the noise norm",
        lambda t: _solved(t, _FEATURE, "ridge-at-noise-norm", "reuse-cov-proj-y"),
    ),
    "feature, plain": Row(
        "feature DP, weights for known noise, no projection",
        lambda t: _solved(t, _FEATURE, "known-noise"),
    ),
}


def rows_for(n_phenotypes: int) -> tuple[str, ...]:
    """Return the keys of the rows that exist for a number of phenotypes."""
    return tuple(key for key in ROWS if key != "naive" or n_phenotypes < _NOT_FOR_NAIVE)
