"""Iterative Hessian Mixing and BoostedAdaSSP: one outcome or several, under add-remove.

Lev et al. ("Near-Optimal Private Linear Regression via Iterative Hessian Mixing", arXiv 2601.07545)
replace X'X by that of a Gaussian sketch, whose k rows are normal with the covariance
``X'X + eta^2 I``, and correct the weights in T rounds by noisy sums of clipped residuals. Tang et
al. ("Improved Differentially Private Regression via Gradient Boosting", arXiv 2303.03451) do so
with one noisy X'X. Rows have norm 1 at most, and residual rows are clipped to the norm C.

Details come from the abstracts and the authors' programs (omrilev1/HessianMix, shuaitang/
BoostedAdaSSP), which were read and not copied. The accounting is this project's, and exact: let M
be the covariance of a sketch's rows with a person, and M - xx' without. In one direction the
variance is 1 against 1 - s, with ``s = x' M^-1 x <= 1/gamma`` if the smallest eigenvalue of M is
gamma or more; in all others the two agree. The sum of the squares of all T k rows in that direction
is sufficient, so the sketches cost as much as chi^2 with T k degrees of freedom against 1 - 1/gamma
times it. What else is released is one Gaussian mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import log_ndtr, ndtr
from scipy.stats import chi2, norm

from experiments.gaussian_noise import Draws, Float64
from primo_scale.gaussian.calibration import mu_for

_FAILURE = 0.1  # share of delta for an eigenvalue that the noise overstates
_MARGIN = 1.96  # standard deviations in the ridge of BoostedAdaSSP
_TAIL = 1e-25
_POINTS = 4001


def gaussian_delta(epsilon: Float64, mu: float) -> Float64:
    """Return the profile of the Gaussian mechanism, for every real epsilon."""
    if mu == 0:
        return np.asarray(np.maximum(0, -np.expm1(epsilon)))
    far = np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))
    return np.asarray(ndtr(mu / 2 - epsilon / mu) - far)


def sketch_delta(epsilon: float, gamma: float, n_rows: int, mu: float) -> float:
    """Return delta of Gaussian sketches of `n_rows` rows in all, composed with a Gaussian `mu`.

    It is the larger of the two directions of add-remove.
    """
    low, high = chi2.ppf(_TAIL, n_rows), chi2.isf(_TAIL, n_rows)
    squares = np.linspace(low, high, _POINTS)
    mass = chi2.pdf(squares, n_rows) * (high - low) / (_POINTS - 1)
    smaller = 1 - 1 / gamma
    constant = n_rows / 2 * math.log(smaller)
    with_person = squares / 2 * (1 / smaller - 1) + constant
    without = -(squares / 2 * (1 - smaller) + constant)
    losses = (with_person, without)
    return max(float(mass @ gaussian_delta(epsilon - loss, mu)) for loss in losses)


@dataclass(frozen=True)
class Mixing:
    """Hyperparameters of Iterative Hessian Mixing."""

    rounds: int  # T
    factor: float  # k in multiples of ``max(d, log(4 T / rho))`` with ``rho = delta / 10``

    def sketch_rows(self, n_features: int, delta: float) -> int:
        """Return k, by the rule of the authors' program."""
        return int(self.factor * max(n_features, math.log(40 * self.rounds / delta)))


@dataclass(frozen=True)
class MixingNoise:
    """Noise of Iterative Hessian Mixing, for rows of norm 1."""

    gamma: float  # smallest eigenvalue that a sketch's covariance must have
    eigenvalue: float  # standard deviation of the noise on the smallest eigenvalue of X'X
    margin: float  # what is subtracted from that eigenvalue
    gradient: float  # standard deviation of the noise on X'R, in units of the clip C


