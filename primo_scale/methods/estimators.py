"""Table of estimators: the choices of ``--shrinkage``, and the estimators that methods prescribe.

The command line reads this table, so the module imports neither numpy nor the rules.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primo_scale.methods.shrinkage import Float64, Shrinkage
    from primo_scale.methods.spectrum import Spectrum

_FLOOR = "eigenvalues below 0 counted as 0 in X'X, and raised to the noise norm for the covariates"
_BLENDED = "eigenvalues raised to 0.3 of the noise norm in X'X, and to it for the covariates"
MOST_SAMPLED_EFFECTS = 20_000_000
"""Largest number of variants times phenotypes for which effects are sampled: some ten minutes."""


@dataclass(frozen=True)
class EffectPrior:
    """Variances of effects and phenotypes, public or estimated from noisy statistics."""

    # Variance of a variant's effect on each phenotype, attenuated by clipping, in lattice units,
    # shape (l,).
    effect_variance: Float64
    # Variance of each phenotype across people, in squared lattice units, shape (l,).
    residual_variance: Float64
    n_limited: int = 0  # number of phenotypes whose estimated effect variance was too large

    @property
    def penalty(self) -> float:
        """Penalty for which ridge is the posterior mean of an average phenotype."""
        return float(self.residual_variance.mean() / self.effect_variance.mean())


@dataclass(frozen=True)
class EstimatorInputs:
    """Parameters of the estimators besides the spectrum of a block."""

    prior: EffectPrior
    penalty: float  # penalty of ``ridge`` and ``projection``, in squared lattice units
    unit: int  # lattice steps per unit of the genotype coding
    smallest_eigenvalue: float  # lower bound on the smallest eigenvalue of X'X
    n_factors: float = 0.0  # effective number of genetic factors; 0 without factors
    n_sampled: int = 0  # number of phenotypes or factors with point-normal effects


def _prior_penalty(inputs: EstimatorInputs) -> dict[str, float]:
    return {"prior_penalty": inputs.prior.penalty}


def _prior_variances(inputs: EstimatorInputs) -> dict[str, float]:
    """Return the variances that were used, averaged over phenotypes."""
    return {
        "effect_variance": float(inputs.prior.effect_variance.mean()),
        "residual_variance": float(inputs.prior.residual_variance.mean()),
    }


def _fitted_effects(inputs: EstimatorInputs) -> dict[str, float]:
    found = {"genetic_factors": inputs.n_factors, "point_normal_columns": float(inputs.n_sampled)}
    return _prior_variances(inputs) | found


@dataclass(frozen=True)
class Estimator:
    """Estimator of the weights from eigenvalues and targets."""

    name: str  # in ``--shrinkage`` and release.json
    # ``module:function`` that takes a `Spectrum` and `EstimatorInputs` and returns the `Shrinkage`
    # of one block; None for an estimator that fits the effects.
    rule: str | None
    description: str  # of the rule
    # Function that returns the parameters that a release states, by name. The verifier expects
    # these names (`primo_scale.verify.methods`).
    numbers: Callable[[EstimatorInputs], dict[str, float]] = lambda inputs: {}
    floor: str = _FLOOR  # description of the treatment of small and negative eigenvalues
    is_choice: bool = False  # of ``--shrinkage``; others are set by ``--ridge`` or by a method
    is_deprecated: bool = False  # a later version removes it; known-noise is at least as accurate
    fits_variances: bool = False  # whether it estimates the variances of the effects of variants
    samples_effects: bool = False  # whether it also samples point-normal effects
    # Whether the penalty is the multiplier of the projection, which depends on all blocks. Their
    # decompositions then stay in memory.
    needs_every_spectrum: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def fits_effects(self) -> bool:
        """Whether it estimates the variances and factors of the effects of LD components."""
        return self.rule is None

    def samples_effects_of(self, n_variants: int, n_phenotypes: int) -> bool:
        """Return whether point-normal effects are sampled of so many variants and phenotypes."""
        return self.samples_effects and n_variants * n_phenotypes <= MOST_SAMPLED_EFFECTS

    def load_rule(self) -> Callable[[Spectrum, EstimatorInputs], Shrinkage]:
        """Import the function that returns the rule of one block."""
        if self.rule is None:
            raise ValueError(f"{self.name} has no rule for the spectrum of a block")
        rule: Callable[[Spectrum, EstimatorInputs], Shrinkage] = pkgutil.resolve_name(self.rule)
        return rule


_TABLE = (
    Estimator(
        "known-noise",
        "primo_scale.methods.rules:known_noise",
        "posterior mean for known noise and the prior's effects",
        _prior_variances,
        floor=_BLENDED,
        is_choice=True,
    ),
    Estimator(
        "effect-variances",
        "primo_scale.methods.rules:known_noise",
        "posterior mean for known noise, with the effect variance of each phenotype estimated from "
        "the noisy statistics",
        _prior_variances,
        floor=_BLENDED,
        is_choice=True,
        fits_variances=True,
    ),
    Estimator(
        "genetic-factors",
        None,
        "posterior mean for known noise, with effect variances and genetic factors estimated from "
        "the noisy statistics",
        _fitted_effects,
        floor=_BLENDED,
        is_choice=True,
    ),
    Estimator(
        "point-normal",
        None,
        "as genetic-factors, and with many effects of zero where the noisy statistics show them",
        _fitted_effects,
        floor=_BLENDED,
        is_choice=True,
        samples_effects=True,
    ),
    Estimator(
        "ridge-at-noise-norm",
        "primo_scale.methods.rules:ridge_at_noise_norm",
        "ridge at the norm of the noise in X'X or the prior's penalty, whichever is larger",
        _prior_penalty,
        is_choice=True,
        is_deprecated=True,
    ),
    Estimator(
        "sure",
        "primo_scale.methods.rules:sure",
        "ridge of least risk by Stein's unbiased estimate in each block, at least at the norm of "
        "the noise in X'X and the prior's penalty",
        _prior_penalty,
        is_choice=True,
        is_deprecated=True,
    ),
    Estimator(
        "james-stein",
        "primo_scale.methods.rules:james_stein",
        "James-Stein factors across phenotypes for each eigen-direction, on ridge at the prior's "
        "penalty",
        _prior_penalty,
        floor="eigenvalues raised to the noise norm in X'X and for the covariates",
        is_choice=True,
        is_deprecated=True,
    ),
    Estimator("ridge", "primo_scale.methods.rules:ridge", "ridge"),
    Estimator(
        "projection",
        "primo_scale.methods.rules:projection",
        "ridge at the multiplier of the projection, at least at the norm of the noise in X'X",
        needs_every_spectrum=True,
    ),
    Estimator(
        "unit-ridge",
        "primo_scale.methods.rules:unit_ridge",
        "ridge at one squared unit of the genotype coding",
    ),
    Estimator(
        "ridge-beyond-smallest-eigenvalue",
        "primo_scale.methods.rules:eigenvalue_ridge",
        "ridge at what noise may take from the smallest eigenvalue of X'X and one squared unit of "
        "the genotype coding",
        lambda inputs: {"smallest_eigenvalue_bound": inputs.smallest_eigenvalue},
    ),
)

ESTIMATORS = {estimator.name: estimator for estimator in _TABLE}
"""Estimators by name."""

SHRINKAGES = tuple(estimator.name for estimator in _TABLE if estimator.is_choice)
"""Choices of ``--shrinkage``."""
