"""How far each eigen-direction of X'X is believed: the shrinkage that makes noise harmless.

With ``X'X = V diag(lambda) V'`` a linear estimate is ``W = V diag(f) V' X'Y``; a rule of
shrinkage is a choice of f. Least squares has ``f = 1/lambda``, which noise in X'X turns into
division by numbers near zero of either sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

# Share of the noise norm below which an eigenvalue of a noisy Gram matrix tells nothing
# (docs/maths.md, planner: "Weights for known noise").
_FLOOR_SHARE = 0.3


class Shrinkage(Protocol):
    """A rule from eigenvalues to factors."""

    def factors(self, eigenvalues: Float64) -> Float64:
        """Factors f of one LD block, shape (d, 1), or (d, l) if phenotypes differ.

        `eigenvalues` have been through `floored_at_zero`.
        """
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

    def factors(self, eigenvalues: Float64) -> Float64:
        """Factors, shape (d, 1)."""
        denominator = eigenvalues + self.penalty
        spanned = denominator != 0
        return np.divide(1.0, denominator, out=np.zeros_like(denominator), where=spanned)[:, None]


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
        Scale of the noise in X'X; eigenvalues are raised to a share of its norm.
    """

    effect_variance: Float64
    residual_variance: Float64
    cross_sigma: Float64
    gram_sigma: float

    def factors(self, eigenvalues: Float64) -> Float64:
        """Factors, shape (d, l)."""
        floor = _FLOOR_SHARE * noise_norm(self.gram_sigma, len(eigenvalues))
        values = np.maximum(eigenvalues, floor)[:, None]
        signal = self.effect_variance * values
        noise = self.residual_variance * values + self.cross_sigma**2
        return signal / (signal * values + noise)


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


def floored_at_zero(eigenvalues: Float64) -> Float64:
    """Eigenvalues with the negative and the numerically negligible ones set to zero."""
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = len(eigenvalues) * np.finfo(np.float64).eps * largest
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def shrunk_columns(columns: Float64, sigma: float) -> Float64:
    """Positive-part James-Stein estimate of vectors observed with known noise.

    Parameters
    ----------
    columns
        Each a vector with independent noise of standard deviation `sigma`, shape (k, c).
    """
    squared = (columns**2).sum(axis=0)
    noise = max(0, len(columns) - 2) * sigma**2
    share = np.divide(noise, squared, out=np.ones_like(squared), where=squared > 0)
    return np.asarray(columns * np.clip(1 - share, 0, None))
