"""How far apart two samples prove their laws to be: lower bounds on epsilon and mu.

A test says "after" when a score exceeds a threshold. It is right with some probability T over the
cohort after the change, and wrong with some probability F over the one before. A mechanism that is
(epsilon, delta)-private has ``T <= e^epsilon F + delta``, also with the cohorts exchanged; one that
is mu-Gaussian private has ``T <= Phi(Phi^-1(F) + mu)``. Exact binomial limits on T and F (Clopper
and Pearson, 1934) turn what is counted in runs into lower bounds on epsilon and mu.

The first half of the runs chooses the score and the threshold and the second half judges that
choice alone, so looking at many costs no confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import beta

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# Thresholds tried; they are dense in both tails, where likelihood ratios are large.
_THRESHOLDS = 300


@dataclass(frozen=True)
class Scores:
    """One way of scoring the runs; a high score speaks for the cohort after the change.

    Attributes
    ----------
    before, after
        Of the runs over each cohort: float64, shape (runs,).
    """

    before: Floats
    after: Floats


@dataclass(frozen=True)
class Evidence:
    """Lower bounds on what the mechanism that was run can be; neither assumes anything about it.

    Attributes
    ----------
    epsilon
        At the delta that was asked about.
    mu
        Of Gaussian privacy.
    """

    epsilon: float
    mu: float


@dataclass(frozen=True)
class _Counted:
    """How many of `runs` runs over each cohort exceed each threshold."""

    before: Counts
    after: Counts
    runs: int


_Bound = Callable[[_Counted], Floats]


def evidence(scores: Sequence[Scores], *, delta: float, false_alarm: float) -> Evidence:
    """Bound epsilon and mu from below.

    Parameters
    ----------
    scores
        Ways of scoring the same runs. One that was learned may have been learned from the first
        half of the runs.
    delta
        Of the guarantee in question.
    false_alarm
        Largest probability that either bound exceeds the truth.
    """
    level = false_alarm / 4  # for each of two rates in each of two bounds

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
    """Lower confidence limit on a probability, exact (Clopper and Pearson)."""
    limit = beta.ppf(false_alarm, np.maximum(successes, 1), runs - successes + 1)
    return np.where(successes > 0, limit, 0.0)


def rate_at_most(successes: Counts, runs: int, false_alarm: float) -> Floats:
    """Upper confidence limit on a probability, exact (Clopper and Pearson)."""
    return 1 - rate_at_least(runs - successes, runs, false_alarm)


def _epsilon(right: Counts, wrong: Counts, runs: int, delta: float, level: float) -> Floats:
    """Lower bound on epsilon from ``P[right] <= e^epsilon P[wrong] + delta``."""
    surplus = rate_at_least(right, runs, level) - delta
    ratio = np.maximum(surplus, 0) / rate_at_most(wrong, runs, level)
    bound: Floats = np.log(np.maximum(ratio, 1))
    return bound


def _mu(right: Counts, wrong: Counts, runs: int, level: float) -> Floats:
    """Lower bound on mu from ``P[right] <= Phi(Phi^-1(P[wrong]) + mu)``."""
    shift = ndtri(rate_at_least(right, runs, level)) - ndtri(rate_at_most(wrong, runs, level))
    bound: Floats = np.maximum(shift, 0)
    return bound


def _judged(scores: Sequence[Scores], bound: _Bound) -> float:
    """The bound that the first half of the runs promises most of, computed from the second half."""
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


def _halves(scores: Scores) -> tuple[Scores, Scores]:
    half = len(scores.before) // 2
    return (
        Scores(scores.before[:half], scores.after[:half]),
        Scores(scores.before[half:], scores.after[half:]),
    )


def _thresholds(scores: Scores) -> Floats:
    """Thresholds between the scores that occur."""
    values = np.unique(np.concatenate([scores.before, scores.after]))
    gaps = len(values) - 1
    if gaps < 1:
        return np.empty(0)
    from_either_end = np.geomspace(1, gaps, _THRESHOLDS // 3).astype(np.int64) - 1
    even = np.linspace(0, gaps - 1, _THRESHOLDS // 3).astype(np.int64)
    below = np.unique(np.concatenate([from_either_end, gaps - 1 - from_either_end, even]))
    thresholds: Floats = values[below] + (values[below + 1] - values[below]) / 2
    return thresholds


def _count(scores: Scores, thresholds: Floats) -> _Counted:
    def above(values: Floats) -> Counts:
        return len(values) - np.searchsorted(np.sort(values), thresholds, side="right")

    return _Counted(above(scores.before), above(scores.after), len(scores.before))
