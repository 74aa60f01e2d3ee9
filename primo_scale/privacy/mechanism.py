"""The mechanism of one release, as data: its guarantee, its public bounds and its noise scales.

A person's row has three integer parts: coded genotypes x, fixed columns c (the constant and the
covariates) and phenotypes y. Seven statistics are summed over people: X'X (its diagonal LD blocks),
X'C, X'Y, C'C, C'Y, Y'Y and the number of people with each phenotype. A mechanism states the noise
on each of them. `primo_scale.privacy.scales` computes the smallest noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit

# Share of mu^2 for the counts of observed phenotypes, if it is private which are missing.
COUNTS_SHARE = 0.01


@dataclass(frozen=True)
class Promise:
    """Privacy guarantee of a release.

    Attributes
    ----------
    epsilon, delta
        Guarantee of all charges of the release together.
    privacy
        Privacy unit.
    adjacency
        Neighbouring relation between cohorts. With label or feature privacy, ``add-remove`` means
        that one person's phenotypes, or genotypes and covariates, are replaced by zeros.
    share
        Share of mu^2 that remains for this mechanism: below 1 if phenotype moments were paid for.
    """

    epsilon: float
    delta: float
    privacy: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    share: float = 1.0

    @property
    def n_is_private(self) -> bool:
        """Whether the number of people is private."""
        return self.privacy is PrivacyUnit.FULL and self.adjacency is Adjacency.ADD_REMOVE

    @property
    def counts_are_private(self) -> bool:
        """Whether it is private which phenotypes a person has."""
        return self.privacy is not PrivacyUnit.FEATURE


@dataclass(frozen=True)
class PublicBounds:
    """Public numbers that the noise is calibrated to; norms are squared, in lattice units.

    Attributes
    ----------
    row_norm
        N_x, bound on ``||x||^2``. With label privacy genotypes are not clipped, and phenotypes are
        clipped so that ``||x||^2 ||y||^2 <= N_x N_y``.
    block_norms
        Bounds beta_b, one per LD block, if rows are also clipped to ``||x_b||^2 <= beta_b``; else
        None.
    fixed_norm
        N_c, bound on ``||c||^2``.
    phenotype_norm
        N_y, bound on ``||y||^2``.
    block_sizes
        Variants of each LD block.
    n_samples
        Number of people n, or the public nominal number if n is private.
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
    """Noisy measurements of a method; by default every statistic is measured once.

    Attributes
    ----------
    eigenvalue_share
        Share of mu^2 for the smallest eigenvalue of X'X, or 0 if it is not measured.
    gram_copies
        Number of copies of X'X with independent noise; above 1 only for method ``naive``.
    subsample
        Number of people that X'X is summed over, or None for all people.
    """

    eigenvalue_share: float = 0.0
    gram_copies: int = 1
    subsample: int | None = None


@dataclass(frozen=True)
class NoiseScales:
    """Standard deviations of the noise in lattice units, rounded up; 0 for a public statistic.

    Attributes
    ----------
    gram
        Noise on the diagonal of ``X_b'X_b``, one value per block. Noise off the diagonal of X'X,
        C'C and Y'Y is smaller by a factor sqrt(2).
    fixed_cross, phenotype_cross
        Noise on X'C and on X'Y.
    fixed_gram, fixed_phenotype, phenotype_gram
        Noise on the diagonal of C'C, on C'Y and on the diagonal of Y'Y.
    observed
        Noise on the number of people with each phenotype.
    smallest_eigenvalue
        Noise on the smallest eigenvalue of X'X; 0 if it is not measured.
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
    """Return the scales of exact statistics, whose release is NOT PRIVATE."""
    return NoiseScales((0.0,) * n_blocks, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Mechanism:
    """Calibrated noise of one release.

    Attributes
    ----------
    promise
        Guarantee.
    bounds
        Public bounds that the guarantee requires.
    recipe
        Noisy measurements.
    split
        Split t of the shift between X'X and X'Z: D/A for one dense X'X, and 2 tau with
        tau^3 + 3 tau = D/Q for LD blocks (docs/maths/blocks.md); None if they share no shift.
    cost
        Cost that the ledger charges.
    scales
        Noise scales.
    """

    promise: Promise
    bounds: PublicBounds
    recipe: Recipe
    split: float | None
    cost: Cost
    scales: NoiseScales
