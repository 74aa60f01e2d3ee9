"""Noise of a party's released values (docs/maths/parties.md).

Replacing one person changes a row of d coded values by at most ``2 * 2^20 sqrt(d)`` in l2 norm, and
the k sums of a mixture release by at most ``sqrt(k)`` times that, for every matrix of signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.lattice_noise import check_sigma
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.privacy.scales import rounded_up


@dataclass(frozen=True)
class PartyNoise:
    """Noise on every released value of one party."""

    sigma: float  # standard deviation in lattice units, rounded up
    cost: Cost  # of this party's release


def party_noise(
    epsilon: float, delta: float, *, n_columns: int, n_mixtures: int | None, person_columns: int
) -> PartyNoise:
    """Return the noise of `n_columns` columns of one party with which the promise holds.

    The promise (epsilon, delta) covers `person_columns` columns together: those of this party
    alone, or the columns of all parties for a promise about a person. `n_mixtures` is None where
    the rows of the people are released. Noise that is too large for the sampler is refused.
    """
    mu = release_mu(epsilon, delta)
    sigma = rounded_up(party_sensitivity(person_columns, n_mixtures) / mu)
    check_sigma(sigma, remedy="Raise --epsilon, or release fewer columns or mixtures")
    return PartyNoise(sigma, Cost(mu**2 * n_columns / person_columns))


def party_sensitivity(n_columns: int, n_mixtures: int | None) -> float:
    """Return the l2 sensitivity of `n_columns` columns, in lattice units, to one replaced row."""
    return 2 * BOUNDED_UNIT * math.sqrt(n_columns * (n_mixtures or 1))
