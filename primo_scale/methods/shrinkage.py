"""Shrinkage of the eigen-directions of X'X, which limits the effect of noise on the weights.

With ``X'X = V diag(lambda) V'`` and the target ``H = V'X'Y``, the weights are ``W = V (f * H)``. A
shrinkage rule is a choice of the factors f, which may differ by phenotype and may depend on H.
Least squares has ``f = 1/lambda``: with noise in X'X it divides by numbers near zero, of either
sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

# Eigenvalues of a noisy Gram matrix below this share of the noise norm carry no information
# (docs/maths/estimation.md, Theorem 4).
FLOOR_SHARE = 0.3


class Shrinkage(Protocol):
    """Rule that maps the eigenvalues and the target of one LD block to factors on the target.

    `eigenvalues` has shape (d,) and is the result of `floored_at_zero`; `target` has shape (d, l).
    """

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Return the factors f, shape (d, 1), or (d, l) if they differ between phenotypes."""
        ...


@dataclass(frozen=True)
class Ridge:
    """Ridge regression, ``f = 1/(lambda + r)``."""

    # Penalty r, in squared lattice units. If it is 0, directions that X does not span get weight 0.
    penalty: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Return the factors, shape (d, 1); they do not depend on the target."""
        return quotient(np.ones_like(eigenvalues), eigenvalues + self.penalty)[:, None]


@dataclass(frozen=True)
class KnownNoise:
    """Posterior mean of small effects for known noise in X'Y.

    The factor ``f = t lambda / (t lambda^2 + v lambda + s^2)`` is the Wiener filter for effects
    with prior variance t, residual variance v per person, and noise of variance s^2 in X'Y
    (docs/maths/estimation.md, Theorem 4). Ridge is the case s = 0 with ``r = v/t``. Directions
    with more noise than signal are shrunk more than by any single ridge penalty.
    """

    # Prior variance t of the effects on each phenotype, attenuated by clipping, in lattice units,
    # shape (l,).
    effect_variance: Float64
    residual_variance: Float64  # residual variance v of each phenotype, shape (l,)
    cross_sigma: Float64  # standard deviation s of the noise in X'Y, for each phenotype, shape (l,)
    # Scale of the noise in X'X of the block. Eigenvalues are raised to a share of its norm.
    gram_sigma: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Return the factors, shape (d, l); they do not depend on the target."""
        floor = FLOOR_SHARE * noise_norm(self.gram_sigma, len(eigenvalues))
        values = np.maximum(eigenvalues, floor)[:, None]
        signal = self.effect_variance * values
        noise = self.residual_variance * values + self.cross_sigma**2
        return quotient(signal, signal * values + noise)


@dataclass(frozen=True)
class JamesStein:
    """Ridge times a James-Stein factor that pools all phenotypes for each direction.

    ``f_j = max(0, 1 - (l-2)/||H_j||^2) / (max(lambda_j, m) + r)``. The norm is taken over
    phenotypes, each in units of its own noise s: the correction for missing values increases the
    noise of a phenotype, and the estimator requires equal noise in all columns. With fewer than
    three phenotypes, or without noise, the rule is plain ridge.
    Source: James and Stein (1961), positive part; docs/maths/estimation.md.
    """

    penalty: float  # ridge penalty r, in squared lattice units
    cross_sigma: Float64  # standard deviation s of the noise in X'Y, for each phenotype, shape (l,)
    # Lower limit m of the eigenvalues: the norm of the noise in X'X, which the James-Stein factor
    # does not account for.
    floor: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Return the factors, shape (d, 1)."""
        kept = np.clip(1 - self._removed(target), 0, None)[:, None]
        return Ridge(self.penalty).factors(np.maximum(eigenvalues, self.floor), target) * kept

    def _removed(self, target: Float64) -> Float64:
        """Return ``(l-2)/||H_j||^2`` in units of the noise, shape (d,); inf where H_j is 0."""
        if len(self.cross_sigma) < 3 or not self.cross_sigma.all():
            return np.zeros(len(target))
        squared = whitened_squares(target, self.cross_sigma)
        noise = np.full_like(squared, len(self.cross_sigma) - 2)
        return np.divide(noise, squared, out=np.full_like(squared, np.inf), where=squared > 0)


def whitened_squares(target: Float64, cross_sigma: Float64) -> Float64:
    """Return ``||H_j||^2`` of each direction, shape (d,), with columns in units of their noise.

    Every element of `cross_sigma` is above 0. The only temporary array of the size of `target` is
    its square.
    """
    return np.asarray(target**2 @ cross_sigma**-2.0)


def noise_norm(sigma: float, size: int) -> float:
    """Return a bound on the spectral norm of symmetric noise in the svec layout.

    ``P(norm > sigma (sqrt(2 size) + 3))`` is below 3% (docs/maths/estimation.md, Theorem 5).
    """
    return noise_edge(sigma, size) + 3 * sigma


def noise_edge(sigma: float, size: int) -> float:
    """Return the edge of the spectrum of symmetric noise in the svec layout, for large sizes."""
    return sigma * float(np.sqrt(2 * size))


def floored_at_zero(eigenvalues: Float64, rounding: float = 0.0) -> Float64:
    """Return a symmetric matrix' eigenvalues with negative and negligible values set to zero.

    `rounding` is the rounding error of the matrix itself, if it is the difference of larger ones.
    """
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = max(len(eigenvalues) * np.finfo(np.float64).eps * largest, rounding)
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def quotient(numerator: Float64, denominator: Float64) -> Float64:
    """Return ``numerator / denominator``, or 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator != 0)
