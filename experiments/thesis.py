"""The thesis' algorithms for one outcome as printed, and the product's joint release beside them.

Each maps statistics and standard normal noise to weights, shape (d, 1). The joint release is the
product's calibration for add-remove at its optimal split without an eigenvalue, solved with no
ridge, or with one at the norm of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

from experiments import papers_constants as papers
from experiments.gaussian_noise import Draws, Float64
from primo_scale.gaussian.calibration import mu_for, optimal_split
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.methods.linear_algebra import noise_norm
from primo_scale.privacy.planning import PRIOR_HERITABILITY


@dataclass(frozen=True, eq=False)
class Problem:
    """Statistics X'X, shape (d, d), and X'y, (d, 1), of rows of norm at most 1, and the budget."""

    gram: Float64
    cross: Float64
    outcome_bound: float
    epsilon: float
    delta: float

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """Smallest eigenvalue of X'X."""
        return float(np.linalg.eigvalsh(self.gram)[0])


def ssp(problem: Problem, noise: Draws) -> Float64:
    """Return the weights of Algorithm 1 of the thesis."""
    scale = papers.thesis_gaussian(problem.epsilon / 2, problem.delta / 2)
    return _solve(problem, noise, scale, 1.0)


def const_ssp_full(problem: Problem, noise: Draws) -> Float64:
    """Return the weights of Algorithm 4 of the thesis."""
    epsilon, delta = problem.epsilon / 2, problem.delta / 2
    ridge = papers.thesis_ridge(epsilon, delta, len(problem.cross))
    return _solve(problem, noise, papers.thesis_gaussian(epsilon, delta), ridge + 1)


@dataclass(frozen=True, eq=False)
class EigenvalueRidge:
    """Lambda of step 5 of Algorithm 3: what the smallest eigenvalue leaves of the ridge.

    `share` is gamma, the share of the budget for the eigenvalue.
    """

    problem: Problem
    share: float

    @property
    def _scale(self) -> float:
        return papers.thesis_gaussian(
            self.share * self.problem.epsilon, self.share * self.problem.delta
        )

    @property
    def _surplus(self) -> float:
        """Amount by which the eigenvalue without noise, less the margin, exceeds the ridge."""
        margin = self._scale * math.sqrt(2 * math.log(2 / (self.share * self.problem.delta)))
        return self.problem.smallest_eigenvalue + 1 - margin - self.full

    @property
    def necessary(self) -> tuple[float, float]:
        """Epsilon and delta of each of X'X and X'y."""
        rest = (1 - self.share) / 2
        return rest * self.problem.epsilon, rest * self.problem.delta

    @property
    def full(self) -> float:
        """Ridge at an eigenvalue of 0."""
        return papers.thesis_ridge(*self.necessary, len(self.problem.cross))

    @property
    def probability_of_zero(self) -> float:
        """Exact probability of a ridge of 0, over the noise on the eigenvalue."""
        return float(norm.cdf(self._surplus / self._scale))

    def at(self, on_eigenvalue: float) -> float:
        """Return the ridge for a standard normal number, the noise on the eigenvalue."""
        return min(self.full, max(0.0, -self._surplus - self._scale * on_eigenvalue))


def ada_ssp_budget(
    problem: Problem, noise: Draws, share: float, *, on_eigenvalue: float
) -> Float64:
    """Return the weights of Algorithm 3 of the thesis; adaSSP at ``share = 1/3``."""
    rule = EigenvalueRidge(problem, share)
    scale = papers.thesis_gaussian(*rule.necessary)
    return _solve(problem, noise, scale, rule.at(on_eigenvalue) + 1)


def joint(problem: Problem, noise: Draws, *, least_eigenvalue: float) -> Float64:
    """Return the weights under one joint calibration for add-remove, with noise in svec layout.

    The ridge is the norm of the noise if that exceeds `least_eigenvalue`, a public guess of the
    smallest eigenvalue of X'X, and 0 otherwise.
    """
    size = len(problem.cross)
    mu = mu_for(problem.epsilon, problem.delta)
    effects = PRIOR_HERITABILITY * size / 2  # rows of norm 1: every variable has variance 1/d
    split = optimal_split(effects, problem.outcome_bound**2, Adjacency.ADD_REMOVE)
    gram = math.sqrt(1 + split) / mu
    cross = problem.outcome_bound * gram / math.sqrt(split)
    norm_of_noise = noise_norm(gram, size)
    ridge = norm_of_noise if norm_of_noise > least_eigenvalue else 0.0
    noisy = problem.gram + gram * noise.svec + ridge * np.eye(size)
    return np.asarray(np.linalg.solve(noisy, problem.cross + cross * noise.cross), np.float64)


def _solve(problem: Problem, noise: Draws, scale: float, ridge: float) -> Float64:
    noisy = problem.gram + scale * noise.upper + ridge * np.eye(len(problem.cross))
    target = problem.cross + scale * problem.outcome_bound * noise.cross
    return np.asarray(np.linalg.solve(noisy, target), np.float64)
