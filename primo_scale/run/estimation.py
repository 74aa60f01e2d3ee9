"""Weights of every phenotype, solved from private statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.machine import usable_cpus
from primo_scale.methods import effects, second_round
from primo_scale.methods import solve as solving
from primo_scale.methods.linear_algebra import Float64, missing_rescale
from primo_scale.methods.solve import PanelComponents, Solution
from primo_scale.outcomes.coding import has_components
from primo_scale.panel.components import OwnDirections, open_components
from primo_scale.privacy.mechanism import Recipe, SecondRound, no_noise
from primo_scale.privacy.planning import PRIOR_HERITABILITY, ClipResponse
from primo_scale.privacy.private_statistics import PrivateStatistics
from primo_scale.publication.weights import ScoringWeights, SummaryStatistics
from primo_scale.run.design import ChosenMethod, Design, PlannedRelease
from primo_scale.run.public_inputs import read_ancestry, shares_between
from primo_scale.run.run_log import LOGGER
from primo_scale.run.work_directory import ANCESTRY, COMPONENTS, store_root
from primo_scale.storage.block_matrices import BlockMatrices
from primo_scale.verify.document import HeldOut


@dataclass(frozen=True)
class Solved:
    """Weights of a release in both scales, how they were made, and how accurate they are."""

    chosen: ChosenMethod
    solution: Solution  # on the lattice
    response: ClipResponse  # effect of clipping that the weights undo
    weights: ScoringWeights
    between_populations: tuple[float, ...] = ()  # share of each score's variance in the panel
    hold_out: HeldOut | None = None  # accuracy in people held out, if any were


NoisySecondRound = tuple[OwnDirections, SecondRound, Float64]
"""Directions of a second round, the noise on their sums, and the noisy sums."""


def solve(
    planned: PlannedRelease, private: PrivateStatistics, second: NoisySecondRound | None = None
) -> Solved:
    """Solve every phenotype, from statistics with their noise or for a NOT PRIVATE release."""
    # A library that is loaded while a local Dask cluster runs takes one BLAS thread.
    with threadpool_limits(limits=usable_cpus()):
        return _solved(planned, private, second)


def _solved(
    planned: PlannedRelease, private: PrivateStatistics, second: NoisySecondRound | None
) -> Solved:
    design, chosen, request = planned.design, planned.chosen, planned.request
    matrices, mechanism = private.matrices, private.mechanism
    n_samples, observed = people_of(matrices)
    rescale = missing_rescale(observed, n_samples)
    response = design.clip_response(1 / rescale, design.eigenvalues(planned.store.variants))
    unit = design.genotypes.unit
    components = panel_components(design, request.work_dir, n_samples)
    bounds = design.bounds
    if design.nominal_n is not None:  # noisy: projections have n times a norm, a tenth more of it
        bounds = replace(bounds, n_samples=math.ceil(1.1 * n_samples))
    inputs = solving.SolveInputs(
        bounds=bounds,
        scales=no_noise(design.layout.n_blocks) if mechanism is None else mechanism.scales,
        recipe=Recipe() if mechanism is None else mechanism.recipe,
        delta=1.0 if mechanism is None else mechanism.promise.delta,
        unit=unit,
        rescale=rescale,
        prior=effect_prior(design, rescale, response),
        n_samples=n_samples,
        penalty=(request.ridge or 0.0) * unit**2,
        components=components,
        scores=chosen.scores,
        ancestry=ancestry_of(design, components, n_samples, request.work_dir),
    )
    if second is not None and components is not None:
        directions, noise, values = second
        left = np.array(directions.residuals)
        own = design.second_response(1 / rescale, left, directions.degrees)
        solution = second_round.solve_two_rounds(
            solving.adjusted(matrices, inputs),
            inputs,
            components,
            directions,
            values,
            sigma=noise.sigma,
            factors=response.slope * response.gram_share / own.slope,
            slopes=response.slope,
            ancestry=ancestry_of(design, None, n_samples, request.work_dir),
        )
    else:
        solution = solving.solve_statistics(matrices, inputs, chosen.method, chosen.estimator)
    if not design.layout.n_fixed:
        solution = replace(solution, fixed=_beside_covariates(design, solution, request.work_dir))
    if solution.n_limited:
        given = has_components(c.name for c in design.outcomes.covariates)
        LOGGER.warning(
            "the effects found for %d of %d phenotypes would explain more than these vary, as in a "
            "cohort with population structure that the covariates do not account for. They were "
            "limited; %scheck the bounds of the phenotypes (docs/methods.md)",
            solution.n_limited, design.layout.n_phenotypes,
            "" if given else "give --pc-loadings, or ",
        )  # fmt: skip
    summary, variants, codings = None, planned.store.variants, (design.genotypes, design.outcomes)
    if request.sumstats:
        from primo_scale.publication.weights import count_left_out  # loads SciPy

        # Effects of any size are stated, because their errors are stated with them.
        inputs = replace(inputs, rescale=missing_rescale(observed, n_samples, least=1 / n_samples))
        variances = design.genotypes.variances * response.gram_share
        marginal = solving.marginal_effects(matrices, inputs, variances)
        if left_out := count_left_out(variants):
            LOGGER.warning(
                "--sumstats: %d of %d variants are left out, because they have no position on an "
                "autosome or alleles other than A, C, G and T", left_out, len(variants),
            )  # fmt: skip
        effect, error = solving.effects_per_allele(marginal, *codings, response)
        summary = SummaryStatistics(effect, error, design.genotypes.frequency)
    digits = None if mechanism is None else solving.PRIVATE_DIGITS
    per_allele, intercept, of_covariates = solving.to_dosage_scale(
        (solution.genotypes, solution.fixed), *codings, response, digits=digits
    )
    weights = ScoringWeights(
        variants=variants,
        phenotypes=tuple(p.name for p in design.outcomes.phenotypes),
        per_allele=per_allele,
        intercept=intercept,
        covariates=tuple(c.name for c in design.outcomes.covariates),
        covariate_weights=of_covariates,
        centre_dosage=design.genotypes.centre_dosage,
        summary=summary,
    )
    between = shares_between(design, planned.panel, weights.per_allele)
    return Solved(chosen, solution, response, weights, between)


def people_of(matrices: BlockMatrices) -> tuple[float, Float64]:
    """Return the number of people, and that with each phenotype, shape (l,); noisy if private."""
    people, *counts = matrices.observed().astype(float)
    return max(float(people), 1.0), np.array(counts)


def _beside_covariates(design: Design, solution: Solution, work_dir: Path) -> Float64:
    """Return the weights of the fixed columns beside the score.

    The covariates' effects on the phenotype were subtracted before. A score also predicts with what
    the principal components explain of it, which is subtracted from their effects.
    """
    fixed = np.zeros((1 + len(design.outcomes.covariates), design.layout.n_phenotypes))
    if design.loadings is not None:
        slopes = read_ancestry(work_dir / ANCESTRY)
        explained = slopes.T @ solution.genotypes
        fixed[-slopes.shape[1] :] = -explained
        # The panel's mean of a component is 0, and its code there is that of its centre.
        parts = design.outcomes.covariates[-slopes.shape[1] :]
        codes = np.array([part.centre * part.scale for part in parts])
        fixed[0] = -(codes @ explained) / design.outcomes.constant
    return fixed


def explained_by_covariates(design: Design, weights: ScoringWeights, work_dir: Path) -> Float64:
    """Return what a unit of each covariate explains of the scores by the weights, shape (c, l).

    It follows from the public loadings for the principal components, and is 0 for others.
    """
    found = np.zeros((len(design.outcomes.covariates), len(weights.phenotypes)))
    if design.loadings is not None:
        slopes = read_ancestry(work_dir / ANCESTRY) / design.genotypes.multiplier[:, None]
        scale = np.array([c.scale for c in design.outcomes.covariates[-slopes.shape[1] :]])
        found[-slopes.shape[1] :] = scale[:, None] * (slopes.T @ weights.per_allele)
    return found


def panel_components(design: Design, work_dir: Path, n_samples: float) -> PanelComponents | None:
    """Return the LD components of a design as the solution needs them, or None without any."""
    columns = design.components
    if columns is None or design.panel is None:
        return None
    store = open_components(store_root(work_dir, design.object_store) / COMPONENTS)
    return PanelComponents(
        map_of=lambda block: store.map_of(block).real,
        variances=columns.variances,
        squared_norms=columns.squared_norms,
        n_known=design.panel.known_people,
        n_samples=n_samples,
        boundaries=design.boundaries,
    )


def ancestry_of(
    design: Design, components: PanelComponents | None, n_samples: float, work_dir: Path
) -> Float64 | None:
    """Return a root of what principal components explain of X'X, where X'C is private.

    X has the columns of the components, or of the variants without any.
    """
    paid = design.adjustment
    if paid is None or design.layout.n_fixed or design.loadings is None:
        return None
    slopes = read_ancestry(work_dir / ANCESTRY).astype(np.float64)
    k = slopes.shape[1]
    values, vectors = np.linalg.eigh(np.array(paid.covariance)[-k:, -k:])
    root = slopes @ (vectors * np.sqrt(n_samples * np.maximum(values, 0)))
    if components is None:
        return np.asarray(root)
    blocks = np.split(root, components.boundaries[1:-1])
    return np.concatenate([components.map_of(b) @ part for b, part in enumerate(blocks)])


def effect_prior(design: Design, rescale: Float64, response: ClipResponse) -> effects.EffectPrior:
    """Return the prior: even effects of the assumed heritability, attenuated by clipping."""
    squared = design.outcomes.unit**2
    effect = PRIOR_HERITABILITY * design.shares_of_liability * squared / design.genotypes.variance
    return effects.EffectPrior(
        effect_variance=effect * response.slope**2,
        residual_variance=response.variance * squared * rescale,
    )
