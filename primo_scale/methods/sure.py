"""Ridge penalty that minimizes Stein's unbiased risk estimate (docs/maths/estimation.md).

In the eigenbasis of X'X the noiseless least-squares solution is ``H*_j / lambda_j``, and the
observed target is H = H* + s N. The prediction loss of ridge, summed over directions and
phenotypes, has the unbiased estimate ::

    sum_j [lambda_j l s^2 + (nu^2/lambda_j) (||H_j||^2 - l s^2)] / (lambda_j + nu)^2

The estimate needs only the released statistics, so choosing nu by it costs no budget. It accounts
for the privacy noise only, whereas `KnownNoise` also accounts for the sampling noise of a finite
cohort.

Phenotypes differ in s, because the correction for missing values rescales their columns. Each
column is standardised by its own noise, and a single nu is chosen for all phenotypes: l columns
determine one number more precisely than one column determines each of l numbers.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from primo_scale.methods.shrinkage import Float64, whitened_squares

_POINTS_PER_DECADE = 8
# Ridge is practically constant in nu below this share of the smallest eigenvalue and above this
# multiple of the largest eigenvalue.
_NO_PENALTY = 1e-3
_ALL_PENALTY = 1e6


def sure_penalty(
    eigenvalues: Float64, target: Float64, cross_sigma: Float64, *, least: float
) -> float:
    """Return the penalty nu >= `least` that minimizes the estimated risk.

    The target H has shape (d, l). Directions with eigenvalue 0 are ignored. If the standard
    deviation s of the noise is 0 for any phenotype, the result is `least`, the norm of the noise in
    X'X, which the risk estimate ignores.

    The estimate can have several minima, so a logarithmic grid locates the lowest one and a bounded
    search refines it.
    """
    values = eigenvalues[eigenvalues > 0]
    if not len(values) or not cross_sigma.all():
        return least
    squares = whitened_squares(target[eigenvalues > 0], cross_sigma)
    n_phenotypes = len(cross_sigma)

    def risk(log_penalty: float) -> float:
        return _risk(values, squares, n_phenotypes, math.exp(log_penalty))

    lowest = math.log(max(least, _NO_PENALTY * float(values.min())))
    highest = max(lowest + 1, math.log(_ALL_PENALTY * float(values.max())))
    n_points = math.ceil((highest - lowest) / math.log(10) * _POINTS_PER_DECADE) + 1
    grid = np.linspace(lowest, highest, n_points)
    best = int(np.argmin([risk(point) for point in grid]))
    between = (grid[max(best - 1, 0)], grid[min(best + 1, n_points - 1)])
    refined = scipy.optimize.minimize_scalar(
        risk, bounds=between, method="bounded", options={"xatol": 1e-6}
    )
    found = (math.exp(grid[best]), math.exp(float(refined.x)))
    candidates = [least, *(max(least, nu) for nu in found)]
    return min(candidates, key=lambda nu: _risk(values, squares, n_phenotypes, nu))


def _risk(eigenvalues: Float64, squares: Float64, n_phenotypes: int, penalty: float) -> float:
    """Return the risk estimate in units where s = 1."""
    share = penalty / (eigenvalues + penalty)
    variance = n_phenotypes * (1 - share) ** 2 / eigenvalues
    bias = share**2 * (squares - n_phenotypes) / eigenvalues
    return float((variance + bias).sum())
