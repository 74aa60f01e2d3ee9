"""Public scores as the prior mean of the effects, with slopes estimated from the noisy statistics.

For the effects B (d x m) of m public scores, S and G adjusted for the fixed columns, S shrunk by
its noise (`primo_scale.methods.solve.Blend`), and attenuated effects with mean ``B a`` of a
phenotype::

    c = B'G,  A = B'S B        sums of score times phenotype, and of score times score
    a                          slopes of the phenotype on the scores, shrunk by their noise
    W = B a + F (G - S B a)    F: the weights of `primo_scale.methods.solve` without scores

The effect variance that the scores leave takes the place of the prior's. On private statistics all
of these computations are post-processing: docs/maths/prior-scores.md.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.methods.effects import EffectPrior
from primo_scale.methods.linear_algebra import Float64

# Combinations of scores are dropped if their variance is below this share of the largest, or below
# this multiple of the standard deviation of its noise. The variance of a score below that multiple
# is replaced by the one without LD.
_LEAST_VARIANCE, _LEAST_SIGMAS = 1e-6, 3.0
# Smallest share of the effect variance that the scores leave.
_LEAST_LEFT = 0.02
# Factor on the variance of the noise by which slopes are shrunk. With 1, a useless score costs a
# release of 100 phenotypes .011 of the R^2 without noise, and with 1.5 .006
# (docs/maths/prior-scores.md).
_CAUTION = 1.5
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class PublicScores:
    """Effects of m public scores and the phenotypes that they are priors of."""

    effects: Float64  # effects on coded genotypes, each score in a unit of its own, shape (d, m)
    used: npt.NDArray[np.bool_]  # whether a score is a prior of a phenotype, shape (m, l)


@dataclass(frozen=True, eq=False)
class FittedScores:
    """Prior mean of the effects on every phenotype; public if the statistics are private."""

    scores: PublicScores
    # Slopes of the attenuated phenotypes on the scores; 0 for a score that is not used, shape
    # (m, l).
    slopes: Float64
    standard_errors: Float64  # of the slopes before they are shrunk, shape (m, l)
    left: Float64  # share of the effect variance that the scores leave, shape (l,)

    def mean(self, variants: slice) -> Float64:
        """Return the prior mean of the effects of some variants, shape (variants, l)."""
        return self.scores.effects[variants] @ self.slopes


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Sums over LD blocks, in which columns count by the sampling's share of their noise."""

    gram: Float64  # B'S B, shape (m, m)
    gram_variance: Float64  # variance of the noise on the diagonal of `gram`, shape (m,)
    even_gram: Float64  # `gram` without LD, shape (m, m)
    sampling: Float64  # covariance of `cross` by a residual variance of 1, shape (m, m)
    products: Float64  # covariance of `cross` by noise of variance 1 in G, shape (m, m)
    cross: Float64  # B'G, shape (m, l)
    noise: Float64  # sum over columns of the variance of the noise in G, shape (l,)
    trace: float  # tr S
    response_gram: Float64  # B'S^2 B, shape (m, m)
    response_trace: float  # signal in ||G||^2 of effects of variance 1

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(*map(operator.add, vars(self).values(), vars(other).values()))


def fit_scores(
    blocks: Iterable[ScoreSums], scores: PublicScores, prior: EffectPrior, n_columns: int
) -> FittedScores:
    """Estimate the slopes of every phenotype on its scores and the effect variance they leave.

    `blocks` are the sums of every LD block, over all `n_columns` columns of X.
    """
    sums = reduce(operator.add, blocks)
    slopes, errors = np.zeros((2, *scores.used.shape))
    left = np.ones(scores.used.shape[1])
    for phenotype in np.flatnonzero(scores.used.any(axis=0)).tolist():
        own = np.flatnonzero(scores.used[:, phenotype])
        pairs = np.ix_(own, own)
        gram, gram_variance = sums.gram[pairs], sums.gram_variance[own]
        sampling, response_gram = sums.sampling[pairs], sums.response_gram[pairs]
        if (gram.diagonal() < _LEAST_SIGMAS * np.sqrt(gram_variance)).any():
            gram, gram_variance = sums.even_gram[pairs], np.zeros(len(own))
            sampling = gram
            response_gram = gram * sums.trace / n_columns
        basis = _independent_combinations(gram, gram_variance)
        noise_in_target = sums.noise[phenotype] / n_columns
        noise = prior.residual_variance[phenotype] * sampling
        noise = basis.T @ (noise + noise_in_target * sums.products[pairs]) @ basis
        slope = basis @ shrunk_slopes(basis.T @ sums.cross[own, phenotype], _CAUTION * noise)
        # The noise in the sums of score times score moves a slope in proportion to the slope.
        relative = gram_variance / np.maximum(gram.diagonal() ** 2, _TINY)
        variance = ((basis @ noise) * basis).sum(axis=1) + slope**2 * relative
        slopes[own, phenotype], errors[own, phenotype] = slope, np.sqrt(variance)
        explained = slope @ response_gram @ slope
        share = explained / max(prior.effect_variance[phenotype] * sums.response_trace, _TINY)
        left[phenotype] = np.clip(1 - share, _LEAST_LEFT, 1)
    return FittedScores(scores, slopes, errors, left)


def shrunk_slopes(observed: Float64, noise: Float64) -> Float64:
    """Return the posterior mean of slopes from an observation with normal noise.

    The slopes are normal with mean 0 and a common variance, which maximises the likelihood of the
    observation. For one slope the result is the positive-part factor
    ``max(0, 1 - noise / observed^2)`` times the observation. `noise` is the covariance of the
    noise, shape (r, r).
    """
    variances, vectors = np.linalg.eigh(noise)
    rotated = vectors.T @ observed
    return np.asarray(vectors @ (rotated * _signal_share(rotated, variances)))


def kept_share(noisy: Float64, sigma: float) -> float:
    """Return the share of the mean square off the diagonal that is not noise, at least 0."""
    size = len(noisy)
    squares = float(np.vdot(noisy, noisy) - (noisy.diagonal() ** 2).sum())
    expected = size * (size - 1) * sigma**2 / 2
    return max(0.0, 1 - expected / squares) if squares > 0 else 0.0


def _independent_combinations(gram: Float64, gram_variance: Float64) -> Float64:
    """Return combinations of scores that are uncorrelated with variance 1 by `gram`, shape (m, r).

    Scores without variance, and combinations whose variance is negligible or noise, are left out.
    """
    variances = gram.diagonal()
    noise = np.sqrt(gram_variance)
    kept = variances > np.maximum(_LEAST_SIGMAS * noise, 0)
    scale = np.divide(1, np.sqrt(np.abs(variances)), out=np.zeros_like(variances), where=kept)
    values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
    least = max(_LEAST_VARIANCE, _LEAST_SIGMAS * float((noise * scale**2).max(initial=0.0)))
    chosen = values > least
    return np.asarray(scale[:, None] * vectors[:, chosen] / np.sqrt(values[chosen]))


def _signal_share(observed: Float64, variances: Float64) -> Float64:
    """Return ``t / (t + variances)`` for the variance t of largest likelihood, shape (r,)."""
    squares = observed**2
    largest = float(np.max(squares - variances, initial=0.0))

    def deviance(share: float) -> float:
        total = share * largest + variances
        return float((np.log(total) + squares / total).sum())

    between = scipy.optimize.minimize_scalar(deviance, bounds=(0, 1), method="bounded").x
    t = largest * min((0.0, float(between), 1.0), key=deviance)
    return np.asarray(t / (t + variances))
