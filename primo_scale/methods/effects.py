"""Effects of variants on every phenotype: their variances, shared factors, and those of zero.

An LD block has coordinates ``h_j``, one row of l numbers each, in which signal and noise are
uncorrelated between coordinates::

    Cov(h_j) = (D_j + e_j) Omega + a_j P + (1 - a_j - e_j) R

Omega is the covariance of the effects across phenotypes, P that of the clipped phenotypes, and R
that of the release's noise. The signal has the part D_j. The part e_j is due to errors of
X'X, which grow with the effects. If Omega is taken as diagonal, its entries maximise the
likelihood. Otherwise the eigenvectors of its estimate by moments are genetic factors. The variance
of a factor and the decision to use factors come from coordinates that the eigenvectors were not
computed from, so that factors that are noise have no effect.

Effects beta of which many are zero are 0 with probability ``1 - pi`` and otherwise normal. The
coordinates of a block are ``h = M beta + noise``. The posterior mean is that of a Gibbs sampler,
which draws pi and the variance of the effects as well. Its random numbers are public: they follow
from the number of the column. The sampler also gives Stein's unbiased estimate of the loss, so that
the result is used only where it is better than that of normal effects. On private statistics all of
this is post-processing: docs/maths/weights.md.

Public scores can be the prior mean of the effects, with slopes estimated from the noisy statistics.
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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.interruption import check
from primo_scale.kernels.gibbs_sweep import EffectMaps, information, sweep
from primo_scale.machine import in_threads, usable_cpus
from primo_scale.methods.linear_algebra import Float64, TargetNoise

LEAST, LARGEST = 0.05, 3.0
"""Limits of effect variances, relative to the prior's: heritabilities from 0.015 to 0.9."""
COLUMNS_AT_A_TIME = 8
"""Phenotypes whose variances are estimated together, without factors."""
_FOLDS = 5
# Smallest gain of accuracy, in standard errors, for which factors are used.
_LEAST_GAIN = 2.0
# Largest effective number of factors, as a share of the phenotypes. With more, the phenotypes share
# next to no effects, and the factors hide which effects of single phenotypes are zero.
_MOST_FACTORS = 0.8
# Weight of the prior: that of an estimate whose standard error is 0.7 times the prior's variance.
_PRIOR_INFORMATION = 4.0
_ROUNDS, _PRECISION = 100, 1e-3
# Sweeps before the means are taken, and those before pi and the variance are drawn.
_DISCARDED, _FIXED = 100, 5
# Sweeps over which means are taken, and the draws of effects in them: as many as take a minute.
_FEWEST_KEPT, _MOST_KEPT, _DRAWS = 200, 2_000, 300_000_000
_FIRST_SHARE = 0.1  # of variants with an effect
_LEAST_SHARE = 1e-5
_LEAST_GAIN_OF_ZEROS = 1.0  # in standard errors
# Effects are sampled of phenotypes or factors whose variance is at least this share of the largest.
_LEAST_OF_LARGEST = 0.05
_ROUNDING = 1e-9  # of a phenotype that does not vary, without noise
# Largest factor between the variance of a factor and that of the coordinates that its eigenvector
# was computed from. Where these differ more, sampled effects would fit noise.
_MOST_OVERFITTED = 2.0


