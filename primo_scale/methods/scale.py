"""Lattice weights and marginal effects of single variants, in the units of the input files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.methods.linear_algebra import Float64, adjust
from primo_scale.methods.solve import LatticeWeights, SolveInputs
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.planning import ClipResponse
from primo_scale.storage.block_matrices import BlockMatrices

PRIVATE_DIGITS = 3
"""Significant digits of the weights of a private release (docs/report.md, "Digits of weights").

From a person's score of few variants by weights of more digits, genotypes can be computed."""
_ROWS = 1024  # rounded at a time


@dataclass(frozen=True)
class DosageWeights:
    """Weights in the units of the input files."""

    per_allele: Float64  # change of each phenotype per additional copy of allele 1, shape (d, l)
    intercept: Float64  # predicted phenotype at zero dosages and zero covariates, shape (l,)
    covariates: Float64  # change of each phenotype per unit of each covariate, shape (c, l)


def to_dosage_scale(
    weights: LatticeWeights,
    genotypes: GenotypeCoding,
    outcomes: OutcomeCoding,
    response: ClipResponse,
    *,
    digits: int | None = None,
) -> DosageWeights:
    """Undo the public coding (docs/maths/clipping-and-integers.md, "Mixed scales").

    The weights of alleles get `digits` significant digits, or all, and the intercept follows from
    these weights.

    With ``y = mean + (sd/s_y) [kappa B_0 + sum_c B_c s_c (x_c - centre_c) +
    sum_j W_j (k_j g_j - m_j)]``, each weight is a public multiple of a lattice weight. The known
    slope and offset that row clipping gives each phenotype are inverted, and the effects by which
    phenotypes were adjusted are added.
    """
    unit = phenotype_unit(outcomes, response)
    scale = np.array([c.scale for c in outcomes.covariates], dtype=np.float64)
    centre = np.array([c.centre for c in outcomes.covariates], dtype=np.float64)
    covariates = weights.fixed[1:] * scale[:, None]
    per_allele = genotypes.multiplier.astype(np.float64)[:, None] * weights.genotypes * unit
    if digits is not None:
        round_in_place(per_allele, digits)
    at_centre = (
        outcomes.constant * weights.fixed[0] - centre @ covariates - outcomes.unit * response.offset
    )
    return DosageWeights(
        per_allele=per_allele,
        intercept=outcomes.means
        - centre @ outcomes.covariate_weights
        + at_centre * unit
        - genotypes.centre_dosage @ per_allele,
        covariates=outcomes.covariate_weights + covariates * unit,
    )


def round_in_place(values: Float64, digits: int) -> None:
    """Round finite values, shape (d, l), to significant decimal digits; below 1e-300, to 0."""
    for start in range(0, len(values), _ROWS):
        rows = values[start : start + _ROWS]
        with np.errstate(divide="ignore"):  # of 0
            exponent = np.maximum(np.floor(np.log10(np.abs(rows))), -300.0)
        power = 10.0 ** (digits - 1 - exponent)
        rows[:] = np.round(rows * power) / power


def marginal_effects(
    statistics: BlockMatrices, inputs: SolveInputs, variances: Float64
) -> tuple[Float64, Float64]:
    """Return the effect of every variant on every phenotype in lattice units, and its error.

    The score of a variant is the adjusted X'Y, divided by n times the public variance of the coded
    variant in `variances`, shape (d,). Effects are attenuated by clipping. The standard error
    counts the sampling of the clipped, zero-filled phenotype and the noise of the release: on
    private statistics all of this is post-processing (docs/maths/summary-statistics.md).
    """
    adjustment = adjust(statistics, inputs.scales, inputs.rescale, gram_factor=1.0)
    blocks = map(adjustment.block, range(statistics.layout.n_blocks))
    scores = np.concatenate([block.target for block in blocks])
    sampling = np.outer(variances, adjustment.residual_squares())
    errors = np.sqrt(sampling + (inputs.scales.phenotype_cross * inputs.rescale) ** 2)
    people = (inputs.n_samples * variances)[:, None]
    return scores / people, errors / people


def effects_per_allele(
    effects: tuple[Float64, Float64],
    genotypes: GenotypeCoding,
    outcomes: OutcomeCoding,
    response: ClipResponse,
) -> tuple[Float64, Float64]:
    """Return marginal effects per copy of allele 1 in phenotype units; overwrites `effects`."""
    for values in effects:
        values *= genotypes.multiplier.astype(np.float64)[:, None]
        values *= phenotype_unit(outcomes, response)
    return effects


def phenotype_unit(outcomes: OutcomeCoding, response: ClipResponse) -> Float64:
    """Return the phenotype units of one lattice step before clipping, shape (l,)."""
    return np.array([p.sd for p in outcomes.phenotypes]) / (outcomes.unit * response.slope)
