"""Weights from simulated statistics, by the product's solver or by ridge.

The solver is `primo_scale.methods.solve`, which reads lattice integers from a store; here they
are in memory. Haplotypes and phenotypes are centred, so that the adjustment for the constant does
not change them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.gaussian_noise import Float64
from experiments.haplotypes import Cohort
from experiments.product_methods import STEPS, NoisyStatistics, public_bounds
from primo_scale.methods.catalogue import METHODS, Estimator
from primo_scale.methods.effects import EffectPrior
from primo_scale.methods.linear_algebra import floored_at_zero, quotient
from primo_scale.methods.solve import Solution, SolveInputs, solve_statistics
from primo_scale.papers.estimators import ball_multiplier
from primo_scale.privacy.mechanism import Recipe, no_noise
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices

Int64 = npt.NDArray[np.int64]

_UNIT = STEPS**2  # lattice units of X'X and X'Y to one of floats
_PHENOTYPES_AT_A_TIME = 2_000


@dataclass(frozen=True, eq=False)
class _InMemory(BlockMatrices):
    """One block, and a constant of one lattice step."""

    dense_gram: Int64
    dense_cross: Int64
    outcomes: Int64

    @property
    def gram_copies(self) -> int:
        """One."""
        return 1

    def gram(self, block: int, copy: int = 0) -> Int64:
        """Return X'X, shape (d, d)."""
        return self.dense_gram

    def cross(self, block: int) -> Int64:
        """Return X'Z, shape (d, 1 + l)."""
        return self.dense_cross

    def outcome_gram(self) -> Int64:
        """Return Z'Z, shape (1 + l, 1 + l)."""
        return self.outcomes

    def smallest_eigenvalue(self) -> None:
        """Return None: the smallest eigenvalue of X'X is not measured."""


@dataclass(frozen=True, eq=False)
class NoisyOutcomes:
    """Y'Y of phenotypes in standard deviations, shape (l, l), and sigma of its noise in svec."""

    gram: Float64
    sigma: float


def solution_of(
    noisy: NoisyStatistics,
    cohort: Cohort,
    estimator: Estimator,
    *,
    method: str,
    outcomes: NoisyOutcomes | None = None,
) -> Solution:
    """Solve by a method of the catalogue with the product's solver, in its lattice units.

    Of `cohort` only n and, for a method that projects by them, the phenotypes are used; both are
    public. Estimators that fit variances need `outcomes`.
    """
    n_variants, n_phenotypes = noisy.cross.shape
    chosen = METHODS[method]
    # Without Y'Y there is only the first row, which is of the constant.
    if chosen.projects_phenotypes:
        Y = cohort.phenotypes / noisy.unit
        outcomes = NoisyOutcomes(Y.T @ Y, 0.0)
    n_rows = 1 if outcomes is None else 1 + n_phenotypes
    outcome_gram = np.zeros((n_rows, 1 + n_phenotypes), np.int64)
    outcome_gram[0, 0] = cohort.n
    if outcomes is not None:
        outcome_gram[1:, 1:] = _on_lattice(outcomes.gram)
    cross = np.hstack([np.zeros((n_variants, 1)), noisy.cross])
    statistics = _InMemory(
        path=Path(),
        kind="in memory",
        layout=BlockLayout((0, n_variants), 1, n_phenotypes),
        dense_gram=_on_lattice(noisy.gram),
        dense_cross=_on_lattice(cross),
        outcomes=outcome_gram,
    )
    inputs = _inputs(noisy, cohort, 0.0 if outcomes is None else outcomes.sigma)
    return solve_statistics(statistics, inputs, chosen, estimator)


def product_weights(
    noisy: NoisyStatistics,
    cohort: Cohort,
    estimator: Estimator,
    *,
    method: str = "reuse-cov-gauss",
    outcomes: NoisyOutcomes | None = None,
) -> Float64:
    """Return the product's weights for haplotypes and phenotypes as simulated, shape (d, l).

    Many phenotypes are solved in parts, where the weights of one do not depend on the others,
    because the solver holds a matrix of phenotypes by phenotypes.
    """
    n_phenotypes = noisy.cross.shape[1]
    together = METHODS[method].projects_phenotypes or estimator.fits_variances
    step = n_phenotypes if together else _PHENOTYPES_AT_A_TIME
    parts = [
        solution_of(
            _part(noisy, slice(start, start + step)),
            cohort,
            estimator,
            method=method,
            outcomes=outcomes,
        )
        for start in range(0, n_phenotypes, step)
    ]
    weights = np.hstack([part.genotypes for part in parts])
    return np.asarray(weights * (noisy.unit / noisy.attenuation))


def _part(noisy: NoisyStatistics, phenotypes: slice) -> NoisyStatistics:
    prior = EffectPrior(
        noisy.prior.effect_variance[phenotypes], noisy.prior.residual_variance[phenotypes]
    )
    return replace(noisy, cross=noisy.cross[:, phenotypes], prior=prior)


def ridge_weights(noisy: NoisyStatistics, penalty: float) -> Float64:
    """Return the weights of ridge in the units of `noisy`, shape (d, l)."""
    values, vectors = np.linalg.eigh(noisy.gram)
    values = floored_at_zero(values)
    factors = quotient(np.ones_like(values), values + penalty)[:, None]
    weights = vectors @ (factors * (vectors.T @ noisy.cross))
    return np.asarray(weights * (noisy.unit / noisy.attenuation))


def projected_weights(noisy: NoisyStatistics, n_people: int) -> Float64:
    """Return the weights of reuse-cov-proj-x, whose radius is ``sqrt(n) By``, shape (d, l)."""
    values, vectors = np.linalg.eigh(noisy.gram)
    squares = ((vectors.T @ noisy.cross) ** 2).sum(axis=1)
    multiplier = ball_multiplier(values, squares, n_people * noisy.bounds.phenotype**2)
    return ridge_weights(noisy, multiplier)


def _on_lattice(values: Float64) -> Int64:
    return np.asarray(np.rint(_UNIT * values), np.int64)


def _inputs(noisy: NoisyStatistics, cohort: Cohort, outcome_sigma: float) -> SolveInputs:
    return SolveInputs(
        bounds=public_bounds(cohort, noisy.bounds),
        scales=replace(
            no_noise(1),
            gram=(noisy.gram_sigma * _UNIT,),
            phenotype_cross=noisy.cross_sigma * _UNIT,
            phenotype_gram=outcome_sigma * _UNIT,
        ),
        recipe=Recipe(),
        delta=1.0,  # of no method here
        unit=STEPS,
        rescale=np.ones(noisy.cross.shape[1]),
        prior=EffectPrior(noisy.prior.effect_variance, noisy.prior.residual_variance * STEPS**2),
        n_samples=cohort.n,
        penalty=0.0,  # of ridge, which is not used here
    )
