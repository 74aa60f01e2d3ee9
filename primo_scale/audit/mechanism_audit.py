"""Audit of a mechanism: a test of its noise by an attack on two artificial neighbouring cohorts.

An audit draws the noise of a release many times over the exact statistics of the two cohorts
(`primo_scale.audit.worst_pairs`) and runs the adversary who distinguishes them. The success rate of
the adversary is a lower bound on epsilon. No person's data are read, so no budget is spent.
docs/audit.md explains what an audit can and cannot show.

The adversary decides "after" if a score exceeds a threshold. T is the probability of this decision
over the cohort after the change, and F the probability over the cohort before the change. An
(epsilon, delta)-private mechanism has ``T <= e^epsilon F + delta``, also with exchanged cohorts. A
mu-Gaussian private mechanism has ``T <= Phi(Phi^-1(F) + mu)``. Exact binomial confidence limits on
T and F (Clopper and Pearson, 1934) give lower bounds on epsilon and mu. The first half of the runs
selects the score and the threshold, and the second half evaluates only this choice. Trying many
scores and thresholds therefore costs no confidence.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import beta

from primo_scale.audit.worst_pairs import (
    CohortStatistics,
    NeighbourPair,
    Person,
    cohort_genotypes,
    grams,
    statistics_of,
)
from primo_scale.gaussian.calibration import epsilon_for
from primo_scale.gaussian.noise import (
    KEY_BYTES,
    FineNoise,
    Integers,
    KeystreamNoise,
    off_diagonal_sigma,
)
from primo_scale.interruption import check
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.private_statistics import NoisyMatrices
from primo_scale.storage.tiles import panels, upper_tiles

Floats = npt.NDArray[np.float64]
NoiseOfRun = Callable[[], FineNoise]
Scores = tuple[Floats, Floats]
"""Scores, shape (runs,), over each cohort; high values indicate the cohort after the change."""

# Number of runs whose noise is drawn in one call.
_POOLED_RUNS = 1024
# Number of thresholds, which are dense in both tails, where likelihood ratios are large.
_THRESHOLDS = 300
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
class Evidence:
    """Lower bounds on epsilon at a given delta, and on the mu of Gaussian privacy."""

    epsilon: float
    mu: float


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
        return self._epsilon_of([pair.stated_mu for pair in self.pairs])

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the promised delta, for any mechanism."""
        return max(pair.shown.epsilon for pair in self.pairs)

    @property
    def gaussian_epsilon(self) -> float | None:
        """Lower bound on epsilon for a Gaussian mechanism; None for a subsample."""
        pairs = self.pairs
        return self._epsilon_of([None if p.stated_mu is None else p.shown.mu for p in pairs])

    @property
    def verdict(self) -> Verdict:
        """Verdict on the promise, and on the stated noise of every pair."""
        found = (self.epsilon, self.gaussian_epsilon or 0.0, self.attainable or 0.0)
        if max(found) > self.mechanism.promise.epsilon:
            return Verdict.EXCEEDED
        short = (p.stated_mu is not None and p.shown.mu > p.stated_mu for p in self.pairs)
        return Verdict.SHORT if any(short) else Verdict.WITHIN

    def _epsilon_of(self, mus: list[float | None]) -> float | None:
        known = [mu for mu in mus if mu is not None]
        if not known:
            return None
        mu = max(known)
        return math.inf if mu > _LARGEST_MU else epsilon_for(mu, self.mechanism.promise.delta)


def audit(
    mechanism: Mechanism,
    pairs: tuple[NeighbourPair, ...],
    *,
    runs: int,
    false_alarm: float,
    noise: NoiseOfRun | None = None,
) -> Audit:
    """Return lower bounds on the epsilon of a mechanism, from its draws over pairs of neighbours.

    The mechanism is calibrated to the bounds of the pairs. So many `runs` are drawn over each
    cohort of each pair, each with a result of `noise`, by default of the product's sampler. A sound
    mechanism fails with a probability of at most `false_alarm`. Source: docs/audit.md.
    """
    delta, noise, audited = mechanism.promise.delta, noise or pooled_noise(), []
    for pair in pairs:
        scale, once, shift = stated_shift(mechanism, pair)
        observed = [
            _observe(mechanism, pair, person, runs, noise) for person in (pair.before, pair.after)
        ]
        before, after = ((numbers - observed[0].mean(axis=0)) / scale for numbers in observed)
        # The log-likelihood ratio of the stated noise is linear in the numbers; so is that of a
        # large subsample, nearly.
        stated = before[:, once] @ shift, after[:, once] @ shift
        scores = [stated, _learned_scores(before, after)]
        mu = None if mechanism.recipe.subsample else float(np.linalg.norm(shift))
        shown = evidence(scores, delta=delta, false_alarm=false_alarm / len(pairs))
        audited.append(PairAudit(pair.name, mu, shown))
    return Audit(mechanism, tuple(audited))


