"""Statement of the accuracy in the people held out, from noisy sums."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.privacy.held_out_accuracy import accuracy_of
from primo_scale.privacy.held_out_sums import CONSTANT, UNIT, NoisyHoldOut, residual_bounds
from primo_scale.privacy.mechanism import HoldOut
from primo_scale.publication.statement import HeldOut, HeldOutPhenotype
from primo_scale.publication.weights import ScoringWeights


def state_hold_out(
    noisy: NoisyHoldOut, noise: HoldOut, coding: OutcomeCoding, calibrate: bool
) -> HeldOut:
    """Return the statement of the noisy sums over the people held out, and of the accuracy."""
    public = {"people": noise.people, "unit": UNIT, "constant": CONSTANT}
    sigma = noise.scale_sigma, noise.gram_sigma
    bounds = residual_bounds(coding.phenotypes).tolist()
    phenotypes = []
    measured = zip(coding.phenotypes, bounds, noisy.counts, noisy.sums, strict=True)
    for phenotype, residual_bound, counts, sums in measured:
        statistics = {"residual_bound": residual_bound, "counts": counts, "sums": sums}
        centre, bound, accuracy = accuracy_of(asdict(phenotype), statistics, public, sigma)
        slope, lower = accuracy.slope, accuracy.slope_lower
        is_calibrated = calibrate and lower is not None and lower > 0
        phenotypes.append(
            HeldOutPhenotype(
                phenotype.name,
                **statistics,
                score_centre=centre,
                score_bound=bound,
                **asdict(accuracy),
                calibration=slope if is_calibrated and slope is not None else 1.0,
            )
        )
    return HeldOut(**public, phenotypes=tuple(phenotypes))


def calibrated(weights: ScoringWeights, hold_out: HeldOut, coding: OutcomeCoding) -> ScoringWeights:
    """Return the weights of the variants multiplied by the stated factors.

    The intercept changes so that a person at the covariates' centres whose prediction was the
    phenotype's mean keeps it (docs/maths/hold-out.md, "Calibration").
    """
    factor = np.array([phenotype.calibration for phenotype in hold_out.phenotypes])
    centre = np.array([c.centre for c in coding.covariates], dtype=np.float64)
    mean = np.array([p.mean for p in coding.phenotypes])
    at_centre = mean - centre @ weights.covariate_weights
    return replace(
        weights,
        per_allele=weights.per_allele * factor,
        intercept=factor * weights.intercept + (1 - factor) * at_centre,
    )
