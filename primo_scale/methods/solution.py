"""Weights from statistics, by any method of the catalogue.

For one LD block with lattice genotypes X, fixed columns C (the constant and the covariates, not
shrunk) and phenotypes Y, with S and G adjusted for C (`primo_scale.methods.adjustment`)::

    S = V diag(lambda) V'      one eigendecomposition for all phenotypes
    W = V (f * V'G)            f: a rule of `primo_scale.methods.shrinkage`
    B = (C'C)^-1 (C'Y - sum over blocks of C'X W)

Public scores as the prior mean of W: `primo_scale.methods.public_scores`.

Eigenvalues that noise makes negative count as zero. On private statistics all of these
computations are post-processing: docs/maths/estimation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from primo_scale.methods.adjustment import Adjustment, adjust
from primo_scale.methods.catalogue import Method
from primo_scale.methods.component_weights import PanelComponents, solve_components
from primo_scale.methods.effect_variances import effect_moments, fitted_prior
from primo_scale.methods.estimators import EffectPrior, Estimator, EstimatorInputs
from primo_scale.methods.map_blocks import map_blocks
from primo_scale.methods.projection import (
    PhenotypeProjection,
    ball_multiplier,
    project_phenotypes,
    squared_radius,
)
from primo_scale.methods.public_scores import (
    FittedScores,
    PublicScores,
    around,
    fit_scores,
    variant_sums,
)
from primo_scale.methods.rules import eigenvalue_bound
from primo_scale.methods.second_round import SecondStatistics, solve_two_rounds
from primo_scale.methods.shrinkage import Float64, JamesStein, Ridge, Shrinkage, whitened_squares
from primo_scale.methods.spectrum import Spectrum, spectra_of
from primo_scale.privacy.mechanism import NoiseScales, PublicBounds, Recipe
from primo_scale.storage.block_matrices import BlockMatrices

_Spectra = Callable[[int], Iterable[Spectrum]]  # spectra of a block, which cover every phenotype


@dataclass(frozen=True)
class LatticeWeights:
    """Weights of coded genotypes and coded fixed columns."""

    genotypes: Float64  # weights W of the variants, shape (d, l)
    fixed: Float64  # weights B of the constant and the covariates, in this order, shape (1 + c, l)


@dataclass(frozen=True)
class SolveInputs:
    """Parameters of a solution besides the statistics; public except the counts in `rescale`."""

    # Bounds on the rows, and the number of people: nominal where the true number is private.
    bounds: PublicBounds
    # Standard deviations of the noise in the statistics; `no_noise` for exact statistics.
    scales: NoiseScales
    recipe: Recipe  # description of the noisy measurements
    delta: float  # of the promise
    unit: int  # lattice steps per unit of the genotype coding
    rescale: Float64  # noisy factor on each phenotype that corrects for missing values, shape (l,)
    prior: EffectPrior
    n_samples: float  # number of people, noisy where it is private
    penalty: float  # of the estimator ``ridge``, in squared lattice units
    components: PanelComponents | None = None  # that take the place of the variants, or None
    scores: PublicScores | None = None  # prior mean of the effects; None stands for 0
    second: SecondStatistics | None = None  # of a second round, or None without one
    # Root of what the principal components explain of X'X, shape (d, k), or None.
    ancestry: Float64 | None = None


@dataclass(frozen=True)
class Solution:
    """Weights and a description of how they were computed; public if the statistics are private."""

    weights: LatticeWeights
    rule: str  # description of the shrinkage rule
    floor: str  # description of the treatment of small eigenvalues
    parameters: dict[str, float]  # parameters of the rule, by name
    # Ridge penalty of every copy of X'X in every block, in squared lattice units; empty if the rule
    # is not a ridge.
    penalties: tuple[float, ...]
    scores: FittedScores | None = None  # slopes of the public scores, if there are any
    n_limited: int = 0  # number of phenotypes whose estimated effect variance was too large


def solve_statistics(
    statistics: BlockMatrices, inputs: SolveInputs, method: Method, estimator: Estimator
) -> Solution:
    """Solve every phenotype with the estimator that `catalogue.estimator_for` returns.

    The statistics are private, or exact for a release stamped NOT PRIVATE. Blocks are decomposed,
    solved and discarded, small ones side by side. Only ``projection``, whose penalty depends on all
    spectra, keeps every decomposition in memory.
    """
    subsample, n_samples = inputs.recipe.subsample, inputs.bounds.n_samples
    gram_factor = 1.0 if subsample is None else n_samples / subsample
    adjustment = adjust(
        statistics,
        inputs.scales,
        inputs.rescale,
        gram_factor=gram_factor,
        ancestry=inputs.ancestry,
    )
    sizes = statistics.layout.sizes
    if inputs.components is not None:
        return _of_components(adjustment, inputs, inputs.components, estimator)
    numbers: dict[str, float] = {}
    across = None
    if method.projects_phenotypes:
        across, numbers = _across_phenotypes(adjustment, inputs.bounds)
    spectra: _Spectra = partial(spectra_of, adjustment, across)
    penalty = inputs.penalty
    if estimator.needs_every_spectrum:
        every = map_blocks(lambda block: tuple(spectra_of(adjustment, across, block)), sizes)
        spectra = every.__getitem__
        penalty, found = _projection_penalty(tuple(chain(*every)), adjustment, inputs.bounds)
        numbers |= found
    smallest = eigenvalue_bound(
        statistics.smallest_eigenvalue(), inputs.scales.smallest_eigenvalue, inputs.delta
    )
    prior, scores = _prior_and_scores(adjustment, inputs, estimator)
    rule_inputs = EstimatorInputs(prior, penalty, inputs.unit, smallest)
    rule_for = estimator.load_rule()
    weights, rules = _solve(
        spectra, lambda spectrum: rule_for(spectrum, rule_inputs), adjustment, scores
    )
    return Solution(
        weights=weights,
        rule=estimator.description,
        floor=estimator.floor,
        parameters=estimator.numbers(rule_inputs) | numbers,
        penalties=tuple(rule.penalty for rule in rules if isinstance(rule, Ridge | JamesStein)),
        scores=scores,
        n_limited=prior.n_limited,
    )


def _prior_and_scores(
    adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator
) -> tuple[EffectPrior, FittedScores | None]:
    """Return the prior, fitted if the estimator does so, and the fitted public scores, if any."""
    prior, public = inputs.prior, inputs.scores
    sums = [] if public is None else variant_sums(adjustment, public)
    if estimator.fits_variances:
        moments = [each.moments for each in sums] or effect_moments(adjustment)
        variances = adjustment.residual_squares() / inputs.n_samples
        prior = fitted_prior(moments, prior, variances, inputs.n_samples)
    if public is None:
        return prior, None
    scores = fit_scores(sums, public, prior, adjustment.statistics.layout.n_variants)
    return replace(prior, effect_variance=prior.effect_variance * scores.left), scores


def _of_components(
    adjustment: Adjustment, inputs: SolveInputs, panel: PanelComponents, estimator: Estimator
) -> Solution:
    """Return the posterior mean from statistics of LD components."""
    second = inputs.second
    if second is None:
        found = solve_components(adjustment, inputs.prior, panel, inputs.scores, estimator)
    else:
        found = solve_two_rounds(adjustment, inputs.prior, panel, inputs.scores, second)
    fixed = adjustment.fixed_inverse @ (adjustment.fixed_phenotypes - found.explained)
    rule_inputs = EstimatorInputs(
        found.prior, 0.0, inputs.unit, 0.0, found.n_factors, found.n_sampled
    )
    return Solution(
        weights=LatticeWeights(found.weights, fixed),
        rule=estimator.description,
        floor=estimator.floor,
        parameters=estimator.numbers(rule_inputs),
        penalties=(),
        scores=found.scores,
        n_limited=found.prior.n_limited,
    )


def _solve(
    spectra: _Spectra,
    rule_for: Callable[[Spectrum], Shrinkage],
    adjustment: Adjustment,
    scores: FittedScores | None,
) -> tuple[LatticeWeights, list[Shrinkage]]:
    """Return the weights of every block and phenotype, and the rule of each spectrum."""
    layout = adjustment.statistics.layout
    genotypes = np.empty((layout.n_variants, layout.n_phenotypes))

    def solve_block(block: int) -> tuple[Float64, list[Shrinkage]]:
        """Set the weights of a block; return what they explain of C'Y, and the rules."""
        variants, rules = layout.variants(block), []
        explained = np.zeros_like(adjustment.fixed_phenotypes)
        for plain in spectra(block):
            spectrum, mean = plain, None
            if scores is not None:
                mean = scores.mean(variants)[:, plain.phenotypes]
                spectrum = around(plain, mean)
            rule = rule_for(spectrum)
            coefficients = rule.factors(spectrum.values, spectrum.target) * spectrum.target
            weights = spectrum.vectors.combinations(coefficients)
            if mean is not None:
                weights += mean
            genotypes[variants, spectrum.phenotypes] = weights
            explained[:, spectrum.phenotypes] = spectrum.fixed_cross.T @ weights
            rules.append(rule)
        return explained, rules

    solved = map_blocks(solve_block, layout.sizes)
    residual = adjustment.fixed_phenotypes - sum(explained for explained, _ in solved)
    weights = LatticeWeights(genotypes, adjustment.fixed_inverse @ residual)
    return weights, [rule for _, rules in solved for rule in rules]


