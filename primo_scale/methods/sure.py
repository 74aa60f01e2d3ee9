"""A ridge penalty chosen by Stein's unbiased estimate of its own risk (docs/maths/estimation.md).

In the basis of X'X the least-squares answer without noise is ``H*_j / lambda_j``, and H = H* + s N
is seen. The loss of ridge in predicting it, summed over directions and phenotypes, has the
unbiased estimate ::

    sum_j [lambda_j l s^2 + (nu^2/lambda_j) (||H_j||^2 - l s^2)] / (lambda_j + nu)^2

which needs no more than the statistics, so choosing nu by it costs no budget. It weighs the
privacy noise only: of the sampling noise of a finite cohort, which `KnownNoise` also weighs, it
knows nothing.

Phenotypes differ in s, since making up for missing values stretches their columns. Each is put in
units of its own noise, and one nu is chosen for all of them: the losses then add up as standardised
ones, and l columns settle the one number better than one column could settle each of l.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from primo_scale.methods.shrinkage import Float64, whitened_squares

_POINTS_PER_DECADE = 8
# Beyond these shares of the smallest and the largest eigenvalue, ridge no longer changes.
_NO_PENALTY = 1e-3
_ALL_PENALTY = 1e6


def sure_penalty(
    eigenvalues: Float64, target: Float64, cross_sigma: Float64, *, least: float
) -> float:
    """The penalty nu >= `least` of smallest estimated risk.

    The estimate can have several minima, so a logarithmic grid finds the valley and a bounded
    search its bottom.

    Parameters
    ----------
    eigenvalues
        Shape (d,), none negative; directions of eigenvalue 0 have no weight to choose.
    target
        H, shape (d, l).
    cross_sigma
        s for each phenotype, shape (l,). Where it is 0 the answer is `least`.
    least
        The norm of the noise in X'X, on which the estimate of the risk is blind.
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
    refined = minimize_scalar(risk, bounds=between, method="bounded", options={"xatol": 1e-6})
    found = (math.exp(grid[best]), math.exp(float(refined.x)))
    candidates = [least, *(max(least, nu) for nu in found)]
    return min(candidates, key=lambda nu: _risk(values, squares, n_phenotypes, nu))


def _risk(eigenvalues: Float64, squares: Float64, n_phenotypes: int, penalty: float) -> float:
    """The estimate in units where s = 1."""
    share = penalty / (eigenvalues + penalty)
    variance = n_phenotypes * (1 - share) ** 2 / eigenvalues
    bias = share**2 * (squares - n_phenotypes) / eigenvalues
    return float((variance + bias).sum())
