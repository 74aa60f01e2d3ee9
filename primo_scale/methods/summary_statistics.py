"""Marginal effect of every variant on every phenotype, and its standard error.

The score of variant j and phenotype k is the adjusted X'Y of `primo_scale.methods.adjustment`. It
is divided by n times the public variance of the coded variant. The standard error counts the
sampling of the clipped, zero-filled phenotype and the noise of the release. On private statistics
all of these computations are post-processing: docs/maths/summary-statistics.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from primo_scale.methods.adjustment import adjust
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
    adjustment = adjust(statistics, inputs.scales, inputs.rescale, gram_factor=1.0)
    blocks = map(adjustment.block, range(statistics.layout.n_blocks))
    scores = np.concatenate([block.target for block in blocks])
    sampling = np.outer(variances, adjustment.residual_squares())
    errors = np.sqrt(sampling + (inputs.scales.phenotype_cross * inputs.rescale) ** 2)
    people = (inputs.n_samples * variances)[:, None]
    return MarginalEffects(scores / people, errors / people)
