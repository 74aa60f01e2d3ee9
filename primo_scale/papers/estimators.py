"""Estimators of the papers: ridge regression of the thesis, and PRIMO's projections.

For one LD block with ``S = V diag(lambda) V'`` and G, both adjusted for the fixed columns C
(`primo_scale.methods.linear_algebra`), one decomposition serves all phenotypes::

    W = V diag(1 / (lambda + r)) V'G,    B = (C'C)^-1 (C'Y - sum over blocks of C'X W)

Eigenvalues that noise makes negative count as zero. SSP, AdaSSP and constSSPfull have the formulas
of the thesis on differentially private ridge regression. The noise and the constants are those of
this project: the noise is calibrated jointly, the bound on its norm is that of the svec layout, and
1 means one squared unit of the genotype coding. On private statistics all of this is
post-processing: docs/maths/weights.md.

PRIMO projects X'Y onto what bounded rows can produce, or solves with an X'X per phenotype. Given X,
the true X'Y lies in ``K = {X'Z : ||Z||_F <= R}`` with ``R^2 >= ||Y||_F^2``. The nearest point of K
to the noisy G is, with ``X'X = V diag(lambda) V'`` and ``H = V'G``, ::

    P = V diag(lambda_j / (lambda_j + nu)) H
    phi(nu) = sum_j lambda_j ||H_j||^2 / (lambda_j + nu)^2 = ||Z||_F^2
    nu = 0 if phi(0) <= R^2, else the root of phi(nu) = R^2

K is a ball, not a sphere: the projection leaves a G inside K unchanged. Because ``(X'X)^-1 P`` is
``V diag(1/(lambda_j + nu)) H``, solving after the projection is ridge with penalty nu.
If Y is given instead of X, the same holds with ``T = Y'Y`` for X'X and G' for G: the projection
multiplies G from the right by ``T (T + nu I)^-1``. Source: PRIMO, GaussProj and Naive, with the
corrections of docs/maths/papers.md; docs/maths/weights.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from primo_scale.methods import effects, linear_algebra
from primo_scale.methods.catalogue import Estimator, load
from primo_scale.methods.linear_algebra import Adjustment, Float64, map_blocks
from primo_scale.methods.solve import Solution, SolveInputs, adjusted
from primo_scale.storage.block_matrices import BlockMatrices, Int64

Spectrum = tuple[Float64, Float64, Float64, Float64]
"""Eigenvalues lambda in ascending order, of which negative and negligible ones are 0, shape (d_b,),
V, shape (d_b, d_b), the target H, shape (d_b, l), and X_b'C, shape (d_b, f), of one LD block."""


def spectrum_of(adjustment: Adjustment, block: int) -> Spectrum:
    """Decompose one block: ``S = V diag(lambda) V'``, and ``H = V'G``."""
    fixed_cross, target, _ = adjustment.block(block)
    gram, rounding = adjustment.gram(fixed_cross, block)
    values, vectors = np.linalg.eigh(gram)
    return (
        linear_algebra.floored_at_zero(values, rounding),
        vectors,
        vectors.T @ target,
        fixed_cross,
    )


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

    def penalty_for(norm: float) -> float:
        return max(0.0, norm - smallest) + inputs.unit**2

    return solve_ridge(adjustment, penalty_for, {"smallest_eigenvalue_bound": smallest})


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
    spectra: Sequence[Spectrum] | None = None,
) -> Solution:
    """Return ridge weights, whose penalty in each block follows from the norm of its noise.

    `spectra` are the decompositions of all blocks, if they are in memory already.
    """
    layout = adjustment.statistics.layout
    genotypes = np.empty((layout.n_variants, layout.n_phenotypes))

    def solve_block(block: int) -> tuple[Float64, float]:
        """Set the weights of a block; return what they explain of C'Y, and the penalty."""
        spectrum = spectrum_of(adjustment, block) if spectra is None else spectra[block]
        values, vectors, target, fixed_cross = spectrum
        penalty = penalty_for(linear_algebra.noise_norm(adjustment.gram_sigma(block), len(values)))
        factors = linear_algebra.quotient(np.ones(len(values)), values + penalty)
        weights = vectors @ (factors[:, None] * target)
        genotypes[layout.variants(block)] = weights
        return fixed_cross.T @ weights, penalty

    explained, penalties = zip(*map_blocks(solve_block, layout.sizes), strict=True)
    fixed = adjustment.fixed_inverse @ (adjustment.fixed_phenotypes - sum(explained))
    return Solution(genotypes, fixed, parameters or {}, penalties)


