"""Choice of the free parameters of a release from public sizes alone (docs/maths/planner.md).

In natural units a standardised phenotype has variance 1. In lattice units one standard deviation of
a phenotype has s_y steps, and a coded variant has a public variance. No function here reads data,
so planning costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import scipy

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import optimal_split, optimal_split_by_block
from primo_scale.gaussian.sensitivity import Adjacency

# Assumed heritability: share of phenotype variance that the variants explain. The split hardly
# depends on it.
PRIOR_HERITABILITY = 0.3
# Smaller splits are worse than the first-order theory predicts, because it ignores that shrinkage
# reduces the effect of noise on X'X. Measured loss of R^2 in 12 cases (docs/maths/planner.md): up
# to 29% for t = 0.05, up to 9% for 0.2, at most 0.9% for this floor.
_SMALLEST_SPLIT = 0.7
# Rows that are clipped in every LD block need less noise on X'X, and 5% less on X'Z at 1.2 than at
# 0.7. Measured on chromosome 22 (docs/maths/planner.md): up to 2.3% of R^2.
_SMALLEST_SPLIT_BY_BLOCK = 1.2
# At 2, X'X is free beside X'Z under replace-one, and larger splits gain nothing
# (docs/maths/gram.md, Theorem 2).
LARGEST_SPLIT = 2.0
# Standard normal quantile of the share of normal phenotype rows, 0.99, within the largest useful
# bound on the row norm.
_ROWS_WITHIN_NORM = NormalDist().inv_cdf(0.99)
CLIPS = np.arange(16, 6 * 64 + 1) / 64
"""Candidate clips b: exact binary fractions, so that the same sizes give the same bound on every
machine. Clips below 1/4 gain at most 2% and reduce a phenotype to its sign."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PublicSizes:
    """Public sizes that the planner depends on."""

    n_samples: int  # nominal if the true number of people is private
    n_variants: int
    n_phenotypes: int
    largest_block: int  # variants in the largest LD block; `n_variants` for a dense X'X
    row_norm: int  # N_x, bound on the squared norm of a lattice genotype row
    variant_variance: float  # mean public variance of a coded variant, in squared lattice units
    phenotype_scale: int  # lattice steps s_y per standard deviation of a phenotype


def clipped_phenotype(clip: float, n_phenotypes: int) -> tuple[float, float]:
    """Return the factor c on covariances with a clipped standardised phenotype, and its variance v.

    Estimates are divided by c. For one phenotype it is ``erf(clip / sqrt(2))``.
    """
    covariance, variance = clipped_moments(clip * math.sqrt(n_phenotypes), n_phenotypes)
    return float(covariance), float(variance)


def clipped_moments(bound: float | Floats, degrees: float) -> tuple[Floats, Floats]:
    """Return the share of covariances and the variance that clipping to a norm leaves.

    They are ``c = E[min(R^2, B R)] / l`` and ``v = E[min(R^2, B^2)] / l`` for the bound B, with R^2
    chi-square on l degrees of freedom. `bound` is a number or an array, and `degrees` any number
    above 0.
    Source: docs/maths/planner.md, Theorem 1.
    """
    squared = np.square(bound)
    log_gamma, below_squared = scipy.special.gammaln, scipy.special.chdtr
    above_squared = scipy.special.chdtrc
    mean_root = math.sqrt(2) * math.exp(log_gamma((degrees + 1) / 2) - log_gamma(degrees / 2))
    below = below_squared(degrees + 2, squared)
    attenuated = below + bound / degrees * mean_root * above_squared(degrees + 1, squared)
    return attenuated, below + squared / degrees * above_squared(degrees, squared)


