"""The mechanism of one release, as data: what is promised, the public bounds, every sigma.

A person's row has three parts, all integers: coded genotypes x, fixed columns c (the constant and
the covariates) and phenotypes y. Seven statistics are summed over people, X'X (its diagonal LD
blocks), X'C, X'Y, C'C, C'Y, Y'Y and the numbers of people with each phenotype; a mechanism says
how much noise each gets. `primo_scale.privacy.scales` finds the least.
"""

from __future__ import annotations

from dataclasses import dataclass

from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit

# The counts of observed phenotypes take this share of mu^2 wherever missingness is private.
COUNTS_SHARE = 0.01


@dataclass(frozen=True)
class Promise:
    """What a release guarantees.

    Attributes
    ----------
    epsilon, delta
        Of all charges of the release together.
    privacy
        What of a person is protected.
    adjacency
        Between which cohorts. With label or feature privacy ``add-remove`` means that one
        person's phenotypes, or genotypes and covariates, are replaced by nothing.
    share
        Share of mu^2 that is left for this mechanism: below 1 where phenotype means were paid for.
    """

    epsilon: float
    delta: float
    privacy: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    share: float = 1.0

    @property
    def n_is_private(self) -> bool:
        """Whether the number of people is protected: whoever may be absent cannot be counted."""
        return self.privacy is PrivacyUnit.FULL and self.adjacency is Adjacency.ADD_REMOVE

    @property
    def counts_are_private(self) -> bool:
        """Whether it is protected which phenotypes a person has."""
        return self.privacy is not PrivacyUnit.FEATURE


@dataclass(frozen=True)
class PublicBounds:
    """The public numbers that noise is calibrated to; norms are squared, in lattice units.

    Attributes
    ----------
    row_norm
        N_x, bound on ``||x||^2``. With label privacy genotypes are not clipped, and phenotypes are
        clipped so that ``||x||^2 ||y||^2 <= N_x N_y``.
    block_norms
        beta_b for every LD block, where rows are clipped to ``||x_b||^2 <= beta_b`` too; else None.
    fixed_norm
        N_c, bound on ``||c||^2``.
    phenotype_norm
        N_y, bound on ``||y||^2``.
    block_sizes
        Variants of each LD block.
    n_samples
        Number of people n, or the public nominal one where n is private.
    n_phenotypes
        Number of phenotypes, l.
    """

    row_norm: int
    block_norms: tuple[int, ...] | None
    fixed_norm: int
    phenotype_norm: int
    block_sizes: tuple[int, ...]
    n_samples: int
    n_phenotypes: int

    @property
    def outcome_norm(self) -> int:
        """N_z = N_c + N_y, bound on the squared norm of ``z = (c, y)``."""
        return self.fixed_norm + self.phenotype_norm


@dataclass(frozen=True)
class Recipe:
    """What a method wants measured beyond, or in place of, every statistic once.

    Attributes
    ----------
    eigenvalue_share
        Share of mu^2 for the smallest eigenvalue of X'X; 0: it is not measured.
    gram_copies
        Noisy copies of X'X, each with noise of its own; more than one only for ``naive``.
    subsample
        People that X'X is summed over, or None for all of them.
    """

    eigenvalue_share: float = 0.0
    gram_copies: int = 1
    subsample: int | None = None


@dataclass(frozen=True)
class NoiseScales:
    """Standard deviations in lattice units, rounded up; 0 for a part that is public.

    Attributes
    ----------
    gram
        Of the diagonal of ``X_b'X_b``, for each block. Off the diagonal of X'X, C'C and Y'Y noise
        is smaller by sqrt(2).
    fixed_cross, phenotype_cross
        Of X'C and X'Y.
    fixed_gram, fixed_phenotype, phenotype_gram
        Of C'C (diagonal), C'Y and Y'Y (diagonal).
    observed
        Of the numbers of people with each phenotype.
    smallest_eigenvalue
        Of the smallest eigenvalue of X'X; 0 where it is not measured.
    """

    gram: tuple[float, ...]
    fixed_cross: float
    phenotype_cross: float
    fixed_gram: float
    fixed_phenotype: float
    phenotype_gram: float
    observed: float
    smallest_eigenvalue: float = 0.0


def no_noise(n_blocks: int) -> NoiseScales:
    """The scales of statistics that carry no noise, and whose release is NOT PRIVATE."""
    return NoiseScales((0.0,) * n_blocks, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Mechanism:
    """A calibrated release of every statistic.

    Attributes
    ----------
    promise
        What it guarantees.
    bounds
        Public bounds it rests on.
    recipe
        What is measured.
    split
        t, which says how X'X and X'Z share the shift: D/A for one dense X'X, and 2 tau with
        tau^3 + 3 tau = D/Q for LD blocks (docs/maths/blocks.md); None where nothing is shared.
    cost
        What the ledger charges.
    scales
        The noise.
    """

    promise: Promise
    bounds: PublicBounds
    recipe: Recipe
    split: float | None
    cost: Cost
    scales: NoiseScales
