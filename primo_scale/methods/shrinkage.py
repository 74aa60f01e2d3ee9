"""How far each eigen-direction of X'X is believed: the shrinkage that makes noise harmless.

With ``X'X = V diag(lambda) V'`` and the target ``H = V'X'Y``, weights are ``W = V (f * H)``; a rule
of shrinkage is a choice of f, which may differ by phenotype and may look at H. Least squares has
``f = 1/lambda``, which noise in X'X turns into division by numbers near zero of either sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

# Share of the noise norm below which an eigenvalue of a noisy Gram matrix tells nothing
# (docs/maths.md, planner: "Weights for known noise").
FLOOR_SHARE = 0.3


class Shrinkage(Protocol):
    """A rule for one LD block: from eigenvalues and target to factors on the target.

    `eigenvalues`, shape (d,), have been through `floored_at_zero`; `target` has shape (d, l).
    """

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Factors f, shape (d, 1), or (d, l) if phenotypes differ."""
        ...


@dataclass(frozen=True)
class Ridge:
    """``f = 1/(lambda + r)``.

    Attributes
    ----------
    penalty
        r, in squared lattice units. At 0, directions that X does not span get no weight.
    """

    penalty: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Factors, shape (d, 1); the target is not looked at."""
        return _quotient(np.ones_like(eigenvalues), eigenvalues + self.penalty)[:, None]


@dataclass(frozen=True)
class KnownNoise:
    """Posterior mean of small effects when the noise in X'Y is known.

    ``f = t lambda / (t lambda^2 + v lambda + s^2)``: the Wiener filter for effects of prior
    variance t, residual variance v a person and noise of variance s^2 on X'Y (docs/maths.md,
    planner: "Weights for known noise"). Ridge is the case s = 0 with ``r = v/t``. Directions in
    which noise exceeds signal are shrunk more than any one penalty could.

    Attributes
    ----------
    effect_variance
        t for each phenotype, shape (l,), lattice units, of effects as clipping attenuates them.
    residual_variance
        v for each phenotype, shape (l,).
    cross_sigma
        s for each phenotype, shape (l,).
    gram_sigma
        Scale of the noise in this block's X'X; eigenvalues are raised to a share of its norm.
    """

    effect_variance: Float64
    residual_variance: Float64
    cross_sigma: Float64
    gram_sigma: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Factors, shape (d, l); the target is not looked at."""
        floor = FLOOR_SHARE * noise_norm(self.gram_sigma, len(eigenvalues))
        values = np.maximum(eigenvalues, floor)[:, None]
        signal = self.effect_variance * values
        noise = self.residual_variance * values + self.cross_sigma**2
        return _quotient(signal, signal * values + noise)


@dataclass(frozen=True)
class JamesStein:
    """Ridge, and on top of it what all phenotypes say together about each direction.

    ``f_j = max(0, 1 - (l-2)/||H_j||^2) / (max(lambda_j, m) + r)`` with the norm taken over
    phenotypes, each in units of its own noise s: phenotypes whose missing values were made up for
    have more of it, and the estimator is only safe for noise that is alike in all columns. Fewer
    than three phenotypes cannot help one another, and without noise there is nothing to remove:
    then this is ridge. Source: James and Stein (1961), positive part; docs/maths.md, section 4.

    Attributes
    ----------
    penalty
        r.
    cross_sigma
        s for each phenotype, shape (l,).
    floor
        m, to which eigenvalues are raised: the norm of the noise in X'X, of which the factor
        across phenotypes knows nothing.
    """

    penalty: float
    cross_sigma: Float64
    floor: float

    def factors(self, eigenvalues: Float64, target: Float64) -> Float64:
        """Factors, shape (d, 1)."""
        kept = np.clip(1 - self._removed(target), 0, None)[:, None]
        return Ridge(self.penalty).factors(np.maximum(eigenvalues, self.floor), target) * kept

    def _removed(self, target: Float64) -> Float64:
        """``(l-2)/||H_j||^2`` in units of the noise, shape (d,); infinite where H_j is 0."""
        if len(self.cross_sigma) < 3 or not self.cross_sigma.all():
            return np.zeros(len(target))
        squared = whitened_squares(target, self.cross_sigma)
        noise = np.full_like(squared, len(self.cross_sigma) - 2)
        return np.divide(noise, squared, out=np.full_like(squared, np.inf), where=squared > 0)


def whitened_squares(target: Float64, cross_sigma: Float64) -> Float64:
    """``||H_j||^2`` of each direction, shape (d,), columns in units of their noise, all above 0.

    One matrix product, no temporary of the size of `target` but its square.
    """
    return np.asarray(target**2 @ cross_sigma**-2.0)


def noise_norm(sigma: float, size: int) -> float:
    """Bound on the spectral norm of symmetric noise in the svec layout.

    ``P(norm > sigma (sqrt(2 size) + 3))`` is below 3%: docs/maths.md, section 5.
    """
    return sigma * (float(np.sqrt(2 * size)) + 3)


def automatic_penalty(variance: float, heritability: float) -> float:
    """Ridge penalty under which ridge is the posterior mean of equally small effects.

    With lattice genotype variance V in all and phenotypes of variance 1, effects have variance
    ``h2/V`` and residuals ``1 - h2``: ``r = V (1 - h2)/h2``. Both are public.
    """
    return variance * (1 - heritability) / heritability


def floored_at_zero(eigenvalues: Float64, rounding: float = 0.0) -> Float64:
    """Eigenvalues with the negative and the numerically negligible ones set to zero.

    Parameters
    ----------
    eigenvalues
        Of a computed symmetric matrix, shape (d,).
    rounding
        Error that the matrix had before, where it is the difference of larger ones.
    """
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = max(len(eigenvalues) * np.finfo(np.float64).eps * largest, rounding)
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def _quotient(numerator: Float64, denominator: Float64) -> Float64:
    """``numerator / denominator``, 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator != 0)
