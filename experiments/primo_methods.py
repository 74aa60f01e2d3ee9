"""The methods of the figures of PRIMO, each on one cohort."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from experiments import product_methods as ours
from experiments import product_weights as solved
from experiments import published_methods as published
from experiments.gaussian_noise import Draws, Float64
from experiments.haplotypes import Cohort
from experiments.printed_numbers import EPSILON
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.catalogue import ESTIMATORS
from primo_scale.privacy.mechanism import Promise


@dataclass(frozen=True, eq=False)
class Trial:
    """One repetition: a cohort, the noise that all methods share, and common results."""

    cohort: Cohort
    draws: Draws
    _released: dict[PrivacyUnit, ours.NoisyStatistics] = field(default_factory=dict)

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

    def released(self, unit: PrivacyUnit) -> ours.NoisyStatistics:
        """Return the statistics of a privacy unit with the planner's clip, computed once."""
        if unit not in self._released:
            promise = Promise(EPSILON, self.delta, unit)
            bound = ours.planned_phenotype_bound(self.cohort, promise)
            self._released[unit] = ours.release(
                self.cohort, self.draws, promise, phenotype_bound=bound
            )
        return self._released[unit]


def _projected_on_genotypes(t: Trial, radius: float) -> Float64:
    return published.projection_x(t.cohort, t.draws, t.printed, radius=radius)


def _known_noise(t: Trial, unit: PrivacyUnit) -> Float64:
    return solved.product_weights(t.released(unit), t.cohort, ESTIMATORS["known-noise"])


METHODS: dict[str, Callable[[Trial], Float64]] = {
    "OLS": lambda t: published.least_squares(t.cohort),
    "ReuseCovGauss as printed": lambda t: published.algorithm_1(t.cohort, t.draws, t.printed),
    "ReuseCovProj_X as printed": lambda t: _projected_on_genotypes(t, t.stated_radius),
    "ReuseCovProj_X, radius without sqrt(l)": lambda t: _projected_on_genotypes(t, t.small_radius),
    "product: full privacy": lambda t: _known_noise(t, PrivacyUnit.FULL),
    "product: label privacy": lambda t: _known_noise(t, PrivacyUnit.LABEL),
    "product: label privacy, projected": lambda t: solved.projected_weights(
        t.released(PrivacyUnit.LABEL), t.cohort.n
    ),
}
"""Functions for the weights, shape (d, l), by the name in the figures."""
