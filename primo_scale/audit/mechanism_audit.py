"""Audit of a mechanism: a test of its noise by an attack on two artificial neighbouring cohorts.

An audit draws the noise of a release many times over the exact statistics of the two cohorts
(`primo_scale.audit.worst_pairs`) and runs the adversary who distinguishes them. The success rate of
the adversary is a lower bound on epsilon. No person's data are read, so no budget is spent.
docs/audit.md explains what an audit can and cannot show.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from primo_scale.audit.audited_release import (
    NoiseOfRun,
    exact_numbers,
    flat,
    publish,
    stated_scales,
)
from primo_scale.audit.distinguishing import Evidence, Floats, Scores, evidence
from primo_scale.audit.worst_pairs import (
    NeighbourPair,
    Person,
    cohort_genotypes,
    grams,
    statistics_of,
)
from primo_scale.gaussian.calibration import epsilon_for
from primo_scale.gaussian.lattice_noise import Integers
from primo_scale.interruption import check
from primo_scale.privacy.mechanism import Mechanism

# Variance of a direction, in units of the stated noise, below which it counts as free of noise.
_NO_VARIANCE = 1e-6
# Larger values of mu are practically certain to distinguish, and epsilon_for would overflow.
_LARGEST_MU = 30.0


class Verdict(StrEnum):
    """Result of an audit."""

    WITHIN = "within the claim"
    SHORT = "LESS NOISE THAN STATED"
    EXCEEDED = "EXCEEDS THE CLAIM"


@dataclass(frozen=True)
class Effort:
    """Parameters of an audit."""

    runs: int  # releases drawn over each of the two cohorts of a pair
    false_alarm: float  # largest probability that a sound mechanism fails the audit
    # Function that returns the noise of one run, such as the result of `pooled_noise`.
    noise: NoiseOfRun


@dataclass(frozen=True)
class PairAudit:
    """Lower bounds shown by the runs over one pair of neighbours.

    `stated_mu` is the exact mu of this pair under the stated noise; None for a subsample, which is
    not a Gaussian mechanism.
    """

    name: str
    stated_mu: float | None
    shown: Evidence


@dataclass(frozen=True)
class Audit:
    """Result of an audit of one mechanism with its stated noise."""

    mechanism: Mechanism
    pairs: tuple[PairAudit, ...]

    @property
    def attainable(self) -> float | None:
        """Largest epsilon that these pairs can show if the noise is as stated."""
        stated = [pair.stated_mu for pair in self.pairs if pair.stated_mu is not None]
        return self._epsilon_of(max(stated)) if stated else None

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the promised delta, for any mechanism."""
        return max(pair.shown.epsilon for pair in self.pairs)

    @property
    def gaussian_epsilon(self) -> float | None:
        """Lower bound on epsilon for a Gaussian mechanism; None for a subsample."""
        if any(pair.stated_mu is None for pair in self.pairs):
            return None
        return self._epsilon_of(max(pair.shown.mu for pair in self.pairs))

    @property
    def verdict(self) -> Verdict:
        """Verdict on the promise, and on the stated noise of every pair."""
        found = (self.epsilon, self.gaussian_epsilon or 0.0, self.attainable or 0.0)
        if max(found) > self.mechanism.promise.epsilon:
            return Verdict.EXCEEDED
        short = (p.stated_mu is not None and p.shown.mu > p.stated_mu for p in self.pairs)
        return Verdict.SHORT if any(short) else Verdict.WITHIN

    def _epsilon_of(self, mu: float) -> float:
        return math.inf if mu > _LARGEST_MU else epsilon_for(mu, self.mechanism.promise.delta)


def audit(mechanism: Mechanism, pairs: tuple[NeighbourPair, ...], effort: Effort) -> Audit:
    """Return lower bounds on the epsilon of a mechanism, from its draws over pairs of neighbours.

    The mechanism is calibrated to the bounds of the pairs. Source: docs/audit.md.
    """
    share = effort.false_alarm / len(pairs)
    per_pair = replace(effort, false_alarm=share)
    return Audit(mechanism, tuple(_audit_pair(mechanism, pair, per_pair) for pair in pairs))


def _audit_pair(mechanism: Mechanism, pair: NeighbourPair, effort: Effort) -> PairAudit:
    stated = StatedNoise(mechanism, pair)
    before, after = (
        stated.in_sigmas(_observe(mechanism, pair, person, effort))
        for person in (pair.before, pair.after)
    )
    scores = [
        Scores(stated.log_likelihood_ratio(before), stated.log_likelihood_ratio(after)),
        _learned_scores(before, after),
    ]
    delta = mechanism.promise.delta
    shown = evidence(scores, delta=delta, false_alarm=effort.false_alarm)
    return PairAudit(pair.name, stated.mu, shown)


