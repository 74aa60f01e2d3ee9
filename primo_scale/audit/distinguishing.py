"""Lower bounds on epsilon and mu from samples of a mechanism's output over two neighbours.

A distinguishing test decides "after" if a score exceeds a threshold. T is the probability of this
decision over the cohort after the change, and F the probability over the cohort before the change.
An (epsilon, delta)-private mechanism has ``T <= e^epsilon F + delta``, also with exchanged cohorts.
A mu-Gaussian private mechanism has ``T <= Phi(Phi^-1(F) + mu)``. Exact binomial confidence limits
on T and F (Clopper and Pearson, 1934) give lower bounds on epsilon and mu.

The first half of the runs selects the score and the threshold, and the second half evaluates only
this choice. Trying many scores and thresholds therefore costs no confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import beta

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# Number of thresholds, which are dense in both tails, where likelihood ratios are large.
_THRESHOLDS = 300


@dataclass(frozen=True)
class Scores:
    """Scores, shape (runs,), over each cohort; high values indicate the cohort after the change."""

    before: Floats
    after: Floats


@dataclass(frozen=True)
class Evidence:
    """Lower bounds on epsilon at a given delta, and on the mu of Gaussian privacy."""

    epsilon: float
    mu: float


@dataclass(frozen=True)
class _Counted:
    """Numbers of runs over each cohort, of `runs` in total, that exceed each threshold."""

    before: Counts
    after: Counts
    runs: int


_Bound = Callable[[_Counted], Floats]


def evidence(scores: Sequence[Scores], *, delta: float, false_alarm: float) -> Evidence:
    """Return lower bounds on epsilon and mu.

    Source: docs/audit.md, "Bounds"; confidence limits of Clopper and Pearson (1934).

    The statistics that score the runs may depend on the first half of the runs. The probability
    that one of the bounds exceeds the true value is at most `false_alarm`.
    """
    level = false_alarm / 4  # for each of the two probabilities in each of the two bounds

    def epsilon(counted: _Counted) -> Floats:
        high = _epsilon(counted.after, counted.before, counted.runs, delta, level)
        low = _epsilon(
            counted.runs - counted.before, counted.runs - counted.after, counted.runs, delta, level
        )
        return np.stack([high, low])

    def mu(counted: _Counted) -> Floats:
        return _mu(counted.after, counted.before, counted.runs, level)[None]

    return Evidence(_judged(scores, epsilon), _judged(scores, mu))


def rate_at_least(successes: Counts, runs: int, false_alarm: float) -> Floats:
    """Return the exact lower confidence limit on a probability (Clopper and Pearson)."""
    limit = beta.ppf(false_alarm, np.maximum(successes, 1), runs - successes + 1)
    return np.where(successes > 0, limit, 0.0)


def rate_at_most(successes: Counts, runs: int, false_alarm: float) -> Floats:
    """Return the exact upper confidence limit on a probability (Clopper and Pearson)."""
    return 1 - rate_at_least(runs - successes, runs, false_alarm)


def _epsilon(right: Counts, wrong: Counts, runs: int, delta: float, level: float) -> Floats:
    """Return the lower bound on epsilon from ``P[right] <= e^epsilon P[wrong] + delta``."""
    surplus = rate_at_least(right, runs, level) - delta
    ratio = np.maximum(surplus, 0) / rate_at_most(wrong, runs, level)
    return np.asarray(np.log(np.maximum(ratio, 1)))


def _mu(right: Counts, wrong: Counts, runs: int, level: float) -> Floats:
    """Return the lower bound on mu from ``P[right] <= Phi(Phi^-1(P[wrong]) + mu)``."""
    shift = ndtri(rate_at_least(right, runs, level)) - ndtri(rate_at_most(wrong, runs, level))
    return np.asarray(np.maximum(shift, 0))


def _judged(scores: Sequence[Scores], bound: _Bound) -> float:
    """Return the bound of the best choice on the first half, computed from the second half."""
    best, choice = 0.0, None
    for score in scores:
        first, second = _halves(score)
        thresholds = _thresholds(first)
        values = bound(_count(first, thresholds))
        if values.size and values.max() > best:
            row, column = np.unravel_index(np.argmax(values), values.shape)
            best, choice = float(values.max()), (second, thresholds[[column]], row)
    if choice is None:
        return 0.0
    second, threshold, row = choice
    return float(bound(_count(second, threshold))[row, 0])


def _halves(scores: Scores) -> Iterator[Scores]:
    half = len(scores.before) // 2
    for part in (slice(half), slice(half, None)):
        yield Scores(scores.before[part], scores.after[part])


def _thresholds(scores: Scores) -> Floats:
    """Return thresholds between the scores that occur."""
    values = np.unique(np.concatenate([scores.before, scores.after]))
    gaps = len(values) - 1
    if gaps < 1:
        return np.empty(0)
    from_either_end = np.geomspace(1, gaps, _THRESHOLDS // 3).astype(np.int64) - 1
    even = np.linspace(0, gaps - 1, _THRESHOLDS // 3).astype(np.int64)
    below = np.unique(np.concatenate([from_either_end, gaps - 1 - from_either_end, even]))
    return np.asarray(values[below] + (values[below + 1] - values[below]) / 2)


def _count(scores: Scores, thresholds: Floats) -> _Counted:
    def above(values: Floats) -> Counts:
        return len(values) - np.searchsorted(np.sort(values), thresholds, side="right")

    return _Counted(above(scores.before), above(scores.after), len(scores.before))
