"""Phenotype randomization after GOPHER: a randomizer of one person's phenotype, and its priors.

Nandi, Neel and Cho (arXiv 2512.04225) randomize each person's phenotype so that the association
tests that follow have a small expected error, and may publish all of them. Here are two of their
three mechanisms, from the paper's summary and the behaviour of the authors' program
(anupama24/gopher on GitHub):

* **LP**: values are rounded to a grid, and the randomizer has the least expected squared error of
  all epsilon-private ones under a normal prior: randomized response on intervals of the grid
  (Ghazi et al., "Regression with label differential privacy"), found by dynamic programming.
* **MultiLP**: a part of the people is randomized by LP and trains a score; the others fall into
  groups by their scores, and each group has its own prior and randomizer.

MultiQP, whose randomizers of all groups minimize the expected error of the tests together, given
the relationship of all pairs of people, is not here.

Where their program takes the range and the prior from the data, here they follow from the public
mean and standard deviation of the phenotype, so that only the priors of groups cost privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import comb
from scipy.stats import norm

from experiments.gaussian_noise import Float64

Genotypes = npt.NDArray[np.float32]

N_BINS = 100
N_GROUPS = 7
_COVERED = 0.99  # of the prior, by the grid
_CLIPPED = 0.90  # of the prior, by the range of values in the means and variances of groups
_SHARE_OF_PRIORS = 0.1  # of epsilon
_PART = 0.25  # of people who train the score
_SCORE_HERITABILITY = 0.3


@dataclass(frozen=True, eq=False)
class Randomizer:
    """Randomized response on intervals of a grid: `interval` of each value, `output` of each."""

    grid: Float64  # shape (k,)
    interval: npt.NDArray[np.int64]  # shape (k,)
    output: Float64  # shape (intervals,)
    epsilon: float

    def probabilities(self) -> Float64:
        """Return the probability of every output given every value of the grid."""
        others = np.ones((len(self.grid), len(self.output)))
        others[np.arange(len(self.grid)), self.interval] = math.exp(self.epsilon)
        return np.asarray(others / others.sum(axis=1, keepdims=True))

    def randomize(self, values: Float64, rng: np.random.Generator) -> Float64:
        """Return the outputs for values, each rounded to the grid."""
        step = self.grid[1] - self.grid[0]
        nearest = np.clip(np.rint((values - self.grid[0]) / step), 0, len(self.grid) - 1)
        own = self.interval[nearest.astype(int)]
        n_outputs = len(self.output)
        keep = math.exp(self.epsilon) / (math.exp(self.epsilon) + n_outputs - 1)
        drawn = (own + rng.integers(1, max(n_outputs, 2), len(values))) % n_outputs
        chosen = np.where(rng.random(len(values)) < keep, own, drawn)
        return np.asarray(self.output[chosen], np.float64)


def best_randomizer(mean: float, sd: float, epsilon: float, grid: Float64) -> Randomizer:
    """Return the randomizer of least expected squared error for a normal prior on a grid.

    The output of an interval J is the mean under weights ``e^epsilon`` within J and 1 elsewhere.
    A sum of the losses of intervals is divided by ``e^epsilon`` plus the number of the others.
    """
    prior = norm.pdf(grid, mean, sd)
    prior /= prior.sum()
    size, odds = len(grid), math.exp(epsilon)
    moments = np.stack([prior * grid**power for power in range(3)])
    sums = np.concatenate([np.zeros((3, 1)), moments.cumsum(axis=1)], axis=1)
    within = sums[:, None, :] - sums[:, :, None]  # of the interval [first, last)
    zeroth, first, second = moments.sum(axis=1)[:, None, None] + (odds - 1) * within
    losses = np.where(
        np.triu(np.ones((size + 1, size + 1)), 1) > 0, second - first**2 / zeroth, np.inf
    )
    best = np.full((size + 1, size + 1), np.inf)  # by the number of intervals and the end
    best[0, 0] = 0.0
    starts = np.zeros((size + 1, size + 1), int)
    for count in range(1, size + 1):
        totals = best[count - 1][:, None] + losses
        starts[count] = totals.argmin(axis=0)
        best[count] = totals.min(axis=0)
    counts = np.arange(1, size + 1)
    count = int(counts[np.argmin(best[1:, size] / (odds + counts - 1))])
    interval, output, end = np.zeros(size, np.int64), np.zeros(count), size
    for place in range(count - 1, -1, -1):
        start = int(starts[place + 1, end])
        interval[start:end] = place
        output[place] = first[start, end] / zeroth[start, end]
        end = start
    return Randomizer(grid, interval, output, epsilon)


def grid_of(mean: float, sd: float) -> Float64:
    """Return the centres of bins that cover the prior."""
    low, high = norm.interval(_COVERED, mean, sd)
    edges = np.linspace(low, high, N_BINS + 1)
    return np.asarray((edges[:-1] + edges[1:]) / 2)


def by_lp(y: Float64, mean: float, sd: float, epsilon: float, rng: np.random.Generator) -> Float64:
    """Return phenotypes randomized under one prior for all people."""
    return best_randomizer(mean, sd, epsilon, grid_of(mean, sd)).randomize(y, rng)


def by_multi_lp(
    y: Float64,
    genotypes: Genotypes | Float64,
    prior: tuple[float, float],
    epsilon: float,
    rng: np.random.Generator,
) -> Float64:
    """Return phenotypes randomized under priors of groups, from standardized genotypes, (n, m).

    `prior` are the public mean and standard deviation.
    """
    mean, sd = prior
    order = rng.permutation(len(y))
    part, rest = np.split(order, [round(_PART * len(y))])
    randomized = np.empty(len(y))
    randomized[part] = by_lp(y[part], mean, sd, epsilon, rng)
    scores = _scores(genotypes[part], randomized[part] - mean, genotypes[rest])
    low, high = norm.interval(_CLIPPED, mean, sd)
    own = (1 - _SHARE_OF_PRIORS) * epsilon
    each = _SHARE_OF_PRIORS / 2 * epsilon
    for group in np.array_split(rest[np.argsort(scores, kind="stable")], N_GROUPS):
        values = np.clip(y[group], low, high)
        noise = rng.laplace(size=2) * (high - low) / (each * len(group))
        centre = float(values.mean() + noise[0])
        # The mean square about a public number changes by at most half of the squared range.
        spread = float(((values - mean) ** 2).mean() + noise[1] * (high - low) / 4)
        variance = min(max(spread - (centre - mean) ** 2, 0.1 * sd**2), sd**2)
        found = best_randomizer(centre, math.sqrt(variance), own, grid_of(mean, sd))
        randomized[group] = found.randomize(y[group], rng)
    return randomized


def _scores(genotypes: Genotypes | Float64, y: Float64, others: Genotypes | Float64) -> Float64:
    """Return scores of other people by ridge regression on randomized phenotypes."""
    n_variants = genotypes.shape[1]
    signal = np.cov(y) * _SCORE_HERITABILITY / n_variants
    penalty = float(np.cov(y) / signal)
    if n_variants < len(y):
        gram = genotypes.T @ genotypes + penalty * np.eye(n_variants)
        return np.asarray(others @ np.linalg.solve(gram, genotypes.T @ y))
    gram = genotypes @ genotypes.T + penalty * np.eye(len(y))
    return np.asarray(others @ (genotypes.T @ np.linalg.solve(gram, y)))


def composed_delta(epsilon: float, each: float, count: int) -> float:
    """Return the exact delta of `count` randomized responses of `each` epsilon, at `epsilon`.

    No mechanism with `each` epsilon is worse than randomized response (Kairouz, Oh, Viswanath).
    """
    places = np.arange(count + 1)
    surplus = np.exp(places * each) - np.exp(epsilon + (count - places) * each)
    return float(
        (comb(count, places) * np.maximum(surplus, 0)).sum() / (1 + math.exp(each)) ** count
    )


def epsilon_of_each(epsilon: float, delta: float, count: int) -> float:
    """Return the largest epsilon of each of `count` phenotypes under a promise for all of them."""
    if count == 1:
        return epsilon
    found = brentq(lambda each: composed_delta(epsilon, each, count) - delta, 1e-6, epsilon)
    return max(float(found), epsilon / count)