def _observe(
    mechanism: Mechanism, pair: NeighbourPair, person: Person | None, effort: Effort
) -> Floats:
    """Return the published numbers of every run, shape (runs, numbers)."""
    sizes, subsample = mechanism.bounds.block_sizes, mechanism.recipe.subsample
    exact = statistics_of(pair.others, person, sizes)
    rows = cohort_genotypes(pair.others, person)
    seen = []
    for _ in range(effort.runs):
        check()
        if subsample is not None:  # every release has a fresh secret subsample
            members = random.SystemRandom().sample(range(len(rows)), subsample)
            exact = replace(exact, gram=grams(rows[members], sizes))
        seen.append(flat(publish(exact, mechanism, effort.noise())))
    return np.array(seen, dtype=np.float64)


class StatedNoise:
    """Mechanism with the stated noise, over the two cohorts of a pair.

    Numbers are relative to the cohort before the change, in units of their stated noise, or in
    lattice steps if they have none. Entries below the diagonal of a symmetric matrix repeat those
    above it and are ignored.
    """

    def __init__(self, mechanism: Mechanism, pair: NeighbourPair) -> None:
        self._scale, self._once = stated_scales(mechanism)
        cohorts = [_exact_laws(mechanism, pair, person) for person in (pair.before, pair.after)]
        self._origin = cohorts[0][0][1]
        self._before, self._after = (
            [(probability, self.in_sigmas(centre)) for probability, centre in laws]
            for laws in cohorts
        )

    @property
    def mu(self) -> float | None:
        """Distance between the two cohorts in units of the noise; None for a subsample."""
        if len(self._before) > 1:
            return None
        (_, before), (_, after) = self._before[0], self._after[0]
        return float(np.linalg.norm((after - before)[self._once]))

    def in_sigmas(self, published: Floats | Integers) -> Floats:
        """Return published numbers, shape (..., numbers), in units of their noise."""
        return np.asarray((published - self._origin) / self._scale)

    def log_likelihood_ratio(self, observed: Floats) -> Floats:
        """Return log-likelihood ratios of the cohort after the change, shape (runs,)."""
        return self._log_density(observed, self._after) - self._log_density(observed, self._before)

    def _log_density(self, observed: Floats, laws: list[tuple[float, Floats]]) -> Floats:
        """Return the log-density of a cohort, up to a term that both cohorts share."""
        seen = observed[:, self._once]
        terms = []
        for probability, centre in laws:
            mean = centre[self._once]
            terms.append(math.log(probability) + seen @ mean - mean @ mean / 2)
        return np.asarray(np.logaddexp.reduce(terms, axis=0))


def _exact_laws(
    mechanism: Mechanism, pair: NeighbourPair, person: Person | None
) -> list[tuple[float, Integers]]:
    """Return the possible exact numbers of a cohort, with their probabilities.

    There is one possibility without a subsample. With a subsample there are two, because all other
    people are equal and only the presence of the person matters.
    """
    sizes, size = mechanism.bounds.block_sizes, mechanism.recipe.subsample
    exact = statistics_of(pair.others, person, sizes)
    if size is None:
        return [(1.0, exact_numbers(exact, mechanism))]
    without = replace(exact, gram=grams(pair.others[:size], sizes))
    inside = replace(exact, gram=grams(cohort_genotypes(pair.others, person)[:size], sizes))
    share = size / mechanism.bounds.n_samples
    return [
        (1 - share, exact_numbers(without, mechanism)),
        (share, exact_numbers(inside, mechanism)),
    ]


def _learned_scores(before: Floats, after: Floats) -> Scores:
    """Return the scores of Fisher's linear discriminant, fitted to the first half of the runs.

    It assumes no model: it detects less noise than stated, noise that two numbers share, and
    numbers without noise.
    """
    half = len(before) // 2
    first = before[:half], after[:half]
    difference = first[1].mean(axis=0) - first[0].mean(axis=0)
    covariance = sum(np.cov(sample, rowvar=False) for sample in first) / 2
    variances, directions = np.linalg.eigh(covariance)
    along = directions.T @ difference
    weights = directions @ (along / (np.maximum(variances, 0) + _NO_VARIANCE))
    return Scores(before @ weights, after @ weights)
