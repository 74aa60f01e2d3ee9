"""Which rule of shrinkage a release uses: a public choice, from the design and the noise."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.design import Design
from primo_scale.methods.linear_model import NoiseScales
from primo_scale.methods.shrinkage import (
    Float64,
    KnownNoise,
    Ridge,
    Shrinkage,
    automatic_penalty,
)
from primo_scale.privacy.clip_response import ClipResponse
from primo_scale.privacy.mechanism import GramMechanism
from primo_scale.privacy.planning import PRIOR_HERITABILITY, variance_left


@dataclass(frozen=True)
class Estimate:
    """How weights are computed, for the release to state; public.

    Attributes
    ----------
    rule
        In words.
    parameters
        Numbers of the rule, in lattice units.
    floor
        What happens to eigenvalues that noise made small or negative.
    response
        What clipping did to the phenotypes, to be undone.
    """

    rule: str
    parameters: dict[str, float]
    floor: str
    response: ClipResponse


def noise_scales(mechanism: GramMechanism | None) -> NoiseScales:
    """Scales of the noise in the statistics that weights are computed from."""
    if mechanism is None:
        return NoiseScales(gram=0.0, cross=0.0, outcome_gram=0.0)
    return NoiseScales(mechanism.gram_sigma, mechanism.cross_sigma, mechanism.outcome_sigma)


def choose_shrinkage(
    design: Design, mechanism: GramMechanism | None, rescale: Float64, penalty: float | None
) -> tuple[Shrinkage, Estimate]:
    """Choose the rule of shrinkage, and say what clipping did.

    Parameters
    ----------
    design
        Public choices of the run.
    mechanism
        The noise, or None where there is none.
    rescale
        Factor on each phenotype for missing values, shape (l,), from noisy counts.
    penalty
        Ridge penalty of the command line, in units of the coding, or None for automatic.
    """
    variance = design.genotypes.variance
    response = design.clip_response(1 / rescale)
    if penalty is not None:
        lattice_penalty = penalty * design.genotypes.unit**2
        return Ridge(lattice_penalty), _ridge_estimate("ridge, as given", lattice_penalty, response)
    if mechanism is None:
        prior_penalty = automatic_penalty(variance, PRIOR_HERITABILITY)
        rule = f"ridge at the penalty of a heritability of {PRIOR_HERITABILITY}"
        return Ridge(prior_penalty), _ridge_estimate(rule, prior_penalty, response)
    unit = design.outcomes.unit
    effect_variance = PRIOR_HERITABILITY * unit**2 / variance
    left = variance_left(design.clip, design.layout.n_phenotypes) * unit**2
    shrinkage = KnownNoise(
        effect_variance=effect_variance * response.slope**2,
        residual_variance=left * rescale,
        cross_sigma=mechanism.cross_sigma * rescale,
        gram_sigma=mechanism.gram_sigma,
    )
    estimate = Estimate(
        rule=f"posterior mean for known noise and a heritability of {PRIOR_HERITABILITY}",
        parameters={"effect_variance": effect_variance, "residual_variance": left},
        floor="eigenvalues raised to 0.3 of the noise norm in X'X, and to it for the covariates",
        response=response,
    )
    return shrinkage, estimate


def _ridge_estimate(rule: str, penalty: float, response: ClipResponse) -> Estimate:
    floor = "eigenvalues raised to 0 in X'X, and to the noise norm for the covariates"
    return Estimate(rule, {"penalty": penalty}, floor, response)
