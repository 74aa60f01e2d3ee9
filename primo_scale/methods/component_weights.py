"""Weights from statistics of LD components, for known noise.

The columns of X are components ``x~ = T x`` of the codes x of each LD block. An effect of variance
t on every code is, on component i, an effect of variance ``L_i = t / ||T_i||^2``, because the rows
of T are orthogonal. For residual variance v and noise of variance s^2 in X'Y, the best linear
prediction of the effects is ::

    W = L S (S L S + Delta + v S + s^2 I)^-1 G,    weights of the codes T'W

S is the noisy X'X blended with what a panel expects, entry by entry, by their precisions:
components are uncorrelated in the panel's population, with known variances. The diagonal matrix
Delta has the variances that errors of S add to G. The eigenvalues of S are then raised as in
`primo_scale.methods.shrinkage.KnownNoise`, but not for what public scores predict. Scores with the
effects b on codes have the effects ``T_i b / ||T_i||^2`` on components; what they explain outside
of the components stays in the weights. Source: docs/maths/ld-components.md, Theorem 3.

There are up to three passes over the LD blocks, each of which computes them again and keeps none:
`_score_sums` for the slopes of public scores; `_fitted` for an estimator that fits the variances t,
genetic factors that take the place of the phenotypes, and effects of zero
(docs/maths/genetic-factors.md); and the last one of `solve_components` for the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.blended_gram import Blend, blended
from primo_scale.methods.effect_variances import moments_of, within_factor
from primo_scale.methods.estimators import EffectPrior, Estimator
from primo_scale.methods.genetic_factors import Coordinates, EffectCovariance, fit_effects
from primo_scale.methods.map_blocks import map_blocks
from primo_scale.methods.point_normal import sample_effects
from primo_scale.methods.public_scores import (
    FittedScores,
    PublicScores,
    ScoreSums,
    fit_scores,
    kept_share,
)
from primo_scale.methods.shrinkage import Float64
from primo_scale.methods.target_noise import TargetNoise

# Smallest eigenvalue of the phenotypes' covariance, of which noise would leave negative ones.
_LEAST_EIGENVALUE = 0.1
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class PanelComponents:
    """LD components or variants that were summed over, and what is expected of them."""

    # Function from the number of an LD block to its real map T, shape (m_b, d_b).
    map_of: Callable[[int], Float64]
    variances: Float64  # expected square of each component, in squared lattice units, shape (m,)
    squared_norms: Float64  # of the rows of T, shape (m,)
    n_known: float  # size of a sample whose covariances are as precise as those known of components
    n_samples: float  # number of people of the cohort, noisy where it is private
    boundaries: tuple[int, ...]  # boundaries of the LD blocks among the variants: 0, ..., d


@dataclass(frozen=True, eq=False)
class ComponentSolution:
    """Weights of the codes, and what they were computed with."""

    weights: Float64  # of the codes, shape (d, l)
    explained: Float64  # what the weights of the components explain of C'Y, shape (f, l)
    scores: FittedScores | None  # slopes of the public scores that are the prior mean
    prior: EffectPrior  # variances that were used, of phenotypes or of genetic factors
    n_factors: float  # effective number of genetic factors; 0 without factors
    n_sampled: int  # number of phenotypes or factors with point-normal effects


@dataclass(frozen=True, eq=False)
class ComponentBlock:
    """One LD block of m components and d_b codes, and the prior mean of its effects."""

    real: Float64  # map T, shape (m, d_b)
    squared_norms: Float64  # of the rows of T, shape (m,)
    blend: Blend  # X'X
    gram: Float64  # the same with eigenvalues above the floor, shape (m, m)
    target: Float64  # adjusted X'Y, without what the prior mean explains, shape (m, l)
    noise: TargetNoise  # in a row of the target
    # Variances that errors of X'X add to the target, for an effect variance of 1, shape (m,).
    gram_errors: Float64
    fixed_cross: Float64  # denoised X'C, shape (m, f)
    mean: Float64  # prior mean of the effects of components, shape (m, l)
    outside: Float64  # prior mean of the effects of codes, shape (d_b, l)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Covariance of the effects, their variances in lattice units, and sampled effects."""

    effects: EffectCovariance
    prior: EffectPrior  # of each factor
    # Point-normal effects of the codes by the number of the factor, each of shape (d,).
    sampled: dict[int, Float64]


