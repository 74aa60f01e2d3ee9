"""The audit of a mechanism: how well its noise, as it is really drawn, hides one person.

An audit draws the noise of a release many times over the exact statistics of two invented
neighbouring cohorts (`primo_scale.audit.worst_pairs`) and plays the adversary who has to tell
them apart. How often that succeeds bounds epsilon from below. Nobody's data is read, so no budget
is spent. What an audit can and cannot show: docs/audit.md.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from primo_scale.audit.audited_release import (
    Floats,
    NoiseOfRun,
    exact_numbers,
    flat,
    publish,
    stated_scales,
)
from primo_scale.audit.distinguishing import Evidence, Scores, evidence
from primo_scale.audit.worst_pairs import (
    NeighbourPair,
    Person,
    everybody,
    grams,
    statistics_of,
)
from primo_scale.gaussian.calibration import epsilon_for
from primo_scale.gaussian.noise import Integers
from primo_scale.interruption import check
from primo_scale.privacy.mechanism import Mechanism

# A direction that varies less than this, in variances of the stated noise, carries no noise.
_NO_VARIANCE = 1e-6
# From here on two Gaussians are told apart without fail, and epsilon_for would overflow.
_LARGEST_MU = 30.0


class Verdict(StrEnum):
    """What an audit comes to."""

    WITHIN = "within the claim"
    SHORT = "LESS NOISE THAN STATED"
    EXCEEDED = "EXCEEDS THE CLAIM"


@dataclass(frozen=True)
class Effort:
    """How hard to try.

    Attributes
    ----------
    runs
        Releases drawn over each of the two cohorts of a pair.
    false_alarm
        Largest probability that a sound mechanism is found wanting.
    noise
        Gives the noise of one run, see `pooled_noise`.
    """

    runs: int
    false_alarm: float
    noise: NoiseOfRun


@dataclass(frozen=True)
class PairAudit:
    """What the runs over one pair of neighbours show.

    Attributes
    ----------
    name
        What moves between the cohorts.
    stated_mu
        How far the stated noise lets this pair be told apart, exactly; None for a subsample, which
        is no Gaussian mechanism.
    shown
        Lower bounds from the runs.
    """

    name: str
    stated_mu: float | None
    shown: Evidence


@dataclass(frozen=True)
class Audit:
    """What the runs over all pairs show of one mechanism.

    Attributes
    ----------
    mechanism
        As it was stated.
    pairs
        One by one.
    """

    mechanism: Mechanism
    pairs: tuple[PairAudit, ...]

    @property
    def attainable(self) -> float | None:
        """The largest epsilon that these pairs could show if the noise is as stated."""
        stated = [pair.stated_mu for pair in self.pairs if pair.stated_mu is not None]
        return self._epsilon_of(max(stated)) if stated else None

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the promised delta, whatever the mechanism is."""
        return max(pair.shown.epsilon for pair in self.pairs)

    @property
    def gaussian_epsilon(self) -> float | None:
        """The same if what tells the cohorts apart is Gaussian; None for a subsample."""
        if any(pair.stated_mu is None for pair in self.pairs):
            return None
        return self._epsilon_of(max(pair.shown.mu for pair in self.pairs))

    @property
    def verdict(self) -> Verdict:
        """Whether the claim stands, and whether any pair is easier to tell apart than stated."""
        found = (self.epsilon, self.gaussian_epsilon or 0.0, self.attainable or 0.0)
        if max(found) > self.mechanism.promise.epsilon:
            return Verdict.EXCEEDED
        short = (p.stated_mu is not None and p.shown.mu > p.stated_mu for p in self.pairs)
        return Verdict.SHORT if any(short) else Verdict.WITHIN

    def _epsilon_of(self, mu: float) -> float:
        return math.inf if mu > _LARGEST_MU else epsilon_for(mu, self.mechanism.promise.delta)


def audit(mechanism: Mechanism, pairs: tuple[NeighbourPair, ...], effort: Effort) -> Audit:
    """Bound from below the epsilon of a mechanism as it is really drawn.

    Parameters
    ----------
    mechanism
        Calibrated to the bounds of the pairs.
    pairs
        Neighbours to tell apart.
    effort
        How hard to try.
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
    """What an adversary sees in every run: all published numbers, shape (runs, numbers)."""
    sizes, subsample = mechanism.bounds.block_sizes, mechanism.recipe.subsample
    exact = statistics_of(pair.others, person, sizes)
    rows = everybody(pair.others, person)
    seen = []
    for _ in range(effort.runs):
        check()
        if subsample is not None:  # a fresh secret one for every release, as when partials are made
            members = random.SystemRandom().sample(range(len(rows)), subsample)
            exact = replace(exact, gram=grams(rows[members], sizes))
        seen.append(flat(publish(exact, mechanism, effort.noise())))
    return np.array(seen, dtype=np.float64)


class StatedNoise:
    """The Gaussian mechanism that the published numbers are said to come from.

    Numbers are taken relative to the cohort before the change and in units of their stated noise,
    or in lattice steps where none is stated. The entries below the diagonal of a symmetric matrix
    repeat those above and count once.
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
        """Distance of the two cohorts; None for a subsample."""
        if len(self._before) > 1:
            return None
        (_, before), (_, after) = self._before[0], self._after[0]
        return float(np.linalg.norm((after - before)[self._once]))

    def in_sigmas(self, published: Floats | Integers) -> Floats:
        """Published numbers, shape (..., numbers), in units of their noise."""
        relative: Floats = (published - self._origin) / self._scale
        return relative

    def log_likelihood_ratio(self, observed: Floats) -> Floats:
        """Of the cohort after the change against the one before, shape (runs,)."""
        return self._log_density(observed, self._after) - self._log_density(observed, self._before)

    def _log_density(self, observed: Floats, laws: list[tuple[float, Floats]]) -> Floats:
        """Up to a term that both cohorts share."""
        seen = observed[:, self._once]
        terms = []
        for probability, centre in laws:
            mean = centre[self._once]
            terms.append(math.log(probability) + seen @ mean - mean @ mean / 2)
        density: Floats = np.logaddexp.reduce(terms, axis=0)
        return density


def _exact_laws(
    mechanism: Mechanism, pair: NeighbourPair, person: Person | None
) -> list[tuple[float, Integers]]:
    """What is published of a cohort but for the noise, and with which probability.

    A subsample holds the person or not; as everybody else is alike, that is all that matters.
    """
    sizes, size = mechanism.bounds.block_sizes, mechanism.recipe.subsample
    exact = statistics_of(pair.others, person, sizes)
    if size is None:
        return [(1.0, exact_numbers(exact, mechanism))]
    without = replace(exact, gram=grams(pair.others[:size], sizes))
    inside = replace(exact, gram=grams(everybody(pair.others, person)[:size], sizes))
    share = size / mechanism.bounds.n_samples
    return [
        (1 - share, exact_numbers(without, mechanism)),
        (share, exact_numbers(inside, mechanism)),
    ]


def _learned_scores(before: Floats, after: Floats) -> Scores:
    """Fisher's linear discriminant, learned from the first half of the runs.

    It needs no model: it finds what has less noise than stated, noise that two numbers share, and
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