def phenotype_norm(sizes: PublicSizes, *, clip: float, largest_norm: float = math.inf) -> int:
    """Return the bound N_y on the squared norm of a lattice phenotype row.

    It is the smallest of three bounds, in squared standard deviations: ``b^2 l`` for the `clip` b,
    the norm of 99% of normal rows, and `largest_norm`, which the phenotypes' public bounds allow.
    The second is the quantile of Wilson and Hilferty (PNAS 1931), which is within 1% of the exact
    one and, unlike it, needs no SciPy, which takes long to import.
    A bound below one squared lattice unit raises a UsageError.
    Source: docs/maths/planner.md, Theorem 2.
    """
    degrees = sizes.n_phenotypes
    spread = 2 / (9 * degrees)
    usual_norm = degrees * (1 - spread + _ROWS_WITHIN_NORM * math.sqrt(spread)) ** 3
    standardised = min(clip**2 * degrees, usual_norm, largest_norm)
    norm = math.floor(sizes.phenotype_scale**2 * standardised)
    if norm < 1:
        raise UsageError(
            "the bound on phenotype rows rounds to zero",
            where="--pheno-bounds",
            value=standardised,
            remedy="Give upper above lower and a standard deviation in proportion",
        )
    return norm


def split_for(
    sizes: PublicSizes, *, phenotype_norm: int, adjacency: Adjacency, block_norm: int | None
) -> float:
    """Return the split t between X'X and X'Y under the prior heritability, in [0.7, 2].

    Noise on X'X of one LD block affects only the weights of that block, hence ``largest_block``.
    `phenotype_norm` is the bound N_y on the squared norm of y, and `block_norm` the largest bound
    beta_b if rows are also clipped in every block, where t is at least 1.2, else None.
    Source: docs/maths/gram.md, Theorem 3; docs/maths/blocks.md, Theorem 3; docs/maths/planner.md,
    "The split and its floor".
    """
    weights_norm = (
        PRIOR_HERITABILITY * sizes.n_phenotypes * sizes.phenotype_scale**2 / sizes.variant_variance
    ) * (sizes.largest_block / sizes.n_variants)
    cross_weight = float(sizes.n_phenotypes * phenotype_norm)
    if block_norm is None or adjacency is Adjacency.ADD_REMOVE:
        norm = sizes.row_norm if block_norm is None else block_norm
        first_order = optimal_split(norm * weights_norm / 2, cross_weight, adjacency)
    else:
        first_order = optimal_split_by_block(block_norm * weights_norm / 2, cross_weight)
    floor = _SMALLEST_SPLIT if block_norm is None else _SMALLEST_SPLIT_BY_BLOCK
    return min(max(floor, first_order), LARGEST_SPLIT)


def choose_phenotype_clip(sizes: PublicSizes, cross_sigma_at: Callable[[int], float]) -> float:
    """Return the clip b that maximises the effective sample size of one variant.

    Small clips lose signal and large clips need more noise. The maximum is flat: at 17,000 variants
    and epsilon 5, every clip from 0.25 to 0.8 is within about 2% of it. `cross_sigma_at` is a
    function from a bound N_y on phenotype rows to the standard deviation of the noise on X'Y.
    Source: docs/maths/planner.md, Theorem 2.
    """
    norms = [phenotype_norm(sizes, clip=clip) for clip in CLIPS]
    sigma_at = {norm: cross_sigma_at(norm) for norm in set(norms)}
    cross_sigmas = np.array([sigma_at[norm] for norm in norms])
    bounds = CLIPS * math.sqrt(sizes.n_phenotypes)
    attenuated, left = clipped_moments(bounds, sizes.n_phenotypes)
    kept = attenuated**2 / (left + noise_variance(sizes, cross_sigmas))
    return float(CLIPS[int(np.argmax(kept))])


def noise_variance(sizes: PublicSizes, cross_sigmas: Floats) -> Floats:
    """Return the variance that noise on X'Z adds to one person's standardised phenotype.

    It is ``sigma_2^2 / (n var_x s_y^2)`` for noise of sigma_2 lattice units, in any shape.
    Source: docs/maths/planner.md, Theorem 2.
    """
    per_person = sizes.n_samples * sizes.variant_variance * sizes.phenotype_scale**2
    return cross_sigmas**2 / per_person