def mixing_noise(
    epsilon: float, delta: float, *, rounds: int, sketch_rows: int, share: float = 0.5
) -> MixingNoise:
    """Return the least gamma that keeps the promise.

    A `share` of mu^2 is for the residuals. The eigenvalue's noise is ``gamma / sqrt(k)``, as in the
    authors' program.
    """
    residuals = math.sqrt(share) * mu_for(epsilon, delta)
    left = (1 - _FAILURE) * delta

    def excess(log_gamma: float) -> float:
        gamma = 1 + math.exp(log_gamma)
        mu = math.hypot(residuals, math.sqrt(sketch_rows) / gamma)
        spent = sketch_delta(epsilon, gamma, rounds * sketch_rows, mu)
        return math.log(max(spent, 1e-300)) - math.log(left)

    root = scipy.optimize.brentq(excess, -5, 40, xtol=1e-6)
    gamma = 1 + math.exp(root + 1e-6)
    eigenvalue = gamma / math.sqrt(sketch_rows)
    margin = eigenvalue * float(norm.isf(_FAILURE * delta))
    return MixingNoise(gamma, eigenvalue, margin, math.sqrt(rounds) / residuals)


def iterative_mixing(
    X: Float64,
    Y: Float64,
    clip: float,
    noise: MixingNoise,
    mixing: Mixing,
    sketch_rows: int,
    rng: np.random.Generator,
    gram: Float64 | None = None,
) -> Float64:
    """Return the weights after T rounds, shape (d, l); the norms of the rows of X are at most 1."""
    gram = X.T @ X if gram is None else gram
    smallest = float(scipy.linalg.eigvalsh(gram, subset_by_index=(0, 0))[0])
    stated = smallest + noise.eigenvalue * rng.standard_normal() - noise.margin
    added = max(0.0, noise.gamma - max(0.0, stated))
    root: Float64 = np.asarray(np.linalg.cholesky(gram + (added + 1e-9) * np.eye(len(gram))))
    weights = np.zeros((X.shape[1], Y.shape[1]))
    for _ in range(mixing.rounds):
        hessian = sketched(root, sketch_rows, rng)
        slope = _clipped_slope(X, Y, weights, clip)
        slope += noise.gradient * clip * rng.standard_normal(slope.shape)
        weights += scipy.linalg.solve(hessian, slope, assume_a="pos")
    return weights


def sketched(root: Float64, sketch_rows: int, rng: np.random.Generator) -> Float64:
    """Return Z'Z / k for k normal rows Z of covariance ``root root'``, by Bartlett's division.

    It has the law of the sketch without an n x k matrix, and the weights need no more of it.
    """
    size = len(root)
    lower = np.tril(rng.standard_normal((size, size)), -1)
    lower[np.diag_indices(size)] = np.sqrt(rng.chisquare(sketch_rows - np.arange(size)))
    product = root @ lower
    return np.asarray(product @ product.T / sketch_rows)


def boosted_ada_ssp(
    X: Float64,
    Y: Float64,
    clip: float,
    promise: tuple[float, float],
    rounds: int,
    draws: Draws,
    rng: np.random.Generator,
    gram: Float64 | None = None,
) -> Float64:
    """Return the weights of BoostedAdaSSP with constant step size 1; AdaSSP for one round.

    X'X, its smallest eigenvalue and all sums of residuals get a third of mu^2 each; the noise of
    X'X is in svec layout. The ridge is the authors'.
    """
    gram = X.T @ X if gram is None else gram
    size, sigma = len(gram), 1 / (mu_for(*promise) / math.sqrt(3))
    smallest = float(scipy.linalg.eigvalsh(gram, subset_by_index=(0, 0))[0])
    stated = smallest + sigma * (rng.standard_normal() - _MARGIN)
    ridge = max(0.0, _MARGIN * sigma * math.sqrt(size) - max(0.0, stated))
    factors = scipy.linalg.lu_factor(gram + sigma * draws.svec + ridge * np.eye(size))
    weights = np.zeros((size, Y.shape[1]))
    for _ in range(rounds):
        slope = _clipped_slope(X, Y, weights, clip)
        slope += sigma * math.sqrt(rounds) * clip * rng.standard_normal(slope.shape)
        weights += scipy.linalg.lu_solve(factors, slope)
    return weights


def _clipped_slope(X: Float64, Y: Float64, weights: Float64, clip: float) -> Float64:
    """Return X'R for residuals R, whose rows are clipped to a norm."""
    residuals = Y - X @ weights
    norms = np.linalg.norm(residuals, axis=1)[:, None]
    residuals *= np.minimum(1, clip / np.maximum(norms, 1e-300))
    return np.asarray(X.T @ residuals)
