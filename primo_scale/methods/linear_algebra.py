"""Adjustment of X'X and X'Y for the fixed columns, LD blocks side by side, and what noise does.

The fixed columns C are the constant and the covariates. By the Frisch-Waugh-Lovell theorem, the
weights of X in a regression on X and C, where C is not shrunk, equal the weights of a regression on
the residuals after C::

    S = X'X - X'C (C'C)^-1 C'X
    G = X'Y - X'C (C'C)^-1 C'Y

C is in exact sums alone: of a release stamped NOT PRIVATE, and of public covariates. The phenotypes
of private statistics were adjusted before, and their C'Y is 0; without C in the sums, G is X'Y, and
what principal components explain is subtracted (docs/maths/adjustment.md, "Ancestry in weights and
predictions").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy
from threadpoolctl import threadpool_limits

from primo_scale.machine import in_threads, usable_cpus
from primo_scale.privacy.mechanism import NoiseScales
from primo_scale.storage.block_matrices import BlockMatrices

Float64 = npt.NDArray[np.float64]

LARGEST_SIDE_BY_SIDE = 2048
"""Number of variants up to which LD blocks are solved side by side."""
FLOOR_SHARE = 0.3
"""Eigenvalues of a noisy Gram matrix below this share of the noise norm carry no information
(docs/maths/weights.md, Theorem 4)."""

_Result = TypeVar("_Result")


def map_blocks(function: Callable[[int], _Result], sizes: Sequence[int]) -> list[_Result]:
    """Apply `function` to the number of each LD block, and return the results in order.

    `function` should release the interpreter lock: numpy.linalg does, and scipy.linalg does not.

    Small blocks are solved side by side, each on one BLAS thread. BLAS threads that share a small
    matrix wait for each other, and spin while they wait (docs/benchmarks.md). A large block has the
    memory and all CPUs for itself.
    """
    threads = usable_cpus()
    found: dict[int, _Result] = {}
    large = [block for block, size in enumerate(sizes) if size > LARGEST_SIDE_BY_SIDE]
    small = [block for block, size in enumerate(sizes) if size <= LARGEST_SIDE_BY_SIDE]
    for blocks, side_by_side in ((large, 1), (small, threads)):
        if not blocks:
            continue
        with threadpool_limits(threads // side_by_side, user_api="blas"):
            found |= zip(blocks, in_threads(function, blocks, side_by_side), strict=True)
    return [found[block] for block in range(len(sizes))]


def noise_norm(sigma: float, size: int) -> float:
    """Return a bound on the spectral norm of symmetric noise in the svec layout.

    ``P(norm > sigma (sqrt(2 size) + 3))`` is below 3% (docs/maths/weights.md, Theorem 5).
    """
    return sigma * (float(np.sqrt(2 * size)) + 3)


def floored_at_zero(eigenvalues: Float64, rounding: float = 0.0) -> Float64:
    """Return a symmetric matrix' eigenvalues with negative and negligible values set to zero.

    `rounding` is the rounding error of the matrix itself, if it is the difference of larger ones.
    """
    largest = np.abs(eigenvalues).max(initial=0.0)
    negligible = max(len(eigenvalues) * np.finfo(np.float64).eps * largest, rounding)
    return np.where(eigenvalues > negligible, eigenvalues, 0.0)


def quotient(numerator: Float64, denominator: Float64) -> Float64:
    """Return ``numerator / denominator``, or 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator != 0)


# Rows of a Gram matrix adjusted at a time, so that no second matrix of its size is needed.
_ROWS = 1024


@dataclass(frozen=True, eq=False)
class TargetNoise:
    """Covariance ``diag(own) + shared' shared`` of the noise in a row of X'Y, shape (l, l).

    The noise that a release adds to X'Y is independent between phenotypes. Public scores also
    subtract noisy predictions from X'Y: an error in X'X moves all phenotypes that have the same
    score. An estimator that neglects the covariance of these errors takes them for effects that
    the phenotypes share (docs/maths/weights.md).
    """

    own: Float64  # variance of the noise that each phenotype has alone, shape (l,)
    shared: Float64  # effects of independent errors on every phenotype, shape (errors, l)

    @classmethod
    def of(cls, own: Float64) -> TargetNoise:
        """Return independent noise."""
        return cls(own, np.zeros((0, len(own))))

    @property
    def variances(self) -> Float64:
        """Variance of the noise of each phenotype, shape (l,)."""
        return np.asarray(self.own + (self.shared**2).sum(axis=0))

    def along(self, basis: Float64) -> Float64:
        """Return the variance of each combination of phenotypes, in the columns of `basis`."""
        return np.asarray(self.own @ basis**2 + ((self.shared @ basis) ** 2).sum(axis=0))

    def matrix(self) -> Float64:
        """Return the covariance, shape (l, l)."""
        return np.asarray(np.diag(self.own) + self.shared.T @ self.shared)

    def with_errors(self, covariance: Float64, effects: Float64) -> TargetNoise:
        """Return the noise with further errors.

        They have the given covariance, shape (e, e), and the given effects on phenotypes, shape
        (e, l).
        """
        values, vectors = np.linalg.eigh(covariance)
        roots = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
        return TargetNoise(self.own, np.vstack([self.shared, roots @ effects]))

    def relative_to(self, variance: float) -> TargetNoise:
        """Return the covariance divided by a variance."""
        return TargetNoise(self.own / variance, self.shared / np.sqrt(variance))