# Number of standard deviations added to a radius from a noisy sum of squares. The true value lies
# outside the widened radius with probability below 1 in 700.
_RADIUS_SIGMAS = 3


def project_genotypes(
    adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator
) -> Solution:
    """Solve after the projection by X'X: ridge at its multiplier, at least at the noise norm.

    The multiplier is 0 if the noisy X'Y lies in the set, but X'X is noisy too. It depends on all
    blocks, whose decompositions stay in memory. Columns are used without the correction for missing
    values, because the bound applies to them.
    """
    layout, rescale = adjustment.statistics.layout, adjustment.rescale
    every = map_blocks(lambda block: spectrum_of(adjustment, block), layout.sizes)
    radius = squared_radius(
        float(inputs.bounds.n_samples * inputs.bounds.phenotype_norm),
        float(adjustment.statistics.outcome_gram().diagonal()[layout.n_fixed :].sum()),
        adjustment.scales.phenotype_gram * math.sqrt(layout.n_phenotypes),
    )
    values = np.concatenate([values for values, *_ in every])
    squares = np.concatenate([target**2 @ rescale**-2.0 for _, _, target, _ in every])
    multiplier = ball_multiplier(values, squares, radius)
    parameters = _parameters(multiplier, radius)
    return solve_ridge(adjustment, lambda norm: max(multiplier, norm), parameters, every)


def project_phenotypes(
    adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator
) -> Solution:
    """Solve with the estimator after X'Y is projected across phenotypes, by Y'Y.

    The bound on the genotypes also holds for the adjusted genotypes Z of the true ``Z'Y``, because
    adjustment never increases a norm.
    """
    statistics, rescale = adjustment.statistics, adjustment.rescale
    layout, blocks = statistics.layout, range(statistics.layout.n_blocks)
    sigmas = np.array(adjustment.scales.gram) * np.sqrt(layout.sizes)
    radius = squared_radius(
        float(inputs.bounds.n_samples * inputs.bounds.row_norm),
        sum(float(statistics.gram(block).trace()) for block in blocks),
        float(np.linalg.norm(sigmas)),
    )
    phenotypes = slice(layout.n_fixed, None)
    matrix, multiplier = phenotype_projection(
        statistics.outcome_gram()[phenotypes, phenotypes].astype(np.float64),
        (adjustment.block(block)[1] / rescale for block in blocks),
        radius,
    )
    across = matrix * rescale / rescale[:, None]
    projected = replace(adjustment, across=across)
    solution: Solution = load(estimator.solver)(projected, inputs, estimator)
    return replace(solution, parameters=solution.parameters | _parameters(multiplier, radius))


def solve_separately(adjustment: Adjustment, inputs: SolveInputs, estimator: Estimator) -> Solution:
    """Solve every phenotype with its own copy of X'X."""
    statistics, solver = adjustment.statistics, load(estimator.solver)
    found: list[Solution] = []
    layout = replace(statistics.layout, n_phenotypes=1)
    for phenotype in range(statistics.layout.n_phenotypes):
        one, prior = slice(phenotype, phenotype + 1), inputs.prior
        alone = OnePhenotype(statistics.path, statistics.kind, layout, statistics, phenotype)
        own = replace(
            inputs,
            rescale=inputs.rescale[one],
            prior=effects.EffectPrior(prior.effect_variance[one], prior.residual_variance[one]),
        )
        found.append(solver(adjusted(alone, own), own, estimator))
    return Solution(
        genotypes=np.hstack([each.genotypes for each in found]),
        fixed=np.hstack([each.fixed for each in found]),
        parameters={
            name: float(np.mean([each.parameters[name] for each in found]))
            for name in found[0].parameters
        },
        penalties=tuple(np.array([each.penalties for each in found]).T.ravel().tolist()),
        n_limited=sum(each.n_limited for each in found),
    )


