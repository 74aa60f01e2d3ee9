"""Exact calibration of the Gaussian mechanism to (epsilon, delta) (docs/maths/noise.md).

One number, mu, describes a set of Gaussian releases: the length of the joint shift that one person
can cause, in units of the noise. Its (epsilon, delta) curve is the analytic Gaussian profile of
Balle and Wang (2018), and mu^2 adds up under composition. All functions round toward more noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import scipy

from primo_scale.errors import UsageError
from primo_scale.gaussian.sensitivity import Adjacency

# Share of epsilon that covers the cost of noise on a lattice instead of the real line and the
# error of the floating-point profile, inside the region below (docs/maths/noise.md, Theorem 8).
# Releases are calibrated at epsilon (1 - LATTICE_MARGIN).
LATTICE_MARGIN = 1e-6
SMALLEST_EPSILON = 1e-3
LARGEST_EPSILON = 100.0
DELTA_RANGE = (1e-30, 1e-3)
MOST_DRAWS = 10**11
"""Most noisy values of one release for which the margin is proved."""

_ROUNDING = 1e-12
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_USUAL_EPSILON = "Values from 0.1 (strict) to 10 (weak) are usual"
_USUAL_DELTA = "A common choice is 1/n^2 for n people"


@dataclass(frozen=True)
class Cost:
    """Privacy cost of a release; every component adds up over releases."""

    mu_squared: float  # of the Gaussian mechanisms
    # Of mechanisms known only to be (epsilon, delta)-private, such as X'X of a secret subsample.
    epsilon: float = 0.0
    delta: float = 0.0


NO_COST = Cost(0.0)
"""Cost of nothing."""


def log_delta(epsilon: float, mu: float) -> float:
    """Return the natural logarithm of the analytic Gaussian profile ``delta(epsilon; mu)``.

    ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``. With
    ``x = epsilon/mu`` and the Mills ratio ``M(u) = Phi(-u)/phi(u)`` this is
    ``phi(x - mu/2) [M(x - mu/2) - M(x + mu/2)]``, without overflow or cancellation: the relative
    error is below 1e-10 for epsilon from 0.001 to 100 and delta down to 1e-300.
    Source: docs/maths/noise.md, Theorem 1.
    """
    near = epsilon / mu - mu / 2
    far = epsilon / mu + mu / 2
    if near < 0:  # the Mills ratio may overflow here, but delta is not small
        difference = scipy.special.ndtr(-near) - math.exp(epsilon + scipy.special.log_ndtr(-far))
        return math.log(difference) if difference > 0 else -math.inf
    difference = _mills_ratio(near) - _mills_ratio(far)
    if difference <= 0:
        return -math.inf
    return -near * near / 2 - _LOG_SQRT_TWO_PI + math.log(difference)


def _mills_ratio(u: float) -> float:
    return _SQRT_HALF_PI * float(scipy.special.erfcx(u / math.sqrt(2)))


def _bracket_root(
    function: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """Return neighbouring numbers between which an increasing function exceeds 0.

    The function is at most 0 at `low` and at the first number, and above 0 at `high` and at the
    second. Bisection replaces `scipy.optimize.brentq`, whose package takes long to import, in every
    command.
    """
    while low < (middle := low + (high - low) / 2) < high:
        if function(middle) <= 0:
            low = middle
        else:
            high = middle
    return low, high


def mu_for(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-private, rounded down by a relative 1e-12.

    An epsilon or delta that no mechanism could have raises a UsageError.
    Source: docs/maths/noise.md, Theorem 1.
    """
    _check(epsilon, delta)
    log_target = math.log(delta)
    # The zero-concentrated bound is valid but loose, so it brackets the root from below.
    low = math.sqrt(2) * epsilon / (math.sqrt(epsilon - log_target) + math.sqrt(-log_target))
    high = 2 * low
    while log_delta(epsilon, high) < log_target:
        high *= 2
    root, _ = _bracket_root(lambda mu: log_delta(epsilon, mu) - log_target, low * 0.999, high)
    return root * (1 - _ROUNDING)