@dataclass(frozen=True)
class EffectPrior:
    """Variances of effects and phenotypes, public or estimated from noisy statistics."""

    # Variance of a variant's effect on each phenotype, attenuated by clipping, in lattice units,
    # shape (l,).
    effect_variance: Float64
    # Variance of each phenotype across people, in squared lattice units, shape (l,).
    residual_variance: Float64


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of one LD block.

    Their noise has variance 1 for an average phenotype whose effects have the prior's variance.
    """

    exposures: Float64  # variance D of the signal for these effects, shape (m,)
    sampling: Float64  # share a of the noise that is due to the sampling of people, shape (m,)
    errors: Float64  # share e of the noise that is due to errors of X'X, shape (m,)
    values: Float64  # coordinates h, shape (m, l)
    release_noise: TargetNoise  # relative covariance R of the release's noise

    def of(self, columns: slice) -> Coordinates:
        """Return the coordinates of some phenotypes."""
        noise = TargetNoise(self.release_noise.own[columns], self.release_noise.shared[:, columns])
        return replace(self, values=self.values[:, columns], release_noise=noise)


@dataclass(frozen=True, eq=False)
class EffectCovariance:
    """Covariance ``U diag(w) U'`` of the effects, relative to the prior's mean variance."""

    scales: Float64  # variances w, shape (l,)
    # Factors U in columns, shape (l, l); None for the phenotypes themselves.
    basis: Float64 | None = None
    n_limited: int = 0  # number of phenotypes whose estimated variance was too large

    @property
    def n_factors(self) -> float:
        """Effective number of factors, ``(sum w)^2 / sum w^2``; 0 without factors."""
        if self.basis is None:
            return 0.0
        return float(self.scales.sum() ** 2 / (self.scales**2).sum())

    def rotated(self, columns: Float64) -> Float64:
        """Return columns of phenotypes, shape (k, l), as columns of factors."""
        return columns if self.basis is None else columns @ self.basis

    def variances(self, covariance: Float64) -> Float64:
        """Return the variance of each factor from the covariance of the phenotypes, shape (l,).

        Without factors, the variances of the phenotypes are enough.
        """
        if self.basis is None:
            return covariance if covariance.ndim == 1 else covariance.diagonal()
        return np.asarray(((covariance @ self.basis) * self.basis).sum(axis=0))

    def noise_variances(self, noise: TargetNoise) -> Float64:
        """Return the variance of each factor's noise from that of the phenotypes, shape (l,)."""
        return noise.variances if self.basis is None else noise.along(self.basis)

    def back(self, columns: Float64) -> Float64:
        """Invert `rotated`."""
        return columns if self.basis is None else columns @ self.basis.T


def fit_effects(
    blocks: Sequence[Coordinates], phenotype_covariance: Float64, prior: Float64
) -> EffectCovariance:
    """Estimate the covariance of the effects from the coordinates of every LD block.

    `phenotype_covariance` is P, relative to the variance assumed of the clipped phenotypes, and
    `prior` the prior variance of the effects on each phenotype, relative to its mean, shape (l,).
    """
    own = own_effects(blocks, phenotype_covariance.diagonal(), prior)
    if len(prior) == 1:
        return own
    exposures = np.concatenate([block.exposures for block in blocks])
    errors = np.concatenate([block.errors for block in blocks])
    largest = LARGEST * prior * phenotype_covariance.diagonal()
    squares, noise = projected(blocks, phenotype_covariance, EffectCovariance(prior, None))
    losses = _losses(exposures, squares, noise + np.outer(errors, own.scales), own.scales)
    strength = 1.0
    for _ in range(2):  # the second time with weights for factors as strong as those found
        squares, noise = _in_other_folds(blocks, phenotype_covariance, strength)
        # Factors that are noise are many: together they weigh the prior as one phenotype does.
        even, weight = np.ones_like(prior), 1 / len(prior)
        unordered = likeliest_variances(exposures + errors, squares, noise, even, weight=weight)
        # The nearest decreasing sequence, because noise in a variance does not order it.
        scales = scipy.optimize.isotonic_regression(unordered, increasing=False).x
        # Nothing that the phenotypes could share, or more than they vary: population structure.
        if not 0 < scales.sum() <= largest.sum():
            return own
        strength = float((scales**2).sum() / scales.sum())
    # The accuracy of a prediction weighs a coordinate by its inverse share of sampling noise.
    gains = losses - _losses(exposures, squares, noise + np.outer(errors, scales), scales)
    gains /= np.concatenate([block.sampling for block in blocks])
    if gains.sum() <= _LEAST_GAIN * np.linalg.norm(gains):
        return own
    basis = _eigenvectors(blocks, phenotype_covariance, strength, None)
    factors = EffectCovariance(scales, basis)
    return factors if factors.n_factors <= _MOST_FACTORS * len(prior) else own


