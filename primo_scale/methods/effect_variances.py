"""Variances of the effects on every phenotype, by moments of the noisy statistics.

For S and G adjusted for the fixed columns, normal effects of variance t, residual variance v and
noise of variance s^2 in G, each column of G of one LD block has the expected square ::

    E ||G||^2 = t tr S^2 + v tr S + d s^2

The noise in S is subtracted from ``tr S^2``. The variance of a phenotype is v plus what the block
explains, ``t tr S / n``. The estimate of t is shrunk to the prior's by its standard
error. On private statistics all of this is post-processing: docs/maths/estimation.md, Theorem 6.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.estimators import EffectPrior
from primo_scale.methods.map_blocks import map_blocks
from primo_scale.methods.shrinkage import Float64

# Precision of the prior, whose standard deviation is 0.7 times its variance of the effects.
_PRIOR_PRECISION = 2.0
LEAST, LARGEST = 0.05, 3.0
"""Limits of estimates, relative to the prior's: heritabilities from 0.015 to 0.9."""
# Factor by which the variance of a phenotype may differ from that of its public bounds.
_OTHER_VARIANCE = 2.0


@dataclass(frozen=True, eq=False)
class EffectMoments:
    """Sums over LD blocks from which the variances of effects are estimated."""

    signal: Float64  # unbiased estimate of ||G||^2 without the noise of the release, shape (l,)
    trace: float  # tr S
    squared_trace: float  # unbiased estimate of tr S^2
    traces_squared: float  # (tr S)^2 of each block
    noise: Float64  # sum over variants of the variance s^2 of the noise in G, shape (l,)
    squared_noise: Float64  # sum over variants of s^4, shape (l,)
    noise_trace: Float64  # sum over blocks of s^2 tr S, shape (l,)

    def __add__(self, other: EffectMoments) -> EffectMoments:
        return EffectMoments(*map(operator.add, vars(self).values(), vars(other).values()))

    def of_people(self, n_samples: float) -> EffectMoments:
        """Return the moments with ``tr S^2 - (tr S)^2 / n`` in place of ``tr S^2``."""
        return replace(self, squared_trace=self.squared_trace - self.traces_squared / n_samples)

    def estimates(self, variance: Float64) -> Float64:
        """Return the estimate of each effect variance t, shape (l,).

        It is unbiased for the residual variance v, and that of `of_people` for the variance of the
        phenotypes.
        """
        return np.asarray((self.signal - variance * self.trace) / self.squared_trace)

    def variances(self, variance: Float64) -> Float64:
        """Return the variance of `estimates` if there are no effects, shape (l,)."""
        mixed = 2 * variance * np.maximum(self.noise_trace, 0)
        sums = variance**2 * self.squared_trace + mixed + self.squared_noise
        return np.asarray(2 * sums / self.squared_trace**2)


def moments_of(
    noisy: Float64, sigma: float, target: Float64, target_sigma: Float64
) -> EffectMoments:
    """Return the moments of one LD block, from the noisy S and the noisy G, shape (d, l).

    `sigma` is the standard deviation of the noise on the diagonal of S, and `target_sigma` that of
    the noise in G for each phenotype, shape (l,).
    """
    size, variance, trace = len(noisy), target_sigma**2, float(noisy.trace())
    return EffectMoments(
        signal=np.einsum("ij,ij->j", target, target) - size * variance,
        trace=trace,
        squared_trace=float(np.vdot(noisy, noisy)) - size * squared_noise(size, sigma),
        traces_squared=trace**2,
        noise=size * variance,
        squared_noise=size * variance**2,
        noise_trace=variance * trace,
    )


def squared_noise(size: int, sigma: float) -> float:
    """Return the factor c of ``E[N^2] = c I`` for the noise N in S, of the given size."""
    return sigma**2 * (size + 1) / 2


def fitted_prior(
    blocks: Iterable[EffectMoments], prior: EffectPrior, variances: Float64, n_samples: float
) -> EffectPrior:
    """Return the prior with the posterior mean of each phenotype's effect variance.

    `variances` are the noisy ones of the phenotypes of `n_samples` people, shape (l,). They take
    the place of the prior's residual variances, within a factor of 2.
    """
    moments = reduce(operator.add, blocks).of_people(n_samples)
    expected = prior.effect_variance
    if min(moments.trace, moments.squared_trace) <= 0:
        return prior
    residual = within_factor(variances, prior.residual_variance)
    estimates = moments.estimates(residual) / expected
    precisions = expected**2 / moments.variances(residual)
    shares = (precisions * estimates + _PRIOR_PRECISION) / (precisions + _PRIOR_PRECISION)
    n_limited = int((shares > LARGEST).sum())
    return EffectPrior(expected * np.clip(shares, LEAST, LARGEST), residual, n_limited)


def within_factor(variances: Float64, expected: Float64) -> Float64:
    """Return noisy variances of phenotypes, limited to between half and twice the expected ones."""
    return np.clip(variances, expected / _OTHER_VARIANCE, expected * _OTHER_VARIANCE)


def effect_moments(adjustment: Adjustment) -> list[EffectMoments]:
    """Return the moments of every LD block of variants."""

    def of_block(block: int) -> EffectMoments:
        adjusted = adjustment.block(block)
        noisy, _ = adjustment.gram(adjusted, block, 0)
        sigma = adjustment.gram_sigma(block)
        return moments_of(noisy, sigma, adjusted.target, adjusted.target_sigma)

    return map_blocks(of_block, adjustment.statistics.layout.sizes)
