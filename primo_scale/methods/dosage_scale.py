"""Conversion of lattice weights to the units of the input files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.methods.shrinkage import Float64
from primo_scale.methods.solution import LatticeWeights
from primo_scale.methods.summary_statistics import MarginalEffects
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.planning import ClipResponse

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


def effects_per_allele(
    effects: MarginalEffects,
    genotypes: GenotypeCoding,
    outcomes: OutcomeCoding,
    response: ClipResponse,
) -> MarginalEffects:
    """Return marginal effects per copy of allele 1 in phenotype units; overwrites `effects`."""
    for values in (effects.effect, effects.standard_error):
        values *= genotypes.multiplier.astype(np.float64)[:, None]
        values *= phenotype_unit(outcomes, response)
    return effects


def phenotype_unit(outcomes: OutcomeCoding, response: ClipResponse) -> Float64:
    """Return the phenotype units of one lattice step before clipping, shape (l,)."""
    return np.array([p.sd for p in outcomes.phenotypes]) / (outcomes.unit * response.slope)
