"""Ridge regression on noisy statistics, with the penalties of the thesis and of ``--ridge``.

For one LD block with ``S = V diag(lambda) V'`` and G, both adjusted for the fixed columns C
(`primo_scale.methods.adjustment`), one decomposition serves all phenotypes::

    W = V diag(1 / (lambda + r)) V'G,    B = (C'C)^-1 (C'Y - sum over blocks of C'X W)

Eigenvalues that noise makes negative count as zero. SSP, AdaSSP and constSSPfull have the formulas
of the thesis on differentially private ridge regression. The noise and the constants are those of
this project: the noise is calibrated jointly, the bound on its norm is that of the svec layout, and
1 means one squared unit of the genotype coding. On private statistics all of this is
post-processing: docs/maths/estimation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from primo_scale.methods.adjustment import Adjustment
from primo_scale.methods.catalogue import Estimator
from primo_scale.methods.linear_algebra import (
    Float64,
    floored_at_zero,
    map_blocks,
    noise_norm,
    quotient,
)
from primo_scale.methods.solve import LatticeWeights, Solution, SolveInputs


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Decomposition ``S = V diag(lambda) V'`` and target ``H = V'G`` of one LD block."""

    fixed_cross: Float64  # denoised X_b'C, shape (d_b, f)
    # Eigenvalues in ascending order; negative and negligible ones are 0, shape (d_b,).
    values: Float64
    vectors: Float64  # V, shape (d_b, d_b)
    target: Float64  # H, shape (d_b, l)
    noise_norm: float  # bound on the norm of the noise in S


def spectrum_of(adjustment: Adjustment, block: int) -> Spectrum:
    """Decompose one block."""
    adjusted = adjustment.block(block)
    gram, rounding = adjustment.gram(adjusted, block)
    norm = noise_norm(adjustment.gram_sigma(block), len(gram))
    values, vectors = np.linalg.eigh(gram)
    target = vectors.T @ adjusted.target
    return Spectrum(adjusted.fixed_cross, floored_at_zero(values, rounding), vectors, target, norm)


def ridge(adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator) -> Solution:
    """Solve with the given penalty; without one, directions that X does not span get weight 0."""
    return solve_ridge(adjustment, lambda norm: inputs.penalty)


def unit_ridge(adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator) -> Solution:
    """Solve by SSP: ridge 1, which is ``unit^2`` on a lattice of `unit` steps."""
    return solve_ridge(adjustment, lambda norm: float(inputs.unit**2))


def eigenvalue_ridge(adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator) -> Solution:
    """Solve by AdaSSP, or by constSSPfull, which measures no smallest eigenvalue.

    It is ridge ``max(0, noise norm - smallest) + 1``. The bound on the smallest eigenvalue is that
    of X'X before the adjustment for covariates, which can only lower the eigenvalue.
    """
    measured, sigma = adjustment.statistics.smallest_eigenvalue(), inputs.scales.smallest_eigenvalue
    smallest = eigenvalue_bound(measured, sigma, inputs.delta)
    parameters = {"smallest_eigenvalue_bound": smallest}
    return solve_ridge(
        adjustment, lambda norm: max(0.0, norm - smallest) + inputs.unit**2, parameters
    )


def eigenvalue_bound(noisy_smallest: float | None, sigma: float, delta: float) -> float:
    """Return a lower bound on the smallest eigenvalue of X'X from its noisy value.

    The bound is ``max(noisy - sigma sqrt(2 log(2/delta)), 0)``, or 0 if the eigenvalue was not
    measured. It fails with probability below delta/2.
    """
    if noisy_smallest is None:
        return 0.0
    return max(noisy_smallest - sigma * math.sqrt(2 * math.log(2 / delta)), 0.0)


def solve_ridge(
    adjustment: Adjustment,
    penalty_for: Callable[[float], float],
    parameters: dict[str, float] | None = None,
    spectra: Callable[[int], Spectrum] | None = None,
) -> Solution:
    """Return ridge weights, whose penalty in each block follows from the norm of its noise.

    `spectra` returns the decomposition of a block, if those are in memory already.
    """
    layout = adjustment.statistics.layout
    genotypes = np.empty((layout.n_variants, layout.n_phenotypes))

    def solve_block(block: int) -> tuple[Float64, float]:
        """Set the weights of a block; return what they explain of C'Y, and the penalty."""
        spectrum = spectrum_of(adjustment, block) if spectra is None else spectra(block)
        penalty = penalty_for(spectrum.noise_norm)
        factors = quotient(np.ones(len(spectrum.values)), spectrum.values + penalty)
        weights = spectrum.vectors @ (factors[:, None] * spectrum.target)
        genotypes[layout.variants(block)] = weights
        return spectrum.fixed_cross.T @ weights, penalty

    solved = map_blocks(solve_block, layout.sizes)
    residual = adjustment.fixed_phenotypes - sum(explained for explained, _ in solved)
    weights = LatticeWeights(genotypes, adjustment.fixed_inverse @ residual)
    return Solution(weights, parameters or {}, tuple(penalty for _, penalty in solved))
