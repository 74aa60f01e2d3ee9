"""The rules of shrinkage by name: what ``--shrinkage`` offers, and what methods prescribe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from primo_scale.methods import ssp
from primo_scale.methods.shrinkage import (
    FLOOR_SHARE,
    Float64,
    JamesStein,
    KnownNoise,
    Ridge,
    Shrinkage,
    noise_norm,
)
from primo_scale.methods.spectrum import Spectrum
from primo_scale.methods.sure import sure_penalty


class Estimator(StrEnum):
    """How weights come from eigenvalues and targets."""

    KNOWN_NOISE = "known-noise"
    NOISE_NORM = "ridge-at-noise-norm"
    SURE = "sure"
    JAMES_STEIN = "james-stein"
    RIDGE = "ridge"
    PROJECTION = "projection"
    UNIT_RIDGE = "unit-ridge"
    EIGENVALUE_RIDGE = "ridge-beyond-smallest-eigenvalue"

    @property
    def needs_every_spectrum(self) -> bool:
        """Whether the penalty depends on the decompositions of all blocks, which are kept."""
        return self is Estimator.PROJECTION


SHRINKAGES = (
    Estimator.KNOWN_NOISE,
    Estimator.NOISE_NORM,
    Estimator.SURE,
    Estimator.JAMES_STEIN,
)
"""What ``--shrinkage`` offers; the others are given by ``--ridge`` or belong to a method."""

_RULES = {
    Estimator.KNOWN_NOISE: "posterior mean for known noise and the prior's effects",
    Estimator.NOISE_NORM: "ridge at the norm of the noise in X'X or the prior's penalty, "
    "whichever is larger",
    Estimator.SURE: "ridge of least risk by Stein's unbiased estimate in each block, at least at "
    "the norm of the noise in X'X and the prior's penalty",
    Estimator.JAMES_STEIN: "James-Stein factors across phenotypes for each eigen-direction, on "
    "ridge at the prior's penalty",
    Estimator.RIDGE: "ridge",
    Estimator.PROJECTION: "ridge at the multiplier of the projection, at least at the norm of the "
    "noise in X'X",
    Estimator.UNIT_RIDGE: "ridge at one squared unit of the genotype coding",
    Estimator.EIGENVALUE_RIDGE: "ridge at what noise may take from the smallest eigenvalue of X'X "
    "and one squared unit of the genotype coding",
}
_FLOOR = "eigenvalues below 0 counted as 0 in X'X, and raised to the noise norm for the covariates"
_FLOORS = {
    Estimator.KNOWN_NOISE: f"eigenvalues raised to {FLOOR_SHARE} of the noise norm in X'X, and to "
    "it for the covariates",
    Estimator.JAMES_STEIN: "eigenvalues raised to the noise norm in X'X and for the covariates",
}


@dataclass(frozen=True)
class EffectPrior:
    """What is assumed of effects, from public numbers.

    Attributes
    ----------
    effect_variance
        Variance of a lattice variant's effect on each lattice phenotype, as clipping attenuates
        it, shape (l,).
    residual_variance
        Variance of a person's value of each, shape (l,).
    """

    effect_variance: Float64
    residual_variance: Float64

    @property
    def penalty(self) -> float:
        """The ridge penalty under which ridge is the posterior mean for an average phenotype."""
        return float(self.residual_variance.mean() / self.effect_variance.mean())


@dataclass(frozen=True)
class EstimatorInputs:
    """What the rules are made of besides the spectrum of a block.

    Attributes
    ----------
    prior
        Of effects.
    penalty
        Of `Estimator.RIDGE` and `Estimator.PROJECTION`, in squared lattice units.
    unit
        Lattice steps to one unit of the genotype coding.
    smallest_eigenvalue
        Lower bound on that of X'X.
    """

    prior: EffectPrior
    penalty: float
    unit: int
    smallest_eigenvalue: float


def rule_for(estimator: Estimator, spectrum: Spectrum, inputs: EstimatorInputs) -> Shrinkage:
    """Choose the rule of one block.

    Ridges of a penalty that the data may choose stay at least at the norm of the noise in X'X and
    at the prior's penalty: neither that noise nor the sampling noise of a finite cohort shows in
    the estimates of risk that they go by. The projection's penalty is 0 while the noisy X'Y lies
    in the set, but the noisy X'X it is solved with is not the true one: measured at n = 5,008,
    d = 25, epsilon 5, whole rows private, R^2 was 0.16 without and 0.24 with the norm of the noise
    as a floor for 101 phenotypes, and -0.59 against 0.06 for 1,001. With public genotypes there is
    no such noise and no such floor.

    James-Stein factors remove the noise in X'Y, so that all they need against the noise in X'X is
    a floor under its eigenvalues; a ridge there shrinks every direction once more, and loses up to
    .035 of R^2 beside it (docs/decisions/shrinkage.md).
    """
    norm = noise_norm(spectrum.gram_sigma, len(spectrum.values))
    least = max(norm, inputs.prior.penalty)
    match estimator:
        case Estimator.KNOWN_NOISE:
            columns = spectrum.phenotypes
            return KnownNoise(
                effect_variance=inputs.prior.effect_variance[columns],
                residual_variance=inputs.prior.residual_variance[columns],
                cross_sigma=spectrum.target_sigma,
                gram_sigma=spectrum.gram_sigma,
            )
        case Estimator.NOISE_NORM:
            return Ridge(least)
        case Estimator.SURE:
            sigma = spectrum.target_sigma
            return Ridge(sure_penalty(spectrum.values, spectrum.target, sigma, least=least))
        case Estimator.JAMES_STEIN:
            return JamesStein(inputs.prior.penalty, spectrum.target_sigma, norm)
        case Estimator.RIDGE:
            return Ridge(inputs.penalty)
        case Estimator.PROJECTION:
            return Ridge(max(inputs.penalty, norm))
        case Estimator.UNIT_RIDGE:
            return ssp.unit_ridge(inputs.unit)
        case Estimator.EIGENVALUE_RIDGE:
            return ssp.adaptive_ridge(norm, smallest=inputs.smallest_eigenvalue, unit=inputs.unit)


def in_words(estimator: Estimator) -> str:
    """The rule."""
    return _RULES[estimator]


def floor_in_words(estimator: Estimator) -> str:
    """What becomes of small and negative eigenvalues."""
    return _FLOORS.get(estimator, _FLOOR)


def prior_numbers(estimator: Estimator, prior: EffectPrior) -> dict[str, float]:
    """Numbers of the prior that the rule uses, means over phenotypes."""
    if estimator is Estimator.KNOWN_NOISE:
        return {
            "effect_variance": float(prior.effect_variance.mean()),
            "residual_variance": float(prior.residual_variance.mean()),
        }
    return {"prior_penalty": prior.penalty} if estimator in SHRINKAGES else {}