def own_effects(
    blocks: Sequence[Coordinates], variances: Float64, prior: Float64
) -> EffectCovariance:
    """Estimate the variance of the effects on each phenotype, given the phenotypes' variances."""
    visible = np.concatenate([block.exposures + block.errors for block in blocks])
    largest, shown = LARGEST * prior * variances, np.empty_like(prior)
    for start in range(0, len(prior), COLUMNS_AT_A_TIME):
        columns = slice(start, start + COLUMNS_AT_A_TIME)
        part, effects = [block.of(columns) for block in blocks], EffectCovariance(prior[columns])
        squares, noise = projected(part, variances[columns], effects)
        shown[columns] = likeliest_variances(visible, squares, noise, prior[columns])
    limited = np.maximum(np.minimum(shown, largest), LEAST * prior)
    return EffectCovariance(limited, None, int((shown > largest).sum()))


def _in_other_folds(
    blocks: Sequence[Coordinates], phenotype_covariance: Float64, strength: float
) -> tuple[Float64, Float64]:
    """Return what `projected` does for factors that come from the other folds' coordinates."""
    fold_of = np.concatenate([_folds(block) for block in blocks])
    squares, noise = np.empty((2, len(fold_of), len(phenotype_covariance)))
    for fold in range(_FOLDS):
        check()
        basis = _eigenvectors(blocks, phenotype_covariance, strength, fold)
        factors = EffectCovariance(np.ones(len(basis)), basis)
        here = fold_of == fold
        squares[here], noise[here] = projected(blocks, phenotype_covariance, factors, fold)
    return squares, noise


def projected(
    blocks: Sequence[Coordinates],
    phenotype_covariance: Float64,
    effects: EffectCovariance,
    fold: int | None = None,
) -> tuple[Float64, Float64]:
    """Return the squares of the coordinates on every factor, and their variances without effects.

    Both have the shape (coordinates, l), where `fold` restricts the coordinates.
    """
    squares, noise = [], []
    for block in blocks:
        here = slice(None) if fold is None else _folds(block) == fold
        squares.append(effects.rotated(block.values[here]) ** 2)
        noise.append(noise_of(block, phenotype_covariance, effects)[here])
    return np.concatenate(squares), np.concatenate(noise)


def noise_of(
    block: Coordinates, phenotype_covariance: Float64, effects: EffectCovariance
) -> Float64:
    """Return the variances of a block's coordinates on every factor without effects, (m, l)."""
    share = block.sampling[:, None]
    of_release = (1 - share - block.errors[:, None]) * effects.noise_variances(block.release_noise)
    return np.asarray(share * effects.variances(phenotype_covariance) + of_release)


def shrunk(exposures: Float64, noise: Float64, scale: Float64 | float) -> Float64:
    """Return the factors ``w D / (w D + noise)`` of the posterior mean."""
    signal = scale * exposures
    return np.asarray(signal / (signal + noise))


def _folds(block: Coordinates) -> npt.NDArray[np.intp]:
    return np.arange(len(block.exposures)) % _FOLDS


def _eigenvectors(
    blocks: Sequence[Coordinates],
    phenotype_covariance: Float64,
    strength: float,
    without: int | None,
) -> Float64:
    """Return the eigenvectors of the estimated Omega in columns, the largest eigenvalue first.

    Coordinates are weighted as is best for factors of variance `strength`. Those of one fold are
    left out.
    """
    total = np.zeros_like(phenotype_covariance)
    for block in blocks:
        kept = slice(None) if without is None else _folds(block) != without
        share, errors, values = block.sampling[kept], block.errors[kept], block.values[kept]
        visible = block.exposures[kept] + errors
        weights = visible / (1 - errors + strength * visible)
        total += (values * weights[:, None]).T @ values
        total -= float(weights @ share) * phenotype_covariance
        total -= float(weights @ (1 - share - errors)) * block.release_noise.matrix()
    vectors = scipy.linalg.eigh(total, check_finite=False)[1][:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)  # is made positive, because LAPACK may choose any sign
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(len(vectors))]))


def _losses(exposures: Float64, squares: Float64, noise: Float64, scales: Float64) -> Float64:
    """Return Stein's unbiased estimate of each coordinate's loss, up to a constant, shape (m,)."""
    factors = shrunk(exposures[:, None], noise, scales)
    return np.asarray((factors * (factors - 2) * squares + 2 * factors * noise).sum(axis=1))