def _across_phenotypes(
    adjustment: Adjustment, bounds: PublicBounds
) -> tuple[PhenotypeProjection, dict[str, float]]:
    """Return the projection by Y'Y and its parameters by name.

    The bound on the genotypes also holds for the adjusted genotypes Z of the true ``Z'Y``, because
    adjustment never increases a norm.
    """
    layout, scales = adjustment.statistics.layout, adjustment.scales
    traces = [float(adjustment.statistics.gram(block).trace()) for block in range(layout.n_blocks)]
    sigmas = np.array(scales.gram) * np.sqrt(layout.sizes)
    radius = squared_radius(
        float(bounds.n_samples * bounds.row_norm), sum(traces), float(np.linalg.norm(sigmas))
    )
    phenotypes = slice(layout.n_fixed, None)
    projection = project_phenotypes(
        adjustment.statistics.outcome_gram()[phenotypes, phenotypes].astype(np.float64),
        (adjustment.block(block).target / adjustment.rescale for block in range(layout.n_blocks)),
        radius,
    )
    return projection, _projection_parameters(projection.multiplier, radius)


def _projection_penalty(
    blocks: Iterable[Spectrum], adjustment: Adjustment, bounds: PublicBounds
) -> tuple[float, dict[str, float]]:
    """Return the multiplier of the projection by X'X, which is a penalty, and its parameters.

    Columns are used without the correction for missing values, because the bound applies to them.
    """
    layout, scales = adjustment.statistics.layout, adjustment.scales
    trace = float(adjustment.statistics.outcome_gram().diagonal()[layout.n_fixed :].sum())
    radius = squared_radius(
        float(bounds.n_samples * bounds.phenotype_norm),
        trace,
        scales.phenotype_gram * math.sqrt(layout.n_phenotypes),
    )
    values = np.concatenate([spectrum.values for spectrum in blocks])
    squares = [
        whitened_squares(spectrum.target, adjustment.rescale[spectrum.phenotypes])
        for spectrum in blocks
    ]
    multiplier = ball_multiplier(values, np.concatenate(squares), radius)
    return multiplier, _projection_parameters(multiplier, radius)


def _projection_parameters(multiplier: float, radius: float) -> dict[str, float]:
    return {"projection_multiplier": multiplier, "projection_radius": math.sqrt(radius)}
