"""Projection of a noisy X'Y onto the set that bounded rows can produce (docs/maths/estimation.md).

Given X, the true X'Y lies in ``K = {X'Z : ||Z||_F <= R}`` with ``R^2 >= ||Y||_F^2``. The nearest
point of K to the noisy G is, with ``X'X = V diag(lambda) V'`` and ``H = V'G``, ::

    P = V diag(lambda_j / (lambda_j + nu)) H
    phi(nu) = sum_j lambda_j ||H_j||^2 / (lambda_j + nu)^2 = ||Z||_F^2
    nu = 0 if phi(0) <= R^2, else the root of phi(nu) = R^2

K is a ball, not a sphere: the projection leaves a G inside K unchanged. Because ``(X'X)^-1 P`` is
``V diag(1/(lambda_j + nu)) H``, solving after the projection is ridge with penalty nu.
If Y is given instead of X, the same holds with ``T = Y'Y`` for X'X and G' for G: the projection
multiplies G from the right by ``T (T + nu I)^-1``. Source: PRIMO, GaussProj, with the corrections
of docs/maths/papers.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from primo_scale.methods.shrinkage import Float64, floored_at_zero, quotient

# Number of standard deviations added to a radius from a noisy sum of squares. The true value lies
# outside the widened radius with probability below 1 in 700.
RADIUS_SIGMAS = 3


@dataclass(frozen=True)
class PhenotypeProjection:
    """Projection across phenotypes, ``G -> G matrix``.

    The matrix ``T (T + nu I)^-1`` is symmetric, shape (l, l). The Lagrange multiplier nu is in
    squared lattice units.
    """

    matrix: Float64
    multiplier: float


def ball_multiplier(eigenvalues: Float64, squares: Float64, squared_radius: float) -> float:
    """Return the multiplier nu of the projection onto K, the root of the secular equation.

    It is 0 if G lies inside the ball and inf if the projection of G is 0. The nonnegative
    eigenvalues lambda_j are those of all blocks, shape (d,); zeros are ignored. `squares` are the
    squared norms ``||H_j||^2``, shape (d,).

    phi is convex and decreasing, and ``phi^(-1/2)`` is nearly linear in nu, so that Brent's method
    converges quickly on it. Brent's method cannot leave its bracket, whereas Newton's can.
    """
    spanned = (eigenvalues > 0) & (squares > 0)
    if not spanned.any():
        return 0.0
    # Scaling by the largest eigenvalue prevents overflow and underflow.
    scale = float(eigenvalues.max())
    values = eigenvalues[spanned] / scale
    weights = squares[spanned] / scale
    if squared_radius <= 0:
        return math.inf
    if _norm_of_fit(values, weights, 0.0) <= squared_radius:
        return 0.0
    radius = math.sqrt(squared_radius)

    def excess(nu: float) -> float:
        return 1 / math.sqrt(_norm_of_fit(values, weights, nu)) - 1 / radius

    # phi(nu) < sum lambda ||H||^2 / nu^2, so phi(highest) < R^2; 1.001 allows for rounding.
    highest = 1.001 * math.sqrt(float(values @ weights)) / radius
    root = scipy.optimize.brentq(
        excess, 0.0, highest, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500
    )
    return float(root) * scale


def shares_kept(eigenvalues: Float64, multiplier: float) -> Float64:
    """Return ``lambda_j / (lambda_j + nu)``, or 0 where lambda_j is 0; shape (d,)."""
    return quotient(eigenvalues, eigenvalues + multiplier)


def project_phenotypes(
    phenotype_gram: Float64, targets: Iterable[Float64], squared_radius: float
) -> PhenotypeProjection:
    """Return the projection of X'Y, given T = Y'Y, X_b'Y of each block and ``R^2 >= ||X||_F^2``.

    With more phenotypes than people, T has rank at most n, and its null directions are dropped. An
    equivalent n x n problem would need Y, which is not available here.
    """
    values, vectors = scipy.linalg.eigh(phenotype_gram, check_finite=False)
    values = floored_at_zero(values)
    squares = np.zeros_like(values)
    for target in targets:
        squares += ((target @ vectors) ** 2).sum(axis=0)
    multiplier = ball_multiplier(values, squares, squared_radius)
    return PhenotypeProjection((vectors * shares_kept(values, multiplier)) @ vectors.T, multiplier)


def squared_radius(bound: float, noisy_total: float, sigma: float) -> float:
    """Return R^2, an upper bound on the sum of squared row norms over all people.

    `bound` is the public upper bound n N, or inf if the rows have none. `noisy_total` is the trace
    of the noisy X'X or Y'Y, and `sigma` the standard deviation of its noise.
    """
    return min(bound, max(noisy_total, 0.0) + RADIUS_SIGMAS * sigma)


def _norm_of_fit(eigenvalues: Float64, squares: Float64, nu: float) -> float:
    """Return phi(nu)."""
    damped = eigenvalues + nu
    return float((eigenvalues / damped * squares / damped).sum())
