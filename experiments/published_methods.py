"""PRIMO's algorithms as printed, and the naive baseline, on simulated cohorts.

Details that the paper leaves open are chosen and stated here. Bounds are computed from the data,
as in its experiments (docs/maths/papers.md, item 8): Bx is the largest row norm, and By is
``sqrt(l) max |y|``. For a noisy X'X the ridge is the norm of the noise, ``2 sigma1 sqrt(d)`` in the
papers' layout; without it the matrix is often indefinite. Every row uses the sigma of X'Y that
Algorithm 1 passes to its mechanism, which lacks the factor 2 of replace-one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from experiments import papers_constants as papers
from experiments.gaussian_noise import Draws, Float64, symmetric_upper
from experiments.haplotypes import Cohort
from primo_scale.gaussian.calibration import mu_for
from primo_scale.papers.estimators import ball_multiplier

# The oracle of the naive baseline takes the best of these multiples of its noise norm.
_ORACLE_RIDGES = np.geomspace(0.1, 30, 24)


@dataclass(frozen=True)
class PrintedNoise:
    """Noise of Algorithm 1 as printed, for one cohort, unnormalised.

    `largest_value` is ``max |y|``, and `gram` and `cross` are the sigmas of X'X and X'Y.
    """

    largest_value: float
    gram: float
    cross: float

    def ridge(self, n_variants: int) -> float:
        """Return the norm of symmetric noise of variance 1 everywhere, to leading order."""
        return 2 * self.gram * math.sqrt(n_variants)


def printed_noise(cohort: Cohort, epsilon: float, delta: float) -> PrintedNoise:
    """Compute the bounds from the data, and scale the paper's constants by them."""
    scales = papers.primo_algorithm_1(epsilon, delta)
    row_bound = float(np.linalg.norm(cohort.haplotypes, axis=1).max())
    outcome_bound = math.sqrt(cohort.cross.shape[1]) * cohort.largest_value
    return PrintedNoise(
        cohort.largest_value,
        gram=scales.gram * row_bound**2,
        cross=scales.cross * row_bound * outcome_bound,
    )


def least_squares(cohort: Cohort) -> Float64:
    """Return the weights of OLS, which is not private; shape (d, l), as for every method here."""
    return np.asarray(np.linalg.lstsq(cohort.gram, cohort.cross)[0], np.float64)


def ridge(cohort: Cohort, penalty: float) -> Float64:
    """Return the weights of ridge regression, which is not private."""
    penalised = cohort.gram + penalty * np.eye(len(cohort.gram))
    return np.asarray(np.linalg.solve(penalised, cohort.cross), np.float64)


def algorithm_1(cohort: Cohort, draws: Draws, noise: PrintedNoise) -> Float64:
    """Return the weights of ReuseCovGauss as printed."""
    n_variants = len(cohort.gram)
    noisy_gram = cohort.gram + noise.gram * draws.upper
    solvable = noisy_gram + noise.ridge(n_variants) * np.eye(n_variants)
    noisy_cross = cohort.cross + noise.cross * draws.cross
    return np.asarray(np.linalg.solve(solvable, noisy_cross), np.float64)


def projection_x(cohort: Cohort, draws: Draws, noise: PrintedNoise, *, radius: float) -> Float64:
    """Return weights for label privacy: X'Y projected onto ``{X'Z : ||Z||_F <= radius}``."""
    eigenvalues, vectors = np.linalg.eigh(cohort.gram)
    target = vectors.T @ (cohort.cross + noise.cross * draws.cross)
    multiplier = ball_multiplier(eigenvalues, (target**2).sum(axis=1), radius**2)
    return np.asarray(vectors @ (target / (eigenvalues + multiplier)[:, None]))


def naive(
    cohort: Cohort, draws: Draws, epsilon: float, delta: float, rng: np.random.Generator
) -> Float64:
    """Run SSP per phenotype, each with its own noise on X'X and share ``mu / sqrt(2l)``.

    The ridge comes from an oracle: of a grid, it is the value with the best in-sample R^2.
    """
    n_variants, n_phenotypes = cohort.cross.shape
    share = mu_for(epsilon, delta) / math.sqrt(2 * n_phenotypes)
    row_bound = float(np.linalg.norm(cohort.haplotypes, axis=1).max())
    gram_sigma = math.sqrt(2) * row_bound**2 / share
    cross_sigma = 2 * row_bound * cohort.largest_value / share
    copies = np.stack([symmetric_upper(n_variants, rng) for _ in range(n_phenotypes)])
    values, vectors = np.linalg.eigh(cohort.gram + gram_sigma * copies)
    noisy = (cohort.cross + cross_sigma * draws.cross).T[:, :, None]
    target = np.swapaxes(vectors, 1, 2) @ noisy
    norm = 2 * gram_sigma * math.sqrt(n_variants)
    candidates = [
        (vectors @ (target / (values[:, :, None] + multiple * norm)))[:, :, 0].T
        for multiple in _ORACLE_RIDGES
    ]
    return max(candidates, key=cohort.pooled_r_squared)