@dataclass(frozen=True)
class Adjustment:
    """Statistics and the quantities that adjust them for C."""

    # X'X by blocks, X'Z and Z'Z; private, or exact for a release stamped NOT PRIVATE.
    statistics: BlockMatrices
    scales: NoiseScales  # standard deviations of the noise in the statistics
    # Factor on each phenotype's column that corrects for missing values, shape (l,).
    rescale: Float64
    # Factor on X'X that corrects for its subsample: n/s, or 1 without a subsample.
    gram_factor: float
    fixed_inverse: Float64  # inverse of C'C, shape (f, f)
    fixed_phenotypes: Float64  # rescaled C'Y, shape (f, l)
    # What ancestry explains of X'Y beside the covariates, shape (d, l), and the root of what it
    # explains of X'X, shape (d, k); None if it is not known.
    ancestry: tuple[Float64, Float64] | None = None
    # Projection of rescaled phenotypes, by which X'Y is multiplied from the right, or None.
    across: Float64 | None = None

    @property
    def fixed_coefficients(self) -> Float64:
        """Coefficients of the rescaled phenotypes in a regression on C alone, shape (f, l)."""
        return self.fixed_inverse @ self.fixed_phenotypes

    def residual_squares(self) -> Float64:
        """Return the sum of squared residuals of each rescaled phenotype after C, shape (l,)."""
        phenotypes = slice(self.statistics.layout.n_fixed, None)
        squares = self.statistics.outcome_gram().diagonal()[phenotypes] * self.rescale**2
        explained = (self.fixed_coefficients * self.fixed_phenotypes).sum(axis=0)
        return np.asarray(np.maximum(squares - explained, 0.0))

    def block(self, block: int) -> tuple[Float64, Float64, TargetNoise]:
        """Return X'C of one block, shape (d_b, f), G, shape (d_b, l), and the noise in its rows."""
        n_fixed = self.statistics.layout.n_fixed
        cross = self.statistics.cross(block).astype(np.float64)
        fixed_cross = cross[:, :n_fixed]
        projection = fixed_cross @ self.fixed_inverse
        target = cross[:, n_fixed:] * self.rescale - projection @ self.fixed_phenotypes
        if self.ancestry is not None:
            target -= self.ancestry[0][self.statistics.layout.variants(block)]
        noise = TargetNoise.of((self.scales.phenotype_cross * self.rescale) ** 2)
        if self.across is not None:
            target, noise = target @ self.across, TargetNoise.of(noise.along(self.across))
        return fixed_cross, target, noise

    def gram(self, fixed_cross: Float64, block: int) -> tuple[Float64, float]:
        """Return S of one block, shape (d_b, d_b), and the rounding error of its eigenvalues."""
        projection = fixed_cross @ self.fixed_inverse
        gram = self.statistics.gram(block).astype(np.float64)
        gram *= self.gram_factor
        if self.ancestry is not None:
            root = self.ancestry[1][self.statistics.layout.variants(block)]
            gram -= root @ root.T
        rounding = 16 * projection.shape[1] * np.finfo(np.float64).eps
        rounding *= float(np.linalg.norm(gram))
        for start in range(0, len(gram), _ROWS):
            rows = slice(start, start + _ROWS)
            gram[rows] -= projection[rows] @ fixed_cross.T
        return gram, rounding

    def gram_sigma(self, block: int) -> float:
        """Return the standard deviation of the noise on the diagonal of S of one block."""
        return self.gram_factor * self.scales.gram[block]


def adjust(
    statistics: BlockMatrices,
    scales: NoiseScales,
    rescale: Float64,
    *,
    gram_factor: float,
    ancestry: Float64 | None = None,
) -> Adjustment:
    """Prepare the adjustment of every block; parameters as in `Adjustment`.

    `ancestry`, shape (d, k), is a root of what principal components explain of X'X. X'Y is made
    orthogonal to it, so that no ancestry is left that components with errors did not account for.
    """
    f = statistics.layout.n_fixed
    outcome_gram = statistics.outcome_gram()[:f].astype(np.float64)
    return Adjustment(
        statistics=statistics,
        scales=scales,
        rescale=rescale,
        gram_factor=gram_factor,
        fixed_inverse=_inverse(outcome_gram[:, :f]),
        fixed_phenotypes=outcome_gram[:, f:] * rescale,
        ancestry=None if ancestry is None else (_along(ancestry, statistics, rescale), ancestry),
    )


def _along(directions: Float64, statistics: BlockMatrices, rescale: Float64) -> Float64:
    """Return the projection of X'Y on directions, shape (d, k), for all columns together."""
    layout = statistics.layout
    sums = np.zeros((directions.shape[1], layout.n_phenotypes))
    for block in range(layout.n_blocks):
        cross = statistics.cross(block)[:, layout.n_fixed :] * rescale
        sums += directions[layout.variants(block)].T @ cross
    return np.asarray(directions @ np.linalg.lstsq(directions.T @ directions, sums)[0])


def missing_rescale(observed: Float64, n_samples: float, *, least: float = 0.1) -> Float64:
    """Return the factor n / n_j, at most 1 / `least`, for zero-filled missing phenotypes.

    The factor is valid if values are missing completely at random
    (docs/maths/sensitivity.md). `observed` is the number of people n_j with each phenotype,
    shape (l,): noisy, or exact for a release stamped NOT PRIVATE. `n_samples` is n, noisy where it
    is private. A larger factor would give weights mostly noise.
    """
    return n_samples / np.clip(observed, least * n_samples, n_samples)


def _inverse(matrix: Float64) -> Float64:
    """Return the inverse; a null direction stays null."""
    if not len(matrix):
        return matrix
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    factors = quotient(np.ones(len(values)), floored_at_zero(values))
    return np.asarray((vectors * factors) @ vectors.T)
