"""The analytic Gaussian profile of Balle and Wang, from its definition in many digits."""

import mpmath


def exact_delta(epsilon, mu, *, digits=60):
    with mpmath.workdps(digits):
        ratio, half = mpmath.mpf(epsilon) / mpmath.mpf(mu), mpmath.mpf(mu) / 2
        return mpmath.ncdf(half - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-half - ratio)
