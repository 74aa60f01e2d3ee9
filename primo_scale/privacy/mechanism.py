"""The mechanism of one release, as data: its guarantee, its public bounds and its noise scales.

A person's row has two integer parts: coded genotypes x and phenotypes y, which were adjusted for
the covariates before (`primo_scale.privacy.phenotype_adjustment`). Four statistics are summed over
people: X'X (its diagonal LD blocks), X'Y, Y'Y and the number of people with each phenotype. A
mechanism states the noise on each of them. `primo_scale.privacy.scales` computes the smallest
noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit


@dataclass(frozen=True)
class Shares:
    """Division of the mu^2 of a release among what is measured. Costs in mu^2 add up.

    Source: docs/maths/calibration.md, Theorem 2.
    """

    # Of the release, for the Gram matrices by which phenotypes are adjusted. Their sums over all
    # people are large compared with any noise.
    adjustment: float = 0.02
    # Of the rest, for the first of two rounds (docs/maths/rounds.md).
    first_round: float = 0.5
    # Of the statistics, for the counts of observed phenotypes where it is private which are
    # missing, and for a Y'Y that is not free beside X'Y: both are large compared with any noise.
    counts: float = 0.01
    outcome_gram: float = 0.02
    # Of the measures of people held out, for counts of people by their score, which only choose the
    # range of the scores.
    hold_out_counts: float = 0.1


SHARES = Shares()
"""Division of every release. That of the smallest eigenvalue of X'X is a method's own."""


@dataclass(frozen=True)
class Guarantee:
    """Differential privacy of one release."""

    epsilon: float
    delta: float
    unit: PrivacyUnit = PrivacyUnit.FULL
    # With label or feature privacy, ``add-remove`` means that one person's phenotypes, or genotypes
    # and covariates, are replaced by nothing: the person counts in no sum that they enter.
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def n_is_private(self) -> bool:
        """Whether the number of people is private."""
        return self.unit is PrivacyUnit.FULL and self.adjacency is Adjacency.ADD_REMOVE

    @property
    def counts_are_private(self) -> bool:
        """Whether it is private which phenotypes a person has."""
        return self.unit is not PrivacyUnit.FEATURE


@dataclass(frozen=True)
class Promise(Guarantee):
    """Guarantee of a release, and the share of its mu^2 that a mechanism may spend."""

    share: float = 1.0


@dataclass(frozen=True)
class PublicBounds:
    """Public numbers that the noise is calibrated to; norms are squared, in lattice units."""

    # N_x, bound on ``||x||^2``. With label privacy genotypes are not clipped, and phenotypes are
    # clipped so that ``||x||^2 ||y||^2 <= N_x N_y``.
    row_norm: int
    # Bounds beta_b, one per LD block, if rows are also clipped to ``||x_b||^2 <= beta_b``; else
    # None.
    block_norms: tuple[int, ...] | None
    phenotype_norm: int  # N_y, bound on ``||y||^2``
    block_sizes: tuple[int, ...]  # variants in each LD block
    n_samples: int  # number of people n, or the public nominal number if n is private
    n_phenotypes: int  # l


@dataclass(frozen=True)
class Recipe:
    """Noisy measurements of a method; by default every statistic is measured once."""

    # Share of mu^2 for the smallest eigenvalue of X'X, or 0 if it is not measured.
    eigenvalue_share: float = 0.0
    # Number of copies of X'X with independent noise; above 1 only for method ``naive``.
    gram_copies: int = 1
    subsample: int | None = None  # number of people that X'X is summed over, or None for all people


@dataclass(frozen=True)
class NoiseScales:
    """Standard deviations of the noise in lattice units, rounded up; 0 for a public statistic."""

    # Noise on the diagonal of ``X_b'X_b``, one value per block. Noise off the diagonal of X'X
    # and Y'Y is smaller by a factor sqrt(2).
    gram: tuple[float, ...]
    phenotype_cross: float  # noise on X'Y
    phenotype_gram: float  # noise on the diagonal of Y'Y
    # Noise on the number of people with each phenotype, and on that of all people if it is private.
    observed: float
    smallest_eigenvalue: float = 0.0  # noise on that of X'X; 0 if it is not measured


def no_noise(n_blocks: int) -> NoiseScales:
    """Return the scales of exact statistics, whose release is NOT PRIVATE."""
    return NoiseScales((0.0,) * n_blocks, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class HoldOut:
    """Noise on the measures of the weights in people who count in no other statistic.

    It costs nothing beside the statistics of the others (docs/maths/hold-out.md, Theorem 1).
    """

    people: int  # number of people held out
    scale_sigma: float  # noise on counts of people by their score
    gram_sigma: float  # noise on the diagonal of the Gram matrices of scores and residuals
    fit: str  # way from statistics to weights: other weights would be measured at a further cost
    groups: int = 1  # number of groups of people, each with Gram matrices of its own


@dataclass(frozen=True)
class SecondRound:
    """Noise on a second measurement of X'Y, in directions of every phenotype's own.

    A person's phenotypes y_k and directions x_k satisfy ``sum_k y_k^2 ||x_k||^2 <= N_x N_y``
    (docs/maths/rounds.md, Theorem 1).
    """

    directions: int  # of all phenotypes together
    row_norm: int  # N_x
    phenotype_norm: int  # N_y
    sigma: float  # standard deviation of the noise in every direction


@dataclass(frozen=True)
class Mechanism:
    """Calibrated noise of one release."""

    promise: Promise
    bounds: PublicBounds
    recipe: Recipe
    # Split t of the shift between X'X and X'Z: D/A for one dense X'X, and 2 tau with tau^3 + 3 tau
    # = D/Q for LD blocks (docs/maths/blocks.md); None if they share no shift.
    split: float | None
    cost: Cost  # that the ledger charges
    scales: NoiseScales
    hold_out: HoldOut | None = None
    second_round: SecondRound | None = None  # None before it is chosen, and without one