@dataclass(frozen=True)
class OnePhenotype(BlockMatrices):
    """Statistics of the phenotype of a number, with its copy of X'X."""

    every: BlockMatrices
    number: int

    def gram(self, block: int, copy: int = 0) -> Int64:
        """Return X_b'X_b, shape (d_b, d_b)."""
        return self.every.gram(block, self.number)

    def cross(self, block: int) -> Int64:
        """Return X_b'(C, y), shape (d_b, f + 1)."""
        return self.every.cross(block)[:, self._columns]

    def outcome_gram(self) -> Int64:
        """Return (C, y)'(C, y)."""
        return self.every.outcome_gram()[np.ix_(self._columns, self._columns)]

    def smallest_eigenvalue(self) -> int | None:
        """Return None: no method of separate X'X measures it."""
        return None

    @property
    def _columns(self) -> list[int]:
        n_fixed = self.layout.n_fixed
        return [*range(n_fixed), n_fixed + self.number]


def ball_multiplier(eigenvalues: Float64, squares: Float64, squared_radius: float) -> float:
    """Return the multiplier nu of the projection onto K, the root of the secular equation.

    It is 0 if G lies inside the ball and inf if the projection of G is 0. The nonnegative
    eigenvalues lambda_j are those of all blocks, shape (d,); zeros are ignored. `squares` are the
    squared norms ``||H_j||^2``, shape (d,).

    phi is convex and decreasing, and ``phi^(-1/2)`` is nearly linear in nu, so that Brent's method
    converges quickly on it. Brent's method cannot leave its bracket, whereas Newton's can.
    """
    spanned = (eigenvalues > 0) & (squares > 0)
    if not spanned.any():
        return 0.0
    # Scaling by the largest eigenvalue prevents overflow and underflow.
    scale = float(eigenvalues.max())
    values = eigenvalues[spanned] / scale
    weights = squares[spanned] / scale
    if squared_radius <= 0:
        return math.inf
    if _norm_of_fit(values, weights, 0.0) <= squared_radius:
        return 0.0
    radius = math.sqrt(squared_radius)

    def excess(nu: float) -> float:
        return 1 / math.sqrt(_norm_of_fit(values, weights, nu)) - 1 / radius

    # phi(nu) < sum lambda ||H||^2 / nu^2, so phi(highest) < R^2; 1.001 allows for rounding.
    highest = 1.001 * math.sqrt(float(values @ weights)) / radius
    root = scipy.optimize.brentq(
        excess, 0.0, highest, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500
    )
    return float(root) * scale


def phenotype_projection(
    phenotype_gram: Float64, targets: Iterable[Float64], squared_radius: float
) -> tuple[Float64, float]:
    """Return ``T (T + nu I)^-1``, shape (l, l), and nu, for T = Y'Y and ``R^2 >= ||X||_F^2``.

    `targets` are X_b'Y of each block. With more phenotypes than people, T has rank at most n, and
    its null directions are dropped. An equivalent n x n problem would need Y, which is not
    available here.
    """
    values, vectors = scipy.linalg.eigh(phenotype_gram, check_finite=False)
    values = linear_algebra.floored_at_zero(values)
    squares = np.zeros_like(values)
    for target in targets:
        squares += ((target @ vectors) ** 2).sum(axis=0)
    multiplier = ball_multiplier(values, squares, squared_radius)
    return (vectors * linear_algebra.quotient(values, values + multiplier)) @ vectors.T, multiplier


def squared_radius(bound: float, noisy_total: float, sigma: float) -> float:
    """Return R^2, an upper bound on the sum of squared row norms over all people.

    `bound` is the public upper bound n N, or inf if the rows have none. `noisy_total` is the trace
    of the noisy X'X or Y'Y, and `sigma` the standard deviation of its noise.
    """
    return min(bound, max(noisy_total, 0.0) + _RADIUS_SIGMAS * sigma)


def _norm_of_fit(eigenvalues: Float64, squares: Float64, nu: float) -> float:
    """Return phi(nu)."""
    damped = eigenvalues + nu
    return float((eigenvalues / damped * squares / damped).sum())


def _parameters(multiplier: float, radius: float) -> dict[str, float]:
    return {"projection_multiplier": multiplier, "projection_radius": math.sqrt(radius)}