def solve_components(
    adjustment: Adjustment,
    prior: EffectPrior,
    panel: PanelComponents,
    public: PublicScores | None,
    estimator: Estimator,
) -> ComponentSolution:
    """Return the weights of the codes, around public scores if there are any."""
    layout = adjustment.statistics.layout
    scores, prior = fitted_scores(adjustment, prior, panel, public)
    block_of = partial(component_block, adjustment, panel, scores)
    fitted = _Fitted(EffectCovariance(np.ones(layout.n_phenotypes), None), prior, {})
    if estimator.fits_effects:
        covariance = phenotype_covariance(adjustment, prior, panel.n_samples)
        fitted = _fitted(block_of, layout.sizes, prior, covariance, panel.boundaries, estimator)
    weights = np.empty((panel.boundaries[-1], layout.n_phenotypes))
    start = np.zeros((layout.n_fixed, layout.n_phenotypes))

    def solve_block(number: int) -> Float64:
        """Set the weights of a block, and return what its components explain of C'Y."""
        block, rows = block_of(number), slice(*panel.boundaries[number : number + 2])
        of_components, of_codes = _effects(block, fitted, rows)
        weights[rows] = block.outside + of_codes
        return np.asarray(block.fixed_cross.T @ (block.mean + of_components))

    explained = sum(map_blocks(solve_block, layout.sizes), start)
    n_factors, n_sampled = fitted.effects.n_factors, len(fitted.sampled)
    return ComponentSolution(weights, explained, scores, fitted.prior, n_factors, n_sampled)


def fitted_scores(
    adjustment: Adjustment, prior: EffectPrior, panel: PanelComponents, public: PublicScores | None
) -> tuple[FittedScores | None, EffectPrior]:
    """Return the slopes of public scores, if there are any, and the prior of what they leave."""
    if public is None:
        return None, prior
    sums = _score_sums(adjustment, panel, public, float(prior.residual_variance.mean()))
    scores = fit_scores(sums, public, prior, adjustment.statistics.layout.n_variants)
    return scores, replace(prior, effect_variance=prior.effect_variance * scores.left)


def _effects(block: ComponentBlock, fitted: _Fitted, rows: slice) -> tuple[Float64, Float64]:
    """Return the effects of the components, shape (m, l), and of the codes, shape (d_b, l)."""
    turned = fitted.effects
    sigma = np.sqrt(turned.noise_variances(block.noise))
    target = turned.rotated(block.target)
    of_components = _posterior(block, target, fitted.prior, sigma)
    of_codes = block.real.T @ of_components
    if fitted.sampled:
        numbers = list(fitted.sampled)
        sampled = np.stack([each[rows] for each in fitted.sampled.values()], axis=1)
        of_codes[:, numbers] = sampled
        of_components[:, numbers] = on_components(block.real, block.squared_norms, sampled)
    return turned.back(of_components), turned.back(of_codes)


