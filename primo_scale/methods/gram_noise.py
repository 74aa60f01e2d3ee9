"""Cost of the noise on X'X to the scores of variants, from public numbers.

An LD block of m variants has ``S = N diag(lambda)`` in the basis of its eigenvectors, in which
symmetric noise has the same law. The weights are ``W = F G`` for the filter F of the noisy S
(`primo_scale.methods.shrinkage.KnownNoise`), effects of variance t, residual variance v and noise
of variance s^2 in G. Their scores have the squared correlation ::

    tr(L F S)^2 t / (tr L tr[F L F (t S^2 + v S + s^2 I)]),    L = diag(lambda)

with the genetic values, on average over effects, people and the noise in G. One draw of public
random numbers stands for the noise in S, because the traces of a large matrix hardly vary. Source:
docs/maths/planner.md, "The noise on X'X".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from primo_scale.methods.shrinkage import Float64, KnownNoise

# Variants of the block that is drawn; its noise has the same norm as that of the block it stands
# for, and its eigenvalues are as many quantiles.
_DRAWN = 256


@dataclass(frozen=True)
class BlockNoise:
    """Noise and signal of one LD block, in lattice units."""

    size: int  # number of variants
    gram_sigma: float  # standard deviation of the noise on the diagonal of X'X
    cross_sigma: float  # standard deviation s of the noise on X'Y
    eigenvalue: float  # mean eigenvalue N of X'X without noise
    effect_variance: float  # variance t of an effect
    residual_variance: float  # variance v of a phenotype


def share_with_noisy_gram(noise: BlockNoise, eigenvalues: Float64) -> float:
    """Return R^2 with the noise on X'X, as a share of that with the exact X'X.

    `eigenvalues` are any number of eigenvalues of the correlation matrix, of mean 1.
    """
    if noise.gram_sigma == 0:
        return 1.0
    ranks = (np.arange(_DRAWN) + 0.5) / _DRAWN
    values = np.quantile(eigenvalues, ranks) * noise.eigenvalue
    sigma = noise.gram_sigma * math.sqrt(noise.size / _DRAWN)
    normal = np.random.Generator(np.random.Philox(key=0)).standard_normal((_DRAWN, _DRAWN))
    noisy = np.diag(values) + (normal + normal.T) * (sigma / 2)
    noisy[np.diag_indices(_DRAWN)] = values + normal.diagonal() * sigma
    found, vectors = np.linalg.eigh(noisy)
    filtered = (vectors * _factors(found, noise, sigma)) @ vectors.T
    exact = np.diag(_factors(values, noise, 0.0))
    return _squared_correlation(filtered, values, noise) / _squared_correlation(
        exact, values, noise
    )


def _factors(values: Float64, noise: BlockNoise, gram_sigma: float) -> Float64:
    """Return the factors of the weights for known noise, shape (d,)."""
    rule = KnownNoise(
        effect_variance=np.array([noise.effect_variance]),
        residual_variance=np.array([noise.residual_variance]),
        cross_sigma=np.array([noise.cross_sigma]),
        gram_sigma=gram_sigma,
    )
    return rule.factors(values, np.empty((len(values), 1)))[:, 0]


def _squared_correlation(filtered: Float64, values: Float64, noise: BlockNoise) -> float:
    """Return the squared correlation of scores and genetic values, up to a constant."""
    covariance = float(filtered.diagonal() @ values**2)
    in_target = noise.effect_variance * values**2 + noise.residual_variance * values
    variance = float(values @ filtered**2 @ (in_target + noise.cross_sigma**2))
    return covariance**2 / variance