def likeliest_variances(
    exposures: Float64, squares: Float64, noise: Float64, prior: Float64, *, weight: float = 1.0
) -> Float64:
    """Return the variance w of each column that maximises the likelihood times the prior.

    The squares and the noise, of shape (m, l), have the expectations ``noise + w exposures``.
    `weight` multiplies the information of the prior, of shape (l,), from which Fisher's scoring
    starts.
    """
    scales, known = prior.copy(), weight * _PRIOR_INFORMATION
    for column, expected in enumerate(prior):
        square, plain = squares[:, column], noise[:, column]
        for _ in range(_ROUNDS):
            before = scales[column]
            weights = exposures / (plain + before * exposures) ** 2
            information = float(weights @ exposures) + known / expected**2
            score = float(weights @ (square - plain)) + known / expected
            scales[column] = max(score / information, 0.0)
            if abs(scales[column] - before) <= _PRECISION * max(before, _PRECISION):
                break
    return scales


@dataclass(frozen=True, eq=False)
class Column:
    """Coordinates of one phenotype or genetic factor in all LD blocks, each of shape (m,)."""

    number: int
    exposures: Float64  # variance D of the signal for an effect variance of 1 (relative)
    sampling: Float64  # share of the noise that is due to the sampling of people
    values: Float64  # coordinates h
    noise: Float64  # variances of their noise
    scale: float  # effect variance w, relative to the prior's


def columns_of(
    blocks: Sequence[Coordinates], phenotype_covariance: Float64, effects: EffectCovariance
) -> list[Column]:
    """Return the coordinates of every factor, whose noise includes that of errors of X'X."""
    exposures = np.concatenate([block.exposures for block in blocks])
    sampling = np.concatenate([block.sampling for block in blocks])
    values = np.concatenate([effects.rotated(block.values) for block in blocks])
    noise = projected(blocks, phenotype_covariance, effects)[1]
    noise += np.outer(np.concatenate([block.errors for block in blocks]), effects.scales)
    return [
        Column(number, exposures, sampling, values[:, number], noise[:, number], float(scale))
        for number, scale in enumerate(effects.scales)
    ]


def sample_effects(
    blocks: Sequence[Coordinates],
    matrices: Sequence[npt.NDArray[np.float32]],
    effects: EffectCovariance,
    phenotype_covariance: Float64,
    effect_variance: float,
) -> dict[int, Float64]:
    """Return point-normal effects of all variants, by the number of the factor that they predict.

    `matrices` are the transposed matrices M of the blocks, each of shape (d_b, m_b), and
    `effect_variance` is the mean prior variance of the effects. `blocks` and `phenotype_covariance`
    are those of `fit_effects`, and `effects` is its result.
    """
    maps = effect_maps(matrices)
    squares, noise = projected(blocks, phenotype_covariance, effects)
    suited = effects.scales > _LEAST_OF_LARGEST * effects.scales.max()
    suited &= squares.sum(axis=0) > _ROUNDING * noise.sum(axis=0)
    if effects.basis is not None:
        visible = np.concatenate([block.exposures + block.errors for block in blocks])[:, None]
        # The variances that squares show with the best weights for those of `effects`. Squares have
        # the expectations ``noise + w D``.
        weights = visible / (noise + effects.scales * visible) ** 2
        shown = (weights * (squares - noise)).sum(axis=0) / (weights * visible).sum(axis=0)
        suited &= (shown <= _MOST_OVERFITTED * effects.scales) & (
            effects.scales <= _MOST_OVERFITTED * shown
        )
    every = columns_of(blocks, phenotype_covariance, effects)
    columns = [every[number] for number in np.flatnonzero(suited)]
    kept = sweeps_kept(len(columns), int(maps.variants[-1]))

    def sampled(column: Column) -> Float64 | None:
        """Return the effects of all variants, or None if normal effects predict as well."""
        means, residual, spread, _ = sample(maps, column, effect_variance * column.scale, kept)
        factors = shrunk(column.exposures, column.noise, column.scale)
        normal = ((1 - factors) * column.values) ** 2 + 2 * factors * column.noise
        gains = (normal - residual**2 - 2 * spread) / column.sampling
        return means if gains.sum() > _LEAST_GAIN_OF_ZEROS * np.linalg.norm(gains) else None

    found = zip(columns, in_threads(sampled, columns, usable_cpus()), strict=True)
    return {column.number: each for column, each in found if each is not None}


