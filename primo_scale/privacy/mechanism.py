"""The Gaussian mechanism of one release, as data: what was asked, the bounds, every sigma.

Genotype rows x (norm^2 at most N_x) and outcome rows z = (constant, covariates, phenotypes)
(norm^2 at most N_z) are released as X'X, X'Z and Z'Z under replace-one adjacency. They are parts
of one Gram matrix of stacked rows (x, k z), so one sensitivity covers all three; the counts of
observed phenotypes are a query of their own (docs/maths.md, sections 2 and 6).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from primo_scale.errors import UsageError
from primo_scale.privacy import sensitivity
from primo_scale.privacy.calibration import release_mu
from primo_scale.privacy.noise import LARGEST_FINE_SIGMA, fine_bits, off_diagonal_sigma

# The counts of observed phenotypes take this share of mu^2, the Gram matrices the rest.
COUNTS_SHARE = 0.01
# A Gaussian exceeds 32 standard deviations with probability 1e-223.
_TAIL_SIGMAS = 32
_INT64_LIMIT = 2**63


@dataclass(frozen=True)
class PublicBounds:
    """The public numbers that noise is calibrated to.

    Attributes
    ----------
    row_norm
        N_x, bound on the squared norm of a lattice genotype row.
    outcome_norm
        N_z, bound on the squared norm of a lattice outcome row.
    n_samples
        Length of the public sample list.
    n_phenotypes
        Number of phenotypes, l.
    """

    row_norm: int
    outcome_norm: int
    n_samples: int
    n_phenotypes: int


@dataclass(frozen=True)
class GramMechanism:
    """A calibrated joint release of X'X, X'Z, Z'Z and the counts of observed phenotypes.

    Attributes
    ----------
    epsilon, delta
        The guarantee, replace-one adjacency, for a person's whole row.
    mu
        Total of the bundle, counts included: what the ledger charges is ``mu ** 2``.
    split
        t = D/A, how the shift is shared between X'X and X'Z; in (0, 2].
    row_norm, outcome_norm, n_samples, n_phenotypes
        See `PublicBounds`.
    gram_sigma, cross_sigma, outcome_sigma, counts_sigma
        Standard deviations in lattice units, rounded up, of the noise on the diagonal of X'X, on
        X'Z, on the diagonal of Z'Z and on the counts. Off the diagonals of X'X and Z'Z the noise
        is smaller by sqrt(2), see the properties.
    """

    epsilon: float
    delta: float
    mu: float
    split: float
    row_norm: int
    outcome_norm: int
    n_samples: int
    n_phenotypes: int
    gram_sigma: float
    cross_sigma: float
    outcome_sigma: float
    counts_sigma: float

    @property
    def gram_off_diagonal_sigma(self) -> float:
        """Standard deviation of the noise on X'X off the diagonal."""
        return off_diagonal_sigma(self.gram_sigma)

    @property
    def outcome_off_diagonal_sigma(self) -> float:
        """Standard deviation of the noise on Z'Z off the diagonal."""
        return off_diagonal_sigma(self.outcome_sigma)

    def as_public_parameters(self) -> dict[str, float | int | str]:
        """Every number needed to recompute the guarantee, ready for JSON."""
        return {
            "mechanism": "joint Gaussian",
            "adjacency": str(sensitivity.Adjacency.REPLACE_ONE),
            "privacy_unit": str(sensitivity.PrivacyUnit.FULL),
            "counts_share": COUNTS_SHARE,
            "gram_off_diagonal_sigma": self.gram_off_diagonal_sigma,
            "outcome_off_diagonal_sigma": self.outcome_off_diagonal_sigma,
            **asdict(self),
        }


def calibrate(bounds: PublicBounds, *, epsilon: float, delta: float, split: float) -> GramMechanism:
    """Find the least noise that makes the joint release (epsilon, delta)-private.

    Parameters
    ----------
    bounds
        Public bounds on the rows.
    epsilon, delta
        The guarantee asked for.
    split
        t in (0, 2], from `calibration.optimal_split`.

    Raises
    ------
    UsageError
        Parameters out of range, bounds that are not positive, or sums plus noise that would not
        fit 64-bit integers.
    """
    _check_bounds(bounds)
    if not 0 < split <= 2:
        raise UsageError("the split must lie in (0, 2]", value=split)
    mu = release_mu(epsilon, delta)
    gram_mu = mu * math.sqrt(1 - COUNTS_SHARE)
    counts_mu = mu * math.sqrt(COUNTS_SHARE)
    gram_sigma = sensitivity.stacked(bounds.row_norm, split) / gram_mu
    stacking = math.sqrt(split * bounds.row_norm / (2 * bounds.outcome_norm))
    mechanism = GramMechanism(
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        split=split,
        row_norm=bounds.row_norm,
        outcome_norm=bounds.outcome_norm,
        n_samples=bounds.n_samples,
        n_phenotypes=bounds.n_phenotypes,
        gram_sigma=_rounded_up(gram_sigma),
        cross_sigma=_rounded_up(gram_sigma / (math.sqrt(2) * stacking)),
        outcome_sigma=_rounded_up(gram_sigma / stacking**2),
        counts_sigma=_rounded_up(sensitivity.observed_counts(bounds.n_phenotypes) / counts_mu),
    )
    _check_integer_range(mechanism)
    return mechanism


def _check_bounds(bounds: PublicBounds) -> None:
    for name, value in asdict(bounds).items():
        if value < 1:
            raise UsageError(
                f"{name.replace('_', ' ')} must be a positive integer",
                value=value,
                remedy="Give wider public bounds",
            )


def _check_integer_range(mechanism: GramMechanism) -> None:
    """Refuse noise the sampler would saturate at, and sums that could wrap around."""
    sigma = max(mechanism.gram_sigma, mechanism.cross_sigma, mechanism.outcome_sigma)
    if math.ldexp(sigma, fine_bits(sigma)) > LARGEST_FINE_SIGMA:
        raise UsageError(
            "the noise is too large for 64-bit sampling",
            value=sigma,
            limit=LARGEST_FINE_SIGMA,
            remedy="Lower the scale of the lattice or raise epsilon",
        )
    largest_sum = mechanism.n_samples * max(mechanism.row_norm, mechanism.outcome_norm)
    if largest_sum + _TAIL_SIGMAS * math.ceil(sigma) >= _INT64_LIMIT:
        raise UsageError(
            "sums plus noise would not fit 64-bit integers",
            value=largest_sum,
            limit=_INT64_LIMIT,
            remedy="Lower the scale of the lattice or the public bounds",
        )


def _rounded_up(sigma: float) -> float:
    # The few roundings on the way here are each below 2^-53 relative, together below 2^-50.
    return math.nextafter(sigma * (1 + 2.0**-50), math.inf)