def component_block(
    adjustment: Adjustment, panel: PanelComponents, scores: FittedScores | None, block: int
) -> ComponentBlock:
    """Return an LD block, around the public scores if there are any."""
    layout = adjustment.statistics.layout
    squared_norms = panel.squared_norms[layout.variants(block)]
    rows = slice(panel.boundaries[block], panel.boundaries[block + 1])
    adjusted = adjustment.block(block)
    noisy, _ = adjustment.gram(adjusted, block, 0)
    expected = panel.n_samples * panel.variances[layout.variants(block)]
    blend = blended(noisy, adjustment.gram_sigma(block), expected, panel.n_known)
    real, target, noise = panel.map_of(block), adjusted.target, adjusted.noise
    mean, outside = np.zeros_like(target), np.zeros((len(real.T), layout.n_phenotypes))
    if scores is not None:
        outside = scores.mean(rows)
        mean = on_components(real, squared_norms, outside)
        target = target - blend.gram @ mean
        of_scores = on_components(real, squared_norms, scores.scores.effects[rows])
        noise = noise.with_errors(blend.mean_covariance(of_scores), scores.slopes)
    return ComponentBlock(
        real=real,
        squared_norms=squared_norms,
        blend=blend,
        gram=blend.raised(),
        target=target,
        noise=noise,
        gram_errors=blend.product_variances(1 / squared_norms[:, None])[:, 0],
        fixed_cross=adjusted.fixed_cross,
        mean=mean,
        outside=outside,
    )


def _fitted(
    block_of: Callable[[int], ComponentBlock],
    sizes: tuple[int, ...],
    prior: EffectPrior,
    covariance: Float64,
    boundaries: tuple[int, ...],
    estimator: Estimator,
) -> _Fitted:
    """Estimate the covariance of the effects, and sample point-normal ones where they are better.

    `covariance` is that of the phenotypes, relative to the mean of the prior's.
    """
    sampling = estimator.samples_effects_of(boundaries[-1], len(covariance))
    pairs = map_blocks(lambda block: _coordinates(block_of(block), prior, mapped=sampling), sizes)
    coordinates = [each for each, _ in pairs]
    mean = float(prior.effect_variance.mean())
    effects = fit_effects(coordinates, covariance, prior.effect_variance / mean)
    variances = effects.variances(covariance) * prior.residual_variance.mean()
    fitted_prior = EffectPrior(effects.scales * mean, variances, effects.n_limited)
    fitted = _Fitted(effects, fitted_prior, {})
    if not sampling:
        return fitted
    maps = [matrix for _, matrix in pairs if matrix is not None]
    return replace(fitted, sampled=sample_effects(coordinates, maps, effects, covariance, mean))


def _coordinates(
    block: ComponentBlock, prior: EffectPrior, *, mapped: bool
) -> tuple[Coordinates, npt.NDArray[np.float32] | None]:
    """Return the coordinates ``Q'G`` of a block, and if `mapped` the codes' effects M' in them.

    The columns of Q are generalised eigenvectors of the covariances of signal and noise in G, for
    effects and noise of an average phenotype. M' has the shape (d_b, m).
    """
    effect, residual = prior.effect_variance.mean(), prior.residual_variance.mean()
    release = float(block.noise.variances.mean())
    variances = effect / block.squared_norms
    noise = residual * block.gram
    noise[np.diag_indices_from(noise)] += release + effect * block.gram_errors
    root = np.linalg.inv(np.linalg.cholesky(noise))
    signal = (block.gram * variances) @ block.gram
    exposures, vectors = np.linalg.eigh(root @ signal @ root.T)
    basis = root.T @ vectors
    seen = block.gram @ basis
    coordinates = Coordinates(
        exposures=np.maximum(exposures, _TINY),
        sampling=np.clip(residual * (basis * seen).sum(axis=0), _TINY, 1),
        errors=effect * (block.gram_errors @ basis**2),
        values=basis.T @ block.target,
        release_noise=block.noise.relative_to(release or 1.0),  # without noise it has no part
    )
    if not mapped:
        return coordinates, None
    matrix = (block.real / block.squared_norms[:, None]).T @ seen
    return coordinates, matrix.astype(np.float32)