def pooled_noise(source: FineNoise | None = None) -> NoiseOfRun:
    """Return a function that yields the noise of each run, by default of the product's sampler.

    Independent draws for many runs are requested in bulk.
    """
    noise = _PooledNoise(source or KeystreamNoise(os.urandom(KEY_BYTES)))
    return lambda: noise


class _PooledNoise:
    def __init__(self, source: FineNoise) -> None:
        self._source = source
        self._dealt: dict[tuple[str, int, float], Iterator[Integers]] = {}

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Return draws as the sampler does, any number of times for each label."""
        if count == 0:
            return np.empty(0, dtype=np.int64)
        key = (label, count, scale)
        if key not in self._dealt:
            self._dealt[key] = self._deal(*key)
        return next(self._dealt[key])

    def _deal(self, label: str, size: int, scale: float) -> Iterator[Integers]:
        for pool in count():
            name = f"{label}, {size} draws of {scale!r}, pool {pool}"
            yield from self._source.draw(name, _POOLED_RUNS * size, scale).reshape(-1, size)


def publish(exact: CohortStatistics, mechanism: Mechanism, source: FineNoise) -> list[Integers]:
    """Return statistics in memory with the noise of a release, as `privatise` adds it."""
    noisy, published = NoisyMatrices(mechanism, source), []
    for block, (gram, cross) in enumerate(zip(exact.gram, exact.cross, strict=True)):
        (tile,), (panel,) = upper_tiles(len(gram)), panels(*cross.shape)  # a block is one piece
        for copy in range(mechanism.recipe.gram_copies):
            published.append(noisy.gram_tile(gram, tile, block=block, copy=copy))
        published.append(noisy.cross_panel(cross, panel, block=block))
    published.append(noisy.outcome_gram(exact.outcome_gram))
    published.append(noisy.counts(exact.observed))
    if mechanism.scales.smallest_eigenvalue:
        published.append(np.array([noisy.smallest_eigenvalue(exact.smallest_eigenvalue)]))
    return published


def stated_shift(
    mechanism: Mechanism, pair: NeighbourPair
) -> tuple[Floats, npt.NDArray[np.bool_], Floats]:
    """Return the stated noise of every number of `publish`, which count, and the shift of those.

    The standard deviation is 1 for numbers without noise. Entries below the diagonal of symmetric
    matrices do not count, because they repeat those above it. The shift is that of the exact
    numbers of all people, in units of the noise.
    """
    scales, n_phenotypes = mechanism.scales, mechanism.bounds.n_phenotypes
    stated, once = list[Floats](), list[npt.NDArray[np.bool_]]()

    def add(shape: tuple[int, ...], sigma: float | Floats, *, symmetric: bool = False) -> None:
        part, counted = np.full(shape, sigma, dtype=np.float64), np.ones(shape, dtype=bool)
        if symmetric:
            part[:] = off_diagonal_sigma(float(sigma)) if sigma else 0.0
            np.fill_diagonal(part, sigma)
            counted = np.triu(counted)
        stated.append(part.ravel())
        once.append(counted.ravel())

    for size, sigma in zip(mechanism.bounds.block_sizes, scales.gram, strict=True):
        for _ in range(mechanism.recipe.gram_copies):
            add((size, size), sigma, symmetric=True)
        add((size, n_phenotypes), scales.phenotype_cross)
    add((n_phenotypes, n_phenotypes), scales.phenotype_gram, symmetric=True)
    add((1,), scales.observed * mechanism.promise.n_is_private)
    add((n_phenotypes,), scales.observed)
    if scales.smallest_eigenvalue:
        add((1,), scales.smallest_eigenvalue)
    scale, chosen = np.concatenate(stated), np.concatenate(once)
    scale = np.where(scale > 0, scale, 1.0)
    before, after = (
        _flat(publish(statistics_of(pair.others, person, mechanism.bounds.block_sizes), mechanism,
                      _NoNoise()))
        for person in (pair.before, pair.after)
    )  # fmt: skip
    return scale, chosen, ((after - before) / scale)[chosen]


class _NoNoise:
    """Source of zeros."""

    def draw(self, label: str, count: int, scale: float) -> Integers:
        return np.zeros(count, dtype=np.int64)


def _flat(parts: list[Integers]) -> Integers:
    return np.concatenate([part.ravel() for part in parts])


def _observe(
    mechanism: Mechanism, pair: NeighbourPair, person: Person | None, runs: int, noise: NoiseOfRun
) -> Floats:
    """Return the published numbers of every run, shape (runs, numbers)."""
    sizes, subsample = mechanism.bounds.block_sizes, mechanism.recipe.subsample
    exact = statistics_of(pair.others, person, sizes)
    rows = cohort_genotypes(pair.others, person)
    seen = []
    for _ in range(runs):
        check()
        if subsample is not None:  # every release has a fresh secret subsample
            members = random.SystemRandom().sample(range(len(rows)), subsample)
            exact = replace(exact, gram=grams(rows[members], sizes))
        seen.append(_flat(publish(exact, mechanism, noise())))
    return np.array(seen, dtype=np.float64)


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
    return before @ weights, after @ weights


# ---- Evidence ------------------------------------------------------------------------------------


def evidence(scores: Sequence[Scores], *, delta: float, false_alarm: float) -> Evidence:
    """Return lower bounds on epsilon and mu.

    Source: docs/audit.md, "Bounds"; confidence limits of Clopper and Pearson (1934).

    The statistics that score the runs may depend on the first half of the runs. The probability
    that one of the bounds exceeds the true value is at most `false_alarm`.
    """
    level = false_alarm / 4  # for each of the two probabilities in each of the two bounds

    def one_way(right: Integers, wrong: Integers, runs: int) -> Floats:
        ratio = np.maximum(rate_at_least(right, runs, level) - delta, 0)
        return np.asarray(np.log(np.maximum(ratio / rate_at_most(wrong, runs, level), 1)))

    def epsilon(before: Integers, after: Integers, runs: int) -> Floats:
        either = one_way(after, before, runs), one_way(runs - before, runs - after, runs)
        return np.stack(either)

    def mu(before: Integers, after: Integers, runs: int) -> Floats:
        shift = ndtri(rate_at_least(after, runs, level)) - ndtri(rate_at_most(before, runs, level))
        return np.asarray(np.maximum(shift, 0))[None]

    return Evidence(_judged(scores, epsilon), _judged(scores, mu))


def rate_at_least(successes: Integers, runs: int, false_alarm: float) -> Floats:
    """Return the exact lower confidence limit on a probability (Clopper and Pearson)."""
    limit = beta.ppf(false_alarm, np.maximum(successes, 1), runs - successes + 1)
    return np.where(successes > 0, limit, 0.0)


def rate_at_most(successes: Integers, runs: int, false_alarm: float) -> Floats:
    """Return the exact upper confidence limit on a probability (Clopper and Pearson)."""
    return 1 - rate_at_least(runs - successes, runs, false_alarm)


def _judged(scores: Sequence[Scores], bound: Callable[[Integers, Integers, int], Floats]) -> float:
    """Return the bound of the best choice on the first half, computed from the second half."""
    best, shown = 0.0, 0.0
    for before, after in scores:
        half = len(before) // 2
        first, second = ((before[part], after[part]) for part in (np.s_[:half], np.s_[half:]))
        thresholds = _thresholds(np.concatenate(first))
        values = bound(*_above(first, thresholds), half)
        if values.size and values.max() > best:
            row, column = np.unravel_index(np.argmax(values), values.shape)
            best = float(values.max())
            chosen = _above(second, thresholds[[column]])
            shown = float(bound(*chosen, len(second[0]))[row, 0])
    return shown


def _thresholds(scores: Floats) -> Floats:
    """Return thresholds between the scores that occur."""
    values = np.unique(scores)
    gaps = len(values) - 1
    if gaps < 1:
        return np.empty(0)
    from_either_end = np.geomspace(1, gaps, _THRESHOLDS // 3).astype(np.int64) - 1
    even = np.linspace(0, gaps - 1, _THRESHOLDS // 3).astype(np.int64)
    below = np.unique(np.concatenate([from_either_end, gaps - 1 - from_either_end, even]))
    return np.asarray(values[below] + (values[below + 1] - values[below]) / 2)


def _above(cohorts: Scores, thresholds: Floats) -> tuple[Integers, Integers]:
    """Return the numbers of runs over each cohort that exceed each threshold."""
    before, after = (
        len(values) - np.searchsorted(np.sort(values), thresholds, side="right")
        for values in cohorts
    )
    return before, after
