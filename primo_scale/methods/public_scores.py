"""Public scores as the prior mean of the effects, with slopes estimated from the noisy statistics.

For the effects B (d x m) of m public scores, S and G adjusted for the fixed columns, and attenuated
effects with mean ``B a`` of a phenotype::

    c = B'G,  A = B'S B        sums of score times phenotype, and of score times score
    a                          slopes of the phenotype on the scores, shrunk by their noise
    W = B a + F (G - R B a)    F: a rule of `primo_scale.methods.shrinkage`, R: an estimate of S

The effect variance that the scores leave takes the place of the prior's. On private statistics all
of these computations are post-processing: docs/maths/prior-scores.md.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.effect_variances import EffectMoments, moments_of, squared_noise
from primo_scale.methods.estimators import EffectPrior
from primo_scale.methods.map_blocks import map_blocks
from primo_scale.methods.shrinkage import Float64, noise_edge
from primo_scale.methods.spectrum import Spectrum

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
    """Sums over LD blocks. M is S with all but its diagonal shrunk by the noise."""

    gram: Float64  # B'S B, shape (m, m)
    gram_variance: Float64  # variance of the noise on the diagonal of `gram`, shape (m,)
    even_gram: Float64  # B'B times the mean eigenvalue of S: `gram` without LD, shape (m, m)
    sampling: Float64  # covariance of `cross` by a residual variance of 1, shape (m, m)
    products: Float64  # covariance of `cross` by noise of variance 1 in G, shape (m, m)
    cross: Float64  # B'G, shape (m, l)
    moments: EffectMoments
    response_gram: Float64  # unbiased estimate of B'M S B, shape (m, m)
    response_trace: float  # unbiased estimate of tr(M S)

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
    effect_variance = _effect_variance(sums, prior)
    for phenotype in np.flatnonzero(scores.used.any(axis=0)).tolist():
        own = np.flatnonzero(scores.used[:, phenotype])
        pairs = np.ix_(own, own)
        gram, gram_variance = sums.gram[pairs], sums.gram_variance[own]
        sampling, response_gram = sums.sampling[pairs], sums.response_gram[pairs]
        if (gram.diagonal() < _LEAST_SIGMAS * np.sqrt(gram_variance)).any():
            gram, gram_variance = sums.even_gram[pairs], np.zeros(len(own))
            sampling = gram
            response_gram = gram * sums.moments.trace / n_columns
        basis = _independent_combinations(gram, gram_variance)
        noise_in_target = sums.moments.noise[phenotype] / n_columns
        noise = prior.residual_variance[phenotype] * sampling
        noise = basis.T @ (noise + noise_in_target * sums.products[pairs]) @ basis
        slope = basis @ shrunk_slopes(basis.T @ sums.cross[own, phenotype], _CAUTION * noise)
        # The noise in the sums of score times score moves a slope in proportion to the slope.
        relative = gram_variance / np.maximum(gram.diagonal() ** 2, _TINY)
        variance = ((basis @ noise) * basis).sum(axis=1) + slope**2 * relative
        slopes[own, phenotype], errors[own, phenotype] = slope, np.sqrt(variance)
        explained = slope @ response_gram @ slope
        share = explained / max(effect_variance[phenotype] * sums.response_trace, _TINY)
        left[phenotype] = np.clip(1 - share, _LEAST_LEFT, 1)
    return FittedScores(scores, slopes, errors, left)


def around(spectrum: Spectrum, mean: Float64) -> Spectrum:
    """Return the spectrum with the target that a prior mean of shape (d_b, l) leaves.

    The noise in X'X of the block makes the prediction ``R mean`` noisy, and is added to that of
    the target.
    """
    predicted = expected_eigenvalues(spectrum)[:, None] * spectrum.vectors.coordinates(mean)
    noise_variance = spectrum.gram_sigma**2 / 2 * (mean**2).sum(axis=0)
    return replace(
        spectrum,
        target=spectrum.target - predicted,
        target_sigma=np.sqrt(spectrum.target_sigma**2 + noise_variance),
    )


def expected_eigenvalues(spectrum: Spectrum) -> Float64:
    """Return the expected ``v'S v`` of the true S for the eigenvectors v of the noisy one.

    Eigenvalues beyond the edge e of the noise become ``sqrt(lambda^2 - e^2)``. All others become
    the mean that is left of the trace, because their eigenvectors are those of noise. Without
    noise, eigenvalues stay as they are.
    """
    edge = noise_edge(spectrum.gram_sigma, len(spectrum.values))
    signal = np.sqrt(np.maximum(spectrum.values**2 - edge**2, 0))
    return np.asarray(np.maximum(signal, spectrum.mean_value - signal.mean()))


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


def variant_sums(adjustment: Adjustment, scores: PublicScores) -> list[ScoreSums]:
    """Return the sums of every LD block of variants."""
    layout = adjustment.statistics.layout
    return map_blocks(
        lambda block: _block_sums(adjustment, block, scores.effects[layout.variants(block)]),
        layout.sizes,
    )


def _block_sums(adjustment: Adjustment, block: int, effects: Float64) -> ScoreSums:
    """Return the terms of one LD block, whose scores have `effects` of shape (d_b, m)."""
    adjusted, size = adjustment.block(block), len(effects)
    noisy, _ = adjustment.gram(adjusted, block, 0)
    sigma = adjustment.gram_sigma(block)
    products, responses = effects.T @ effects, noisy @ effects
    gram = effects.T @ responses
    moments = moments_of(noisy, sigma, adjusted.target, adjusted.target_sigma)
    kept, level = kept_share(noisy, sigma), moments.trace / size
    return ScoreSums(
        gram=gram,
        gram_variance=(sigma * products.diagonal()) ** 2,
        even_gram=level * products,
        sampling=gram,
        products=products,
        cross=effects.T @ adjusted.target,
        moments=moments,
        response_gram=kept * (responses.T @ responses - squared_noise(size, sigma) * products)
        + (1 - kept) * level * gram,
        response_trace=kept * moments.squared_trace + (1 - kept) * level * moments.trace,
    )


def kept_share(noisy: Float64, sigma: float) -> float:
    """Return the share of the mean square off the diagonal that is not noise, at least 0."""
    size = len(noisy)
    squares = float((noisy**2).sum() - (noisy.diagonal() ** 2).sum())
    expected = size * (size - 1) * sigma**2 / 2
    return max(0.0, 1 - expected / squares) if squares > 0 else 0.0


def _effect_variance(sums: ScoreSums, prior: EffectPrior) -> Float64:
    """Return the larger of the prior's effect variance and its estimate by moments, shape (l,)."""
    if sums.moments.squared_trace <= 0:
        return prior.effect_variance
    return np.maximum(prior.effect_variance, sums.moments.estimates(prior.residual_variance))


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
