"""Projection of a noisy X'Y onto what bounded rows can make of it (docs/maths/estimation.md).

Given X, the true X'Y lies in ``K = {X'Z : ||Z||_F <= R}`` with ``R^2 >= ||Y||_F^2``. The nearest
point of K to the noisy G is, with ``X'X = V diag(lambda) V'`` and ``H = V'G``, ::

    P = V diag(lambda_j / (lambda_j + nu)) H
    phi(nu) = sum_j lambda_j ||H_j||^2 / (lambda_j + nu)^2 = ||Z||_F^2
    nu = 0 if phi(0) <= R^2, else the root of phi(nu) = R^2

K is a ball and not a sphere: a G inside it stays where it is. Because ``(X'X)^-1 P`` is
``V diag(1/(lambda_j + nu)) H``, solving after the projection is ridge at the penalty nu.
Given Y in place of X the same holds with ``T = Y'Y`` for X'X and G' for G: a multiplication of G
from the right by ``T (T + nu I)^-1``. Source: PRIMO, GaussProj, with the corrections of
docs/maths/papers.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.optimize import brentq

from primo_scale.methods.shrinkage import Float64, floored_at_zero

# A radius from a noisy sum of squares is drawn this many of its sigmas too wide: below 1 in 700
# the truth is left outside.
RADIUS_SIGMAS = 3


@dataclass(frozen=True)
class PhenotypeProjection:
    """Projection across phenotypes, ``G -> G matrix``.

    Attributes
    ----------
    matrix
        ``T (T + nu I)^-1``, symmetric, shape (l, l).
    multiplier
        nu, squared lattice units.
    """

    matrix: Float64
    multiplier: float


def ball_multiplier(eigenvalues: Float64, squares: Float64, squared_radius: float) -> float:
    """The multiplier nu of the projection onto K: the root of the secular equation.

    Parameters
    ----------
    eigenvalues
        lambda_j, shape (d,), none negative, of all blocks together; those of 0 drop out.
    squares
        ``||H_j||^2``, shape (d,).
    squared_radius
        R^2.

    Returns
    -------
    float
        0 inside the ball, inf where nothing but 0 is left of G.

    Notes
    -----
    phi is convex and decreasing, and ``phi^(-1/2)`` is nearly linear in nu, which makes Brent's
    method on it quick; it cannot leave its bracket, which Newton's could.
    """
    spanned = (eigenvalues > 0) & (squares > 0)
    if not spanned.any():
        return 0.0
    # In units of the largest eigenvalue and of the bracket's top nothing over- or underflows.
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

    # phi(nu) < sum lambda ||H||^2 / nu^2, so that here it is below R^2, rounding included.
    highest = 1.001 * math.sqrt(float(values @ weights)) / radius
    root = brentq(excess, 0.0, highest, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500)
    return float(root) * scale


def shares_kept(eigenvalues: Float64, multiplier: float) -> Float64:
    """``lambda_j / (lambda_j + nu)``, and 0 where lambda_j is 0; shape (d,)."""
    shares = np.zeros_like(eigenvalues)
    return np.divide(eigenvalues, eigenvalues + multiplier, out=shares, where=eigenvalues > 0)


def project_phenotypes(
    phenotype_gram: Float64, targets: Iterable[Float64], squared_radius: float
) -> PhenotypeProjection:
    """Find the projection of X'Y, given Y'Y.

    Parameters
    ----------
    phenotype_gram
        T = Y'Y, shape (l, l).
    targets
        X'Y in parts of shape (d_b, l), one after the other.
    squared_radius
        R^2, at least ``||X||_F^2``.

    Notes
    -----
    With more phenotypes than people T has rank n at most, and its null directions are dropped. An
    n x n problem would do then, but it needs Y, of which only T is at hand, and a second pass over
    Y for ``G Y'``. It would save half a second: for l = 2,000 and n = 200 the eigenvectors of T
    take 0.55 s on two cores, those of YY' 0.02 s, and ``G Y'`` no less than ``G U`` here.
    """
    values, vectors = scipy.linalg.eigh(phenotype_gram, check_finite=False)
    values = floored_at_zero(values)
    squares = np.zeros_like(values)
    for target in targets:
        squares += ((target @ vectors) ** 2).sum(axis=0)
    multiplier = ball_multiplier(values, squares, squared_radius)
    return PhenotypeProjection((vectors * shares_kept(values, multiplier)) @ vectors.T, multiplier)


def squared_radius(bound: float, noisy_total: float, sigma: float) -> float:
    """R^2 from what is known of a sum of squared norms over all people.

    Parameters
    ----------
    bound
        What public bounds on the rows allow, n N; inf where there are none.
    noisy_total
        The trace of the noisy X'X or Y'Y.
    sigma
        Standard deviation of the noise in it.
    """
    return min(bound, max(noisy_total, 0.0) + RADIUS_SIGMAS * sigma)


def _norm_of_fit(eigenvalues: Float64, squares: Float64, nu: float) -> float:
    """phi(nu)."""
    damped = eigenvalues + nu
    return float((eigenvalues / damped * squares / damped).sum())