def epsilon_for(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which mu is (epsilon, delta)-private, rounded up.

    A mu or delta that no mechanism could have raises a UsageError.
    Source: docs/maths/noise.md, Theorem 1.
    """
    if not (math.isfinite(mu) and mu >= 0):
        raise UsageError("mu must be finite and not negative", value=mu)
    _check(1.0, delta)
    log_target = math.log(delta)
    if mu == 0 or log_delta(0.0, mu) <= log_target:
        return 0.0
    high = mu**2 / 2 + mu * math.sqrt(-2 * log_target)  # the zero-concentrated bound
    _, root = _bracket_root(lambda epsilon: log_target - log_delta(epsilon, mu), 0.0, high)
    return root * (1 + _ROUNDING) + _ROUNDING


@cache
def release_mu(epsilon: float, delta: float) -> float:
    """Return the mu that a release with noise on the lattice may use and is charged for.

    An epsilon outside of 1e-3 to 100, or a delta outside of 1e-30 to 1e-3, raises a UsageError: the
    lattice margin is proved, and the profile is accurate, only in this region.
    Source: docs/maths/noise.md, Theorems 1 and 8.
    """
    _check(epsilon, delta)
    for name, value, low, high, remedy in (
        ("epsilon", epsilon, SMALLEST_EPSILON, LARGEST_EPSILON, _USUAL_EPSILON),
        ("delta", delta, *DELTA_RANGE, _USUAL_DELTA),
    ):
        if not low <= value <= high:
            raise UsageError(
                f"{name} is outside the range for which the noise is proved",
                where=f"--{name}",
                value=value,
                limit=f"{low:g} to {high:g}",
                remedy=remedy,
            )
    return mu_for(epsilon * (1 - LATTICE_MARGIN), delta)


def check_draws(draws: int) -> None:
    """Refuse a release of more noisy values than the lattice margin is proved for.

    Source: docs/maths/noise.md, Theorem 8.
    """
    if draws > MOST_DRAWS:
        raise UsageError(
            "the release has more noisy values than its noise is proved for",
            value=draws,
            limit=MOST_DRAWS,
            remedy="Release fewer phenotypes or columns together, or give smaller LD blocks",
        )


def composed_epsilon(cost: Cost, delta: float) -> float:
    """Return the epsilon, at `delta`, of the composition of releases with a given total cost.

    It is ``eps(mu, delta - sum delta_j) + sum eps_j``, or infinite if sum delta_j reaches delta.
    Source: docs/maths/noise.md, Theorems 2 and 3.
    """
    if cost.delta >= delta:
        return math.inf
    gaussian = epsilon_for(math.sqrt(cost.mu_squared), delta - cost.delta)
    return (1 + 2 * LATTICE_MARGIN) * gaussian + cost.epsilon


def optimal_split(gram_weight: float, cross_weight: float, adjacency: Adjacency) -> float:
    """Return the split t = D/A of a joint release that minimises ``a/A + b/D``.

    Under replace-one it is ``(-b + sqrt(b^2 + 16ab)) / 4a`` in (0, 2], computed without
    cancellation. Under add-remove, where A + D is given, it is ``sqrt(b/a)``.
    Source: docs/maths/sensitivity.md, Theorem 3.

    The weights are ``a = N_x ||W||_F^2 / 2`` and ``b = l N_z``: the first-order excess losses due
    to the noise on X'X and on X'Z, in the same unit.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return math.sqrt(cross_weight / gram_weight)
    return 4 / (1 + math.sqrt(1 + 16 * gram_weight / cross_weight))


def optimal_split_by_block(gram_weight: float, cross_weight: float) -> float:
    """Return the split t that minimises ``a/Q + b/D`` for the release by block, replace-one.

    With ``tau = t/2``, ``1/Q = 2 (1 + tau)^3`` and ``1/D = 2 (1 + tau)^3 / (tau (3 + tau^2))``
    (docs/maths/sensitivity.md, Theorem 3). The weights a and b are those of `optimal_split`. The
    minimum is flat, so t is rounded to a positive multiple of 1/64, which is exact in every
    formula.
    """
    gamma = math.sqrt(cross_weight / gram_weight)
    stretch = 1 + gamma / 3
    split = 4 * math.sqrt(stretch) * math.sinh(math.asinh(gamma / (2 * stretch**1.5)) / 3)
    return max(1, round(64 * min(split, 2.0))) / 64


def _check(epsilon: float, delta: float) -> None:
    """Refuse an epsilon that is not positive and finite, and a delta outside of (0, 1)."""
    if not 0 < epsilon < math.inf:
        what = "epsilon must be a positive number"
        raise UsageError(what, where="--epsilon", value=epsilon, remedy=_USUAL_EPSILON)
    if not 0 < delta < 1:
        what = "delta must be strictly between 0 and 1"
        raise UsageError(what, where="--delta", value=delta, remedy=_USUAL_DELTA)
