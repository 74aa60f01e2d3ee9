"""Marginal effect of every variant on every phenotype, and its standard error.

The score of variant j and phenotype k is the adjusted X'Y of `primo_scale.methods.adjustment`. It
is divided by n times the public variance of the coded variant. The standard error counts the
sampling of the clipped, zero-filled phenotype and the noise of the release. On private statistics
all of these computations are post-processing: docs/maths/summary-statistics.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.methods.adjustment import Adjustment, adjust
from primo_scale.methods.shrinkage import Float64
from primo_scale.methods.solution import SolveInputs
from primo_scale.storage.block_matrices import BlockMatrices


@dataclass(frozen=True)
class MarginalEffects:
    """Effects of single variants, in phenotype units per unit of the genotype."""

    effect: Float64  # shape (d, l)
    standard_error: Float64  # shape (d, l)


def marginal_effects(
    statistics: BlockMatrices, inputs: SolveInputs, variances: Float64
) -> MarginalEffects:
    """Return the marginal effects in lattice units, attenuated by clipping.

    The statistics are private, or exact for a release stamped NOT PRIVATE. `variances` are the
    public ones of the coded variants, shape (d,).
    """
    adjustment = adjust(
        statistics,
        inputs.scales,
        inputs.rescale,
        gram_factor=1.0,
        expected_constant=inputs.expected_constant,
    )
    layout = statistics.layout
    scores = np.empty((layout.n_variants, layout.n_phenotypes))
    leverage = np.empty(layout.n_variants)
    risk = np.zeros(layout.n_fixed)
    for block in range(layout.n_blocks):
        rows, adjusted = layout.variants(block), adjustment.block(block)
        scores[rows] = adjusted.target
        leverage[rows] = (adjusted.projection**2).sum(axis=1)
        risk += adjusted.fixed_risk * layout.size(block) / layout.n_variants
    sampling = np.outer(variances, adjustment.residual_squares())
    cross, fixed_phenotype = _noise_variances(adjustment, np.maximum(risk, 0.0))
    errors = np.sqrt(sampling + cross + np.outer(leverage, fixed_phenotype))
    people = (inputs.n_samples * variances)[:, None]
    return MarginalEffects(scores / people, errors / people)


def _noise_variances(adjustment: Adjustment, risk: Float64) -> tuple[Float64, Float64]:
    """Return the variance that X'Y and X'C bring to a score, and C'Y per unit of leverage.

    `risk` is the mean squared error of each denoised column of X'C, in units of its noise.
    """
    scales, rescale = adjustment.scales, adjustment.rescale
    fixed_cross = scales.fixed_cross**2 * (risk @ adjustment.fixed_coefficients**2)
    cross = (scales.phenotype_cross * rescale) ** 2 + fixed_cross
    return np.asarray(cross), np.asarray((scales.fixed_phenotype * rescale) ** 2)
