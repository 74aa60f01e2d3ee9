"""From statistics to weights by any method of the catalogue."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from primo_scale.methods.adjustment import Adjustment, adjust
from primo_scale.methods.catalogue import Method
from primo_scale.methods.estimators import (
    EffectPrior,
    Estimator,
    EstimatorInputs,
    floor_in_words,
    in_words,
    prior_numbers,
    rule_for,
)
from primo_scale.methods.linear_model import LatticeWeights, solve
from primo_scale.methods.projection import (
    PhenotypeProjection,
    ball_multiplier,
    project_phenotypes,
    squared_radius,
)
from primo_scale.methods.shrinkage import Float64, JamesStein, Ridge, whitened_squares
from primo_scale.methods.spectrum import Spectrum, spectra
from primo_scale.methods.ssp import eigenvalue_bound
from primo_scale.privacy.mechanism import NoiseScales, PublicBounds, Recipe
from primo_scale.storage.block_matrices import BlockMatrices


@dataclass(frozen=True)
class SolveInputs:
    """What is known beyond the statistics; public, but for the noisy counts in `rescale`.

    Attributes
    ----------
    bounds
        Bounds on the rows, and the number of people, nominal where the real one is private.
    scales
        Noise in the statistics; `no_noise` where there is none.
    recipe
        What was measured.
    delta
        Of the promise.
    unit
        Lattice steps to one unit of the genotype coding.
    rescale
        Factor on each phenotype that makes up for missing values, shape (l,).
    prior
        Of effects.
    penalty
        Of `Estimator.RIDGE`, in squared lattice units; None with any other.
    """

    bounds: PublicBounds
    scales: NoiseScales
    recipe: Recipe
    delta: float
    unit: int
    rescale: Float64
    prior: EffectPrior
    penalty: float | None = None


@dataclass(frozen=True)
class Solution:
    """Weights and what there is to say about them; public once the statistics are private.

    Attributes
    ----------
    weights
        On the lattice.
    rule, floor
        How eigenvalues and targets became weights, and what became of small eigenvalues, in words.
    parameters
        Numbers of the rule, by name.
    penalties
        In squared lattice units, of every block and in it of every copy of X'X, where the rule is
        a ridge; else empty.
    """

    weights: LatticeWeights
    rule: str
    floor: str
    parameters: dict[str, float]
    penalties: tuple[float, ...]


def solve_statistics(
    statistics: BlockMatrices, inputs: SolveInputs, method: Method, estimator: Estimator
) -> Solution:
    """Solve every phenotype.

    Parameters
    ----------
    statistics
        Private, or exact for a release stamped NOT PRIVATE.
    inputs
        What is known of them.
    method
        Of the release.
    estimator
        From `catalogue.estimator_for`.

    Notes
    -----
    Blocks are decomposed, solved and forgotten one at a time. Only `Estimator.PROJECTION`, whose
    penalty depends on the spectra of all, keeps every decomposition in memory: ``sum d_b (d_b +
    l)`` float64. Measured: one dense block of 10,000 variants with 1,000 phenotypes, known noise,
    took 377 s and 2.0 GB on two cores that others used too.
    """
    if estimator is Estimator.RIDGE and inputs.penalty is None:
        raise ValueError("ridge needs a penalty")
    subsample, n_samples = inputs.recipe.subsample, inputs.bounds.n_samples
    gram_factor = 1.0 if subsample is None else n_samples / subsample
    adjustment = adjust(statistics, inputs.scales, inputs.rescale, gram_factor=gram_factor)
    numbers = prior_numbers(estimator, inputs.prior)
    across = None
    if method.projects_phenotypes:
        across, found = _across_phenotypes(adjustment, inputs.bounds)
        numbers |= found
    blocks: Iterable[Spectrum] = spectra(adjustment, across)
    penalty, smallest = inputs.penalty or 0.0, 0.0
    if estimator.needs_every_spectrum:
        blocks = tuple(blocks)
        penalty, found = _projection_penalty(blocks, adjustment, inputs.bounds)
        numbers |= found
    if estimator is Estimator.EIGENVALUE_RIDGE:
        smallest = eigenvalue_bound(
            statistics.smallest_eigenvalue(), inputs.scales.smallest_eigenvalue, inputs.delta
        )
        numbers["smallest_eigenvalue_bound"] = smallest
    rule_inputs = EstimatorInputs(inputs.prior, penalty, inputs.unit, smallest)
    solved = solve(blocks, lambda spectrum: rule_for(estimator, spectrum, rule_inputs), adjustment)
    return Solution(
        weights=solved.weights,
        rule=in_words(estimator),
        floor=floor_in_words(estimator),
        parameters=numbers,
        penalties=tuple(
            rule.penalty for rule in solved.rules if isinstance(rule, Ridge | JamesStein)
        ),
    )


def _across_phenotypes(
    adjustment: Adjustment, bounds: PublicBounds
) -> tuple[PhenotypeProjection, dict[str, float]]:
    """The projection by Y'Y, and what to say of it.

    The truth is ``Z'Y`` with Z the adjusted genotypes, and no adjustment makes those longer.
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
    return projection, _in_numbers(projection.multiplier, radius)


def _projection_penalty(
    blocks: Iterable[Spectrum], adjustment: Adjustment, bounds: PublicBounds
) -> tuple[float, dict[str, float]]:
    """The multiplier of the projection by X'X, which is a penalty, and what to say of it.

    Columns count as they were before making up for missing values: the bound is on those.
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
    return multiplier, _in_numbers(multiplier, radius)


def _in_numbers(multiplier: float, radius: float) -> dict[str, float]:
    return {"projection_multiplier": multiplier, "projection_radius": math.sqrt(radius)}
