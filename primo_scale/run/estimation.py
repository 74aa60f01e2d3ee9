"""Weights of every phenotype, solved from private statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.genotypes.tables import VariantTable
from primo_scale.humanize import examples
from primo_scale.machine import usable_cpus
from primo_scale.methods.effects import EffectPrior
from primo_scale.methods.linear_algebra import Float64, missing_rescale
from primo_scale.methods.second_round import SecondStatistics, solve_two_rounds
from primo_scale.methods.solve import (
    PRIVATE_DIGITS,
    LatticeWeights,
    PanelComponents,
    Solution,
    SolveInputs,
    adjusted,
    effects_per_allele,
    marginal_effects,
    solve_statistics,
    to_dosage_scale,
)
from primo_scale.outcomes.coding import has_components
from primo_scale.panel.components import OwnDirections, open_components
from primo_scale.privacy.mechanism import PublicBounds, Recipe, SecondRound, no_noise
from primo_scale.privacy.planning import PRIOR_HERITABILITY, ClipResponse
from primo_scale.privacy.private_statistics import PrivateStatistics
from primo_scale.publication.texts import NO_COMPLETE_CASES
from primo_scale.publication.weights import ScoringWeights, SummaryStatistics
from primo_scale.run.design import Design
from primo_scale.run.forecast import ChosenMethod, PlannedRelease, public_eigenvalues
from primo_scale.run.principal_components import read_ancestry
from primo_scale.run.public_inputs import shares_between
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


@dataclass(frozen=True, eq=False)
class NoisySecondRound:
    """Directions of a second round, and their noisy sums."""

    directions: OwnDirections
    noise: SecondRound
    values: Float64


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
    eigenvalues = public_eigenvalues(design, planned.store.variants)
    if mechanism is None:
        _warn_of_missing(design, observed, n_samples)
    response = design.clip_response(1 / rescale, eigenvalues)
    unit = design.genotypes.unit
    components = panel_components(design, request.work_dir, n_samples)
    inputs = SolveInputs(
        bounds=_bounds(design, n_samples),
        scales=no_noise(design.layout.n_blocks) if mechanism is None else mechanism.scales,
        recipe=Recipe() if mechanism is None else mechanism.recipe,
        delta=1.0 if mechanism is None else mechanism.promise.delta,
        unit=unit,
        rescale=rescale,
        prior=effect_prior(design, rescale, response),
        n_samples=n_samples,
        penalty=(request.ridge or 0.0) * unit**2,
        components=components,
        scores=None if chosen.priors is None else chosen.priors.scores,
        ancestry=ancestry_of(design, components, n_samples, request.work_dir),
    )
    if second is not None and components is not None:
        directions = second.directions
        left = np.array(directions.residuals)
        own = design.second_response(1 / rescale, left, directions.degrees)
        statistics = SecondStatistics(
            directions=directions,
            values=second.values,
            sigma=second.noise.sigma,
            factors=response.slope * response.gram_share / own.slope,
            slopes=response.slope,
            ancestry=ancestry_of(design, None, n_samples, request.work_dir),
        )
        solution = solve_two_rounds(adjusted(matrices, inputs), inputs, components, statistics)
    else:
        solution = solve_statistics(matrices, inputs, chosen.method, chosen.estimator)
    if not design.layout.n_fixed:
        solution = replace(solution, weights=_beside_covariates(design, solution, request.work_dir))
    if solution.n_limited:
        given = has_components(c.name for c in design.outcomes.covariates)
        LOGGER.warning(
            "the effects found for %d of %d phenotypes would explain more than these vary, as in a "
            "cohort with population structure that the covariates do not account for. They were "
            "limited; %scheck the bounds of the phenotypes (docs/methods.md)",
            solution.n_limited, design.layout.n_phenotypes,
            "" if given else "give --pc-loadings, or ",
        )  # fmt: skip
    summary, variants = None, planned.store.variants
    if request.sumstats:
        # Effects of any size are stated, because their errors are stated with them.
        inputs = replace(inputs, rescale=missing_rescale(observed, n_samples, least=1 / n_samples))
        variances = design.genotypes.variances * response.gram_share
        marginal = marginal_effects(matrices, inputs, variances)
        summary = _summary(design, marginal, response, variants)
    digits = None if mechanism is None else PRIVATE_DIGITS
    per_unit = to_dosage_scale(
        solution.weights, design.genotypes, design.outcomes, response, digits=digits
    )
    weights = ScoringWeights(
        variants=variants,
        phenotypes=tuple(p.name for p in design.outcomes.phenotypes),
        per_allele=per_unit.per_allele,
        intercept=per_unit.intercept,
        covariates=tuple(c.name for c in design.outcomes.covariates),
        covariate_weights=per_unit.covariates,
        centre_dosage=design.genotypes.centre_dosage,
        summary=summary,
    )
    between = shares_between(design, planned.panel, weights.per_allele)
    return Solved(chosen, solution, response, weights, between)


def people_of(matrices: BlockMatrices) -> tuple[float, Float64]:
    """Return the number of people, and that with each phenotype, shape (l,); noisy if private."""
    people, *counts = matrices.observed().astype(float)
    return max(float(people), 1.0), np.array(counts)


def _warn_of_missing(design: Design, observed: Float64, n_samples: float) -> None:
    """Warn of phenotypes with missing values, whose weights are those of no complete-case ridge."""
    columns = zip(design.outcomes.phenotypes, observed, strict=True)
    names = [
        f"{phenotype.name} {100 * (1 - people / n_samples):.1f}%"
        for phenotype, people in columns
        if people < n_samples
    ]
    if names:
        LOGGER.warning(
            "%d of %d phenotypes have missing values: %s. %s",
            len(names), design.layout.n_phenotypes, examples(names), NO_COMPLETE_CASES,
        )  # fmt: skip


def _beside_covariates(design: Design, solution: Solution, work_dir: Path) -> LatticeWeights:
    """Return the weights with those of the covariates beside the score.

    The covariates' effects on the phenotype were subtracted before. A score also predicts with what
    the principal components explain of it, which is subtracted from their effects.
    """
    genotypes = solution.weights.genotypes
    fixed = np.zeros((1 + len(design.outcomes.covariates), design.layout.n_phenotypes))
    if design.loadings is not None:
        slopes = read_ancestry(work_dir / ANCESTRY)
        explained = slopes.T @ genotypes
        fixed[-slopes.shape[1] :] = -explained
        # The panel's mean of a component is 0, and its code there is that of its centre.
        parts = design.outcomes.covariates[-slopes.shape[1] :]
        codes = np.array([part.centre * part.scale for part in parts])
        fixed[0] = -(codes @ explained) / design.outcomes.constant
    return LatticeWeights(genotypes, fixed)


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


def _bounds(design: Design, n_samples: float) -> PublicBounds:
    """Return bounds for projections, whose bound is n times a norm: a tenth more if n is noisy."""
    if design.nominal_n is None:
        return design.bounds
    return replace(design.bounds, n_samples=math.ceil(1.1 * n_samples))


def effect_prior(design: Design, rescale: Float64, response: ClipResponse) -> EffectPrior:
    """Return the prior: even effects of the assumed heritability, attenuated by clipping."""
    squared = design.outcomes.unit**2
    effect = PRIOR_HERITABILITY * design.shares_of_liability * squared / design.genotypes.variance
    return EffectPrior(
        effect_variance=effect * response.slope**2,
        residual_variance=response.variance * squared * rescale,
    )


def _summary(
    design: Design,
    marginal: tuple[Float64, Float64],
    response: ClipResponse,
    variants: VariantTable,
) -> SummaryStatistics:
    """Return the effects of single variants, after warnings of what has none."""
    from primo_scale.publication.weights import count_left_out  # loads SciPy

    left_out = count_left_out(variants)
    if left_out:
        LOGGER.warning(
            "--sumstats: %d of %d variants are left out, because they have no position on an "
            "autosome or alleles other than A, C, G and T", left_out, len(variants),
        )  # fmt: skip
    effect, error = effects_per_allele(marginal, design.genotypes, design.outcomes, response)
    columns = zip(design.outcomes.phenotypes, error.T, strict=True)
    names = [phenotype.name for phenotype, errors in columns if not errors.any()]
    if names:  # only without noise
        LOGGER.warning(
            "--sumstats: no file of %s: nobody has a value, or all have the same", examples(names)
        )
    return SummaryStatistics(effect, error, design.genotypes.frequency)
