"""Choosing the free parameters of a release from public sizes alone (docs/maths/planner.md).

Natural units: a standardised phenotype has variance 1. Lattice units: a phenotype has `s_y` steps
to one standard deviation, a coded variant has public variance `var_x`. Nothing here sees data, so
nothing here costs budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtr, chdtrc, gammaincinv, gammaln

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import optimal_split, optimal_split_by_block
from primo_scale.gaussian.sensitivity import Adjacency

# Assumed share of phenotype variance the variants explain; the split hardly depends on it.
PRIOR_HERITABILITY = 0.3
# Below this the first-order theory misleads: it ignores that a ridge at the noise norm forgives
# noise on X'X. Measured over 12 cells (docs/reference_figures.md): t = 0.05 loses up to 29% of R^2,
# 0.2 up to 9%, this floor at most 0.9%.
_SMALLEST_SPLIT = 0.7
# At 2 a Gram matrix is free beside X'Z under replace-one; nothing is gained beyond.
LARGEST_SPLIT = 2.0
# No clip is useful beyond the norm that this share of normal phenotype rows stays within.
_ROWS_WITHIN_NORM = 0.99
# Exact binary fractions, so that the same sizes give the same bound on every machine. Below 1/4 at
# most 2% is left to gain, and a phenotype would be no more than its sign.
_CLIPS = np.arange(16, 6 * 64 + 1) / 64

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PublicSizes:
    """What the planner may know.

    Attributes
    ----------
    n_samples, n_variants, n_phenotypes
        Sizes of the release; the nominal number of people where the real one is private.
    largest_block
        Variants in the largest LD block; `n_variants` for a dense Gram matrix.
    row_norm
        N_x, bound on the squared norm of a lattice genotype row.
    variant_variance
        Mean public variance of a coded variant, lattice units squared.
    phenotype_scale
        Lattice steps to one standard deviation of a phenotype.
    """

    n_samples: int
    n_variants: int
    n_phenotypes: int
    largest_block: int
    row_norm: int
    variant_variance: float
    phenotype_scale: int


def chi_square_quantile(probability: float | Floats, degrees: float) -> Floats:
    """Return quantiles of the chi-square law; importing `scipy.stats` would take 0.3 s."""
    return np.asarray(2 * gammaincinv(degrees / 2, probability))


def attenuation(clip: float, n_phenotypes: int) -> float:
    """Factor by which clipping shrinks covariances with a standardised phenotype.

    ``E[min(R^2, B R)] / l`` with ``R^2`` chi-square on ``l`` degrees of freedom and
    ``B = clip sqrt(l)``; for one phenotype ``erf(clip / sqrt(2))``. Known, hence divided out.
    """
    return attenuation_at(clip * math.sqrt(n_phenotypes), n_phenotypes)


def attenuation_at(bound: float, degrees: float) -> float:
    """`attenuation` of rows clipped to norm `bound`, of any number of degrees of freedom."""
    return float(_clipped_moments(np.array([bound]), degrees)[0][0])


def variance_left(clip: float, n_phenotypes: int) -> float:
    """Variance of a standardised phenotype after clipping: ``E[min(R^2, B^2)] / l``."""
    bound = clip * math.sqrt(n_phenotypes)
    return float(_clipped_moments(np.array([bound]), n_phenotypes)[1][0])


def _clipped_moments(bounds: Floats, degrees: float) -> tuple[Floats, Floats]:
    """`attenuation` and `variance_left` at every bound, each of the shape of `bounds`."""
    squared = bounds**2
    mean_root = math.sqrt(2) * math.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2))
    below = chdtr(degrees + 2, squared)
    attenuated = below + bounds / degrees * mean_root * chdtrc(degrees + 1, squared)
    return attenuated, below + squared / degrees * chdtrc(degrees, squared)


def phenotype_norm(sizes: PublicSizes, *, clip: float, largest_norm: float = math.inf) -> int:
    """Bound N_y on the squared norm of a lattice phenotype row.

    Parameters
    ----------
    sizes
        Public sizes.
    clip
        b: the row is clipped at ``b sqrt(l)`` standard deviations.
    largest_norm
        The squared norm, in standard deviations, that the public limits of the phenotypes allow.

    Raises
    ------
    UsageError
        The bound rounds to nothing.
    """
    degrees = sizes.n_phenotypes
    usual_norm = float(chi_square_quantile(_ROWS_WITHIN_NORM, degrees))
    standardised = min(clip**2 * degrees, usual_norm, largest_norm)
    norm = math.floor(sizes.phenotype_scale**2 * standardised)
    if norm < 1:
        raise UsageError(
            "the phenotype bounds leave no room",
            where="--pheno-bounds",
            value=standardised,
            remedy="Give upper above lower and a standard deviation in proportion",
        )
    return norm


def split_for(
    sizes: PublicSizes, *, outcome_norm: int, adjacency: Adjacency, block_norm: int | None
) -> float:
    """The split t between X'X and X'Z under the prior heritability, in [0.7, 2].

    Noise on X'X inside one LD block meets only that block's weights, hence ``largest_block``.

    Parameters
    ----------
    sizes
        Public sizes.
    outcome_norm
        N_z.
    adjacency
        Between which cohorts.
    block_norm
        The largest beta_b where rows are clipped in every block too, else None.
    """
    weights_norm = (
        PRIOR_HERITABILITY * sizes.n_phenotypes * sizes.phenotype_scale**2 / sizes.variant_variance
    ) * (sizes.largest_block / sizes.n_variants)
    cross_weight = float(sizes.n_phenotypes * outcome_norm)
    if block_norm is None or adjacency is Adjacency.ADD_REMOVE:
        norm = sizes.row_norm if block_norm is None else block_norm
        first_order = optimal_split(norm * weights_norm / 2, cross_weight, adjacency)
    else:
        first_order = optimal_split_by_block(block_norm * weights_norm / 2, cross_weight)
    return min(max(_SMALLEST_SPLIT, first_order), LARGEST_SPLIT)


def choose_phenotype_clip(sizes: PublicSizes, cross_sigma_at: Callable[[int], float]) -> float:
    """The clip b that maximises the signal in X'Z over its noise, variant by variant.

    Small clips lose signal and large ones need more noise. The maximum is flat: at 17,000 variants
    and epsilon 5 every clip from 0.25 to 0.8 is within about 2% of it.

    Parameters
    ----------
    sizes
        Public sizes.
    cross_sigma_at
        Scale of the noise on X'Y that a bound N_y on phenotype rows leads to.
    """
    norms = [phenotype_norm(sizes, clip=clip) for clip in _CLIPS]
    sigma_at = {norm: cross_sigma_at(norm) for norm in set(norms)}
    cross_sigmas = np.array([sigma_at[norm] for norm in norms])
    bounds = _CLIPS * math.sqrt(sizes.n_phenotypes)
    attenuated, left = _clipped_moments(bounds, sizes.n_phenotypes)
    kept = attenuated**2 / (left + noise_variance(sizes, cross_sigmas))
    return float(_CLIPS[int(np.argmax(kept))])


def noise_variance(sizes: PublicSizes, cross_sigmas: Floats) -> Floats:
    """Return the variance that noise on X'Z adds to one person's standardised phenotype.

    Parameters
    ----------
    sizes
        Public sizes.
    cross_sigmas
        Standard deviations of the noise, lattice units, any shape.
    """
    per_person = sizes.n_samples * sizes.variant_variance * sizes.phenotype_scale**2
    return cross_sigmas**2 / per_person
