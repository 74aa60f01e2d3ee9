"""Shrinkage rules by name: the choices of ``--shrinkage``, and the rules that methods prescribe."""

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
    """Rules that compute weights from eigenvalues and targets."""

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
        """Whether the penalty depends on all blocks, whose decompositions then stay in memory."""
        return self is Estimator.PROJECTION


SHRINKAGES = (
    Estimator.KNOWN_NOISE,
    Estimator.NOISE_NORM,
    Estimator.SURE,
    Estimator.JAMES_STEIN,
)
"""Choices of ``--shrinkage``. The other estimators are set by ``--ridge`` or by a method."""

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
    """Prior of the effects, from public numbers.

    Attributes
    ----------
    effect_variance : ndarray of float64, shape (l,)
        Variance of a variant's effect on each phenotype, attenuated by clipping, in lattice units.
    residual_variance : ndarray of float64, shape (l,)
        Variance of each phenotype across people, in squared lattice units.
    """

    effect_variance: Float64
    residual_variance: Float64

    @property
    def penalty(self) -> float:
        """Penalty for which ridge is the posterior mean of an average phenotype."""
        return float(self.residual_variance.mean() / self.effect_variance.mean())


@dataclass(frozen=True)
class EstimatorInputs:
    """Parameters of the rules besides the spectrum of a block.

    Attributes
    ----------
    prior : EffectPrior
        Prior of the effects.
    penalty : float
        Penalty of `Estimator.RIDGE` and `Estimator.PROJECTION`, in squared lattice units.
    unit : int
        Number of lattice steps per unit of the genotype coding.
    smallest_eigenvalue : float
        Lower bound on the smallest eigenvalue of X'X.
    """

    prior: EffectPrior
    penalty: float
    unit: int
    smallest_eigenvalue: float


def rule_for(estimator: Estimator, spectrum: Spectrum, inputs: EstimatorInputs) -> Shrinkage:
    """Return the rule of one block.

    A penalty chosen from the data is at least the norm of the noise in X'X and at least the
    prior's penalty, because the risk estimate that selects it contains neither that noise nor the
    sampling noise of a finite cohort. The projection's penalty is 0 if the noisy X'Y lies in the
    set, but X'X is noisy too. Measured at n = 5,008, d = 25, epsilon 5, with whole rows private:
    without and with the noise norm as the floor, R^2 was 0.16 and 0.24 for 101 phenotypes, and
    -0.59 and 0.06 for 1,001. With public genotypes X'X has no noise, and the floor is 0.

    James-Stein factors remove the noise in X'Y. Against the noise in X'X they need only a floor
    under its eigenvalues: a ridge at the noise norm shrinks every direction again and loses up to
    .035 of R^2 (docs/decisions/shrinkage.md).
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
    """Return the description of the rule."""
    return _RULES[estimator]


def floor_in_words(estimator: Estimator) -> str:
    """Return the description of the treatment of small and negative eigenvalues."""
    return _FLOORS.get(estimator, _FLOOR)


def prior_numbers(estimator: Estimator, prior: EffectPrior) -> dict[str, float]:
    """Return the parameters of the prior that the rule uses, averaged over phenotypes, by name."""
    if estimator is Estimator.KNOWN_NOISE:
        return {
            "effect_variance": float(prior.effect_variance.mean()),
            "residual_variance": float(prior.residual_variance.mean()),
        }
    return {"prior_penalty": prior.penalty} if estimator in SHRINKAGES else {}