def phenotype_covariance(adjustment: Adjustment, prior: EffectPrior, n_samples: float) -> Float64:
    """Return the covariance of the clipped phenotypes, relative to the prior's mean variance.

    The noise of the release is shrunk from the covariances, variances are within a factor 2 of the
    prior's, and eigenvalues are raised to a tenth of the mean.
    """
    f, rescale = adjustment.statistics.layout.n_fixed, adjustment.rescale
    gram = adjustment.statistics.outcome_gram()[f:, f:] * np.outer(rescale, rescale)
    gram -= adjustment.fixed_phenotypes.T @ adjustment.fixed_coefficients
    expected = prior.residual_variance
    sigma = adjustment.scales.phenotype_gram * float(rescale.mean()) ** 2
    gram *= kept_share(gram, sigma) / n_samples
    measured = adjustment.residual_squares() / n_samples
    np.fill_diagonal(gram, within_factor(measured, expected))
    values, vectors = scipy.linalg.eigh(gram / expected.mean(), check_finite=False)
    return np.asarray((vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T)


def on_components(real: Float64, squared_norms: Float64, effects: Float64) -> Float64:
    """Return the effects on components, shape (m_b, k), of effects on codes, shape (d_b, k)."""
    return np.asarray((real @ effects) / squared_norms[:, None])


def _score_sums(
    adjustment: Adjustment, panel: PanelComponents, public: PublicScores, residual: float
) -> list[ScoreSums]:
    """Return the sums of every LD block, in which effects of components have the variances L.

    Components count by the share of the noise in the target that is due to the sampling of people,
    with the `residual` variance of a phenotype.
    """
    layout = adjustment.statistics.layout

    def sums(number: int) -> ScoreSums:
        """Return the sums of one LD block."""
        block = component_block(adjustment, panel, None, number)
        rows = slice(panel.boundaries[number], panel.boundaries[number + 1])
        effects = on_components(block.real, block.squared_norms, public.effects[rows])
        blend, target = block.blend, block.target
        responses, sampled = blend.gram @ effects, residual * blend.expected
        counts = sampled / (sampled + block.noise.variances.mean())
        weighted, counted = effects * np.sqrt(counts)[:, None], effects * counts[:, None]
        signal_of_prior = float(((block.gram**2) / block.squared_norms).sum())  # tr(S L S) / t
        return ScoreSums(
            gram=weighted.T @ blend.gram @ weighted,
            gram_variance=blend.variance_of(weighted),
            even_gram=weighted.T @ (blend.expected[:, None] * weighted),
            sampling=counted.T @ blend.gram @ counted,
            products=counted.T @ counted,
            cross=counted.T @ target,
            moments=replace(
                moments_of(blend.gram, 0.0, target, np.sqrt(block.noise.variances)),
                squared_trace=signal_of_prior,
            ),
            response_gram=responses.T @ responses,
            response_trace=signal_of_prior,
        )

    return map_blocks(sums, layout.sizes)


def _posterior(
    block: ComponentBlock, target: Float64, prior: EffectPrior, sigma: Float64
) -> Float64:
    """Return the weights W of every phenotype or factor, shape (m, l).

    `sigma` is the standard deviation of the noise of the release in the target, shape (l,).
    Phenotypes of equal variances share a decomposition.
    """
    numbers = np.stack([prior.effect_variance, prior.residual_variance, sigma])
    distinct, kind = np.unique(numbers, axis=1, return_inverse=True)
    gram, squared_norms = block.gram, block.squared_norms
    weights, signal = np.empty_like(target), (gram / squared_norms) @ gram
    signal[np.diag_indices_from(signal)] += block.gram_errors
    for index, (effect, residual, noise) in enumerate(distinct.T):
        here: npt.NDArray[np.bool_] = kind.ravel() == index
        covariance = effect * signal + residual * gram
        covariance[np.diag_indices_from(covariance)] += noise**2
        solved = np.linalg.solve(covariance, target[:, here])
        weights[:, here] = (effect / squared_norms)[:, None] * (gram @ solved)
    return weights
