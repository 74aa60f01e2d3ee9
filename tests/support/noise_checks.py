"""Checks of drawn noise, which reject correct noise with probability `RISK`; the exact profile."""

import math

import mpmath
import numpy as np
from scipy import stats

RISK = 1e-6
KEY = bytes(range(32))


def has_scale(noise, sigma=1.0):
    """Return whether the variance of normal draws is compatible with a standard deviation."""
    low, high = stats.chi2.ppf([RISK / 2, 1 - RISK / 2], noise.size)
    return low <= np.sum((noise / sigma) ** 2) <= high


def correlated(first, second):
    """Return whether two samples of equal size are correlated."""
    limit = stats.norm.isf(RISK / 2) / math.sqrt(len(first))
    return abs(np.corrcoef(first, second)[0, 1]) > limit


def exact_delta(epsilon, mu, *, digits=60):
    """Return the analytic Gaussian profile of Balle and Wang, from its definition."""
    with mpmath.workdps(digits):
        ratio, half = mpmath.mpf(epsilon) / mpmath.mpf(mu), mpmath.mpf(mu) / 2
        return mpmath.ncdf(half - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-half - ratio)