def sweeps_kept(n_columns: int, n_variants: int) -> int:
    """Return the number of sweeps over which means are taken: as many as take a minute."""
    most = _DRAWS // max(1, n_columns * n_variants)
    return min(max(most, _FEWEST_KEPT), _MOST_KEPT)


def effect_maps(matrices: Sequence[npt.NDArray[np.float32]]) -> EffectMaps:
    """Return the transposed matrices M of all blocks, each of shape (d_b, m_b), as one array."""
    return EffectMaps(
        entries=np.concatenate([matrix.ravel() for matrix in matrices]),
        starts=np.cumsum([0, *(matrix.size for matrix in matrices[:-1])]),
        variants=np.cumsum([0, *(len(matrix) for matrix in matrices)]),
        coordinates=np.cumsum([0, *(matrix.shape[1] for matrix in matrices)]),
    )


def sample(
    maps: EffectMaps, column: Column, effect_variance: float, kept: int, n_states: int = 0
) -> tuple[Float64, Float64, Float64, npt.NDArray[np.float32]]:
    """Return the posterior means of the effects, and of ``h - M beta`` with its variance.

    `effect_variance` is the mean variance of the effects, and `kept` the number of sweeps over
    which means are taken. The last result has `n_states` draws of the effects, evenly spaced.
    """
    rng = np.random.Generator(np.random.SFC64(column.number))
    precisions, n_variants = 1 / column.noise, int(maps.variants[-1])
    informations = information(maps, precisions)
    chain = (column.values * precisions, *np.zeros((2, n_variants)))
    residuals, effects, means = chain
    share, start = _FIRST_SHARE, effect_variance / _FIRST_SHARE
    variance = start
    total, squares = np.zeros((2, len(precisions)))
    states = np.empty((n_states, n_variants), dtype=np.float32)
    draws = np.empty((2, n_variants))
    for number in range(_DISCARDED + kept):
        check()
        rng.random(out=draws[0])
        rng.standard_normal(out=draws[1])
        sweep(maps, precisions, informations, chain, draws, (share, variance))
        if number >= _FIXED:
            count = np.count_nonzero(effects)
            share = float(np.clip(rng.beta(1 + count, 1 + n_variants - count), _LEAST_SHARE, 0.999))
            squared = float((effects**2).sum())  # BLAS would share it among its threads
            variance = (start + squared) / float(rng.chisquare(1 + count))
        if number == _DISCARDED - 1:
            means[:] = 0
        if number >= _DISCARDED:
            residual = residuals * column.noise
            total += residual
            squares += residual**2
            if n_states and (number - _DISCARDED) % (kept // n_states) == 0:
                states[(number - _DISCARDED) // (kept // n_states)] = effects
    mean = total / kept
    return means / kept, mean, np.maximum(squares / kept - mean**2, 0.0), states


# Combinations of scores are dropped if their variance is below this share of the largest, or below
# this multiple of the standard deviation of its noise. The variance of a score below that multiple
# is replaced by the one without LD.
_LEAST_VARIANCE, _LEAST_SIGMAS = 1e-6, 3.0
# Smallest share of the effect variance that the scores leave.
_LEAST_LEFT = 0.02
# Factor on the variance of the noise by which slopes are shrunk. With 1, a useless score costs a
# release of 100 phenotypes .011 of the R^2 without noise, and with 1.5 .006.
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
    squares = rotated**2
    largest = float(np.max(squares - variances, initial=0.0))

    def deviance(share: float) -> float:
        total = share * largest + variances
        return float((np.log(total) + squares / total).sum())

    between = scipy.optimize.minimize_scalar(deviance, bounds=(0, 1), method="bounded").x
    common = largest * min((0.0, float(between), 1.0), key=deviance)
    return np.asarray(vectors @ (rotated * (common / (common + variances))))


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
