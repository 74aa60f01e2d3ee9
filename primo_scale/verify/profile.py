"""Privacy profile of Gaussian noise on a lattice, which shares no code with the calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from primo_scale.verify.words import KEYSTREAM_DISTANCE

_ERFCX_OVERFLOWS = 26.0
_HOPELESS_MU = 1e6  # epsilon is above 10^11
# Every sigma is rounded up, and mu down, by at most 1e-12 of its value. The tolerance is wider than
# this rounding and far narrower than any relevant change.
TOLERANCE = 1e-9
# Noise is calibrated to (1 - 1e-6) epsilon; the rest covers the cost of the lattice.
EPSILON_TOLERANCE = 1e-5
# Steps of the noise lattice to a standard deviation: the fewest for which the lattice's cost is
# proved, and the most that the 64-bit integers of the sampler hold.
COARSEST_SIGMA, FINEST_SIGMA = 2.0**32, 2.0**58
MOST_DRAWS = 10**11  # in a release, for which the lattice's cost is proved to be negligible
_ROUNDING = 1e-6  # of numbers that were computed from the same noisy statistics


@dataclass(frozen=True)
class Lattice:
    """Number of noisy values in a release, and least lattice steps per standard deviation."""

    draws: int
    steps: float


def close(found: float, expected: float) -> bool:
    """Return whether two numbers are equal up to `TOLERANCE`."""
    return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=1e-300)


def is_about(found: Any, wanted: Any) -> bool:
    """Return whether two JSON values are equal up to the rounding of their numbers."""
    if isinstance(wanted, dict):
        same = isinstance(found, dict) and found.keys() == wanted.keys()
        return same and all(is_about(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return same and all(map(is_about, found, wanted))
    if isinstance(wanted, float) and isinstance(found, int | float):
        return math.isclose(found, wanted, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return bool(found == wanted)


def log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of the exact privacy profile of the Gaussian mechanism.

    ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Balle and Wang 2018),
    in a form without cancellation (docs/maths/calibration.md).
    """
    if mu == 0:
        return -math.inf
    upper = (epsilon / mu - mu / 2) / math.sqrt(2)
    lower = (epsilon / mu + mu / 2) / math.sqrt(2)
    if upper < -_ERFCX_OVERFLOWS:
        tail = math.exp(epsilon + float(log_ndtr(-lower * math.sqrt(2))))
        return math.log1p(-math.exp(log_ndtr(upper * math.sqrt(2))) - tail)
    difference = float(erfcx(upper) - erfcx(lower))
    if difference <= 0:
        return -math.inf
    return math.log(difference / 2) - upper * upper


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-Gaussian privacy is (epsilon, delta)-privacy."""
    if delta <= 0 or mu > _HOPELESS_MU:
        return math.inf
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    high = max(1.0, mu * mu)
    while log_delta(high, mu) > target:
        high *= 2
    low = 0.0
    while low < (middle := (low + high) / 2) < high:  # by bisection, to neighbouring numbers
        low, high = (middle, high) if log_delta(middle, mu) > target else (low, middle)
    return high


def log_delta_on_lattice(epsilon: float, mu: float, delta: float, lattice: Lattice) -> float:
    """Return `log_delta` for noise on a lattice instead of ideal noise.

    m draws at sigma/h or finer cost eta + eta' of epsilon, a factor e^eta of delta, and an event of
    probability e^-a with a free parameter a (docs/maths/noise.md, Theorem 3). The keystream sampler
    costs (1 + e^epsilon) m tau of delta instead. Both costs are included. `delta` is an approximate
    result, by which a is chosen.
    """
    draws = lattice.draws
    eta = draws / (24 * lattice.steps**2)
    rare = epsilon + 50 - math.log(delta)
    other_way = eta * (1 + 2 * math.sqrt(rare / draws) + 2 * rare / draws)
    left = epsilon - eta - other_way
    if left <= 0:
        return math.inf
    ideal = np.logaddexp(log_delta(left, mu), left - rare)
    keystream = np.logaddexp(0.0, epsilon) + math.log(draws) + math.log(KEYSTREAM_DISTANCE)
    return float(np.logaddexp(eta + ideal, keystream))
