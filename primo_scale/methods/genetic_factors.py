"""Variances of the effects on every phenotype, and genetic factors that phenotypes share.

An LD block has coordinates ``h_j``, one row of l numbers each, in which signal and noise are
uncorrelated between coordinates::

    Cov(h_j) = (D_j + e_j) Omega + a_j P + (1 - a_j - e_j) R

Omega is the covariance of the effects across phenotypes, P that of the clipped phenotypes, and R
that of the release's noise. The signal has the part D_j. The part e_j is due to errors of
X'X, which grow with the effects. If Omega is taken as diagonal, its entries maximise the
likelihood. Otherwise the eigenvectors of its estimate by moments are genetic factors. The variance
of a factor and the decision to use factors come from coordinates that the eigenvectors were not
computed from, so that factors that are noise have no effect. On private statistics all of this is
post-processing: docs/maths/genetic-factors.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.interruption import check
from primo_scale.methods.effect_variances import LARGEST, LEAST
from primo_scale.methods.likely_variances import likeliest_variances
from primo_scale.methods.shrinkage import Float64
from primo_scale.methods.target_noise import TargetNoise

_FOLDS = 5
# Smallest gain of accuracy, in standard errors, for which factors are used.
_LEAST_GAIN = 2.0
# Largest effective number of factors, as a share of the phenotypes. With more, the phenotypes share
# next to no effects, and the factors hide which effects of single phenotypes are zero.
_MOST_FACTORS = 0.8


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


@dataclass(frozen=True, eq=False)
class EffectCovariance:
    """Covariance ``U diag(w) U'`` of the effects, relative to the prior's mean variance."""

    scales: Float64  # variances w, shape (l,)
    basis: Float64 | None  # factors U in columns, shape (l, l); None for the phenotypes themselves
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
        """Return the variance of each factor from the covariance of the phenotypes, shape (l,)."""
        if self.basis is None:
            return covariance.diagonal()
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
    own = own_effects(blocks, phenotype_covariance, prior)
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
    blocks: Sequence[Coordinates], phenotype_covariance: Float64, prior: Float64
) -> EffectCovariance:
    """Estimate the variance of the effects on each phenotype; parameters as for `fit_effects`."""
    visible = np.concatenate([block.exposures + block.errors for block in blocks])
    largest = LARGEST * prior * phenotype_covariance.diagonal()
    squares, noise = projected(blocks, phenotype_covariance, EffectCovariance(prior, None))
    shown = likeliest_variances(visible, squares, noise, prior)
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
    sampled = effects.variances(phenotype_covariance)
    squares, noise = [], []
    for block in blocks:
        here = slice(None) if fold is None else _folds(block) == fold
        share = block.sampling[here, None]
        of_release = 1 - share - block.errors[here, None]
        squares.append(effects.rotated(block.values[here]) ** 2)
        noise.append(share * sampled + of_release * effects.noise_variances(block.release_noise))
    return np.concatenate(squares), np.concatenate(noise)


def shown_variances(
    exposures: Float64, squares: Float64, noise: Float64, scales: Float64
) -> Float64:
    """Return the variance of each factor that squares of coordinates show, shape (l,).

    The squares have the expectations ``noise + w D``, and are weighted as is best for the variances
    `scales`.
    """
    visible = exposures[:, None]
    weights = visible / (noise + scales * visible) ** 2
    return np.asarray((weights * (squares - noise)).sum(axis=0) / (weights * visible).sum(axis=0))


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
