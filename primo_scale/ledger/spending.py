"""Budgets and what is spent of them, as pure data: accounts, charges, balances.

There is no stored sum that could disagree with its parts: whatever adds up is recomputed at every
use, from charges that are recomputed from the ledger's events (`primo_scale.ledger.history`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from primo_scale.gaussian.calibration import (
    DELTA_RANGE,
    LATTICE_MARGIN,
    SMALLEST_EPSILON,
    Cost,
    composed_epsilon,
    epsilon_for,
    release_mu,
)
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit

_IDENTIFIER = re.compile(r"[0-9a-f]{64}")
# So that no name that somebody makes up stands for an identifier by chance.
_SHORTEST_ABBREVIATION = 8
# Relative, of mu^2: shares of a release's cost add up to it only up to rounding, and root finding
# may differ in the last digits between versions of SciPy. It moves epsilon by less than 1e-8 of
# itself, a hundredth of LATTICE_MARGIN.
_RECOMPUTED = 1e-9
# Relative, of epsilon: what `composed_epsilon` adds to a promise that is spent to the last digit.
_REPORTED = 1e-5


class ChargeState(StrEnum):
    """How far a release has come; it never goes back."""

    RESERVED = "reserved"
    DRAWN = "drawn"
    PUBLISHED = "published"


@dataclass(frozen=True)
class Account:
    """Whose budget is spent: guarantees for other units or adjacencies never mix.

    A cohort has one account for each unit and adjacency that it releases under, and their budgets
    do not add. Epsilon says how well neighbours cannot be told apart, and each account means other
    neighbours: a label release protects no genotype at all, so that no number it could add to a
    full account would be true. In one direction there is a bound, which the ledger leaves to the
    custodian: a full release protects phenotypes too, so phenotypes are protected by the sum of
    mu^2 of the full and the label account. Add-remove implies replace-one only at twice the mu,
    and takes n to be private where replace-one may have published it.

    Attributes
    ----------
    cohort
        Keyed digest of the sample list, or the custodian's name for the cohort.
    unit, adjacency
        What of a person is protected, and against which neighbours.
    """

    cohort: str
    unit: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def given_name(self) -> str | None:
        """The custodian's name for the cohort, if it has one."""
        return None if _IDENTIFIER.fullmatch(self.cohort) else self.cohort

    @property
    def short_name(self) -> str:
        """What to show the custodian: a given name whole, a digest by its beginning."""
        return self.given_name or self.cohort[:12]

    @property
    def description(self) -> str:
        """The short name and what is protected, for one line to the custodian."""
        return f"{self.short_name} ({self.unit} privacy, {self.adjacency})"

    def is_abbreviated_by(self, text: str) -> bool:
        """Whether `text` is the cohort's name, or its identifier's first 8 digits or more.

        Fewer digits are the name of another cohort.
        """
        if self.given_name is not None:
            return self.cohort == text
        return len(text) >= _SHORTEST_ABBREVIATION and self.cohort.startswith(text)


@dataclass(frozen=True)
class AccountBudget:
    """The most an account may spend; its delta never changes.

    Attributes
    ----------
    epsilon, delta
        As set by the custodian, or by the account's first release.
    """

    epsilon: float
    delta: float

    @property
    def mu_squared(self) -> float:
        """The same limit in the unit that adds up."""
        return release_mu(self.epsilon, self.delta) ** 2

    def mu_squared_beside(self, approximate: Cost) -> float:
        """What Gaussian releases may cost beside the (epsilon_j, delta_j) parts of a cost.

        The parts come off epsilon and delta, and the rest is turned into mu^2: `composed_epsilon`
        solved for mu^2, without the margin that it reports (docs/maths/calibration.md).
        """
        epsilon, delta = self.epsilon - approximate.epsilon, self.delta - approximate.delta
        if epsilon < SMALLEST_EPSILON or delta < DELTA_RANGE[0]:
            return 0.0
        return release_mu(epsilon, delta) ** 2

    def covers(self, total: Cost) -> bool:
        """Whether everything that an account spends, `total`, stays within this budget."""
        if total.delta >= self.delta or total.epsilon > self.epsilon:
            return False
        return total.mu_squared <= self.mu_squared_beside(total) * (1 + _RECOMPUTED)


@dataclass(frozen=True)
class ReleaseRequest:
    """A release, or a part of one that has noise of its own, to be paid for.

    Attributes
    ----------
    account
        Who pays.
    digest
        `Ledger.request_digest` of the statistics and of everything the noise depends on.
    epsilon, delta
        The guarantee of the whole release.
    cost
        What this charge takes: all of it, or its share. A Gaussian release costs
        ``release_mu(epsilon, delta)^2``. Whatever is not mu-Gaussian is charged as the
        (epsilon_j, delta_j) that is proved for it: an amplified subsample is, and a mechanism known
        only as rho-zCDP would be, by its conversion, because rho-zCDP does not imply that mu^2 is
        2 rho. Nothing here is known only as zCDP.
    people_digest
        Keyed digest of the sample list; empty where it is not known.
    roster
        Keyed digests of the people's IIDs (`primo_scale.ledger.rosters`); empty where they are
        not known, and of requests that are read back. It makes no other request.
    """

    account: Account
    digest: str
    epsilon: float
    delta: float
    cost: Cost
    people_digest: str = ""
    roster: bytes = field(default=b"", compare=False, repr=False)

    def problem(self) -> str | None:
        """What keeps it from being charged, whatever the budget; None if nothing does.

        Raises
        ------
        UsageError
            Epsilon or delta out of range.
        """
        whole = release_mu(self.epsilon, self.delta) ** 2
        parts = (self.cost.mu_squared, self.cost.epsilon, self.cost.delta)
        if not all(math.isfinite(part) and part >= 0 for part in parts) or max(parts) == 0:
            return "costs what is no cost"
        too_much = "costs more than its epsilon and delta"
        # Implied by what follows, which finds no epsilon for a mu^2 far above any promise.
        if self.cost.mu_squared > whole * (1 + _REPORTED):
            return too_much
        composed = composed_epsilon(self.cost, self.delta)
        return too_much if composed > self.epsilon * (1 + _REPORTED) else None


@dataclass(frozen=True)
class Charge:
    """One payment and the one noise it buys.

    Attributes
    ----------
    id
        Random name of the charge.
    request
        What was paid for, and what was paid.
    state
        Reserved, drawn or published.
    reserved_at
        UTC time, ISO 8601; empty until it is read back.
    statistics_digest
        Keyed digest of the private statistics, once drawn.
    release_digests
        Digests of the releases published from it (more than one is post-processing).
    roster
        Keyed digest of the people's roster, which the ledger keeps; empty if a version without
        rosters made the charge.
    """

    id: str
    request: ReleaseRequest
    state: ChargeState = ChargeState.RESERVED
    reserved_at: str = ""
    statistics_digest: str | None = None
    release_digests: tuple[str, ...] = ()
    roster: str = ""

    @property
    def cost(self) -> Cost:
        """What was paid."""
        return self.request.cost


def total_cost(costs: Iterable[Cost]) -> Cost:
    """The cost of all, every sum exact before it is rounded."""
    listed = list(costs)
    return Cost(
        math.fsum(cost.mu_squared for cost in listed),
        math.fsum(cost.epsilon for cost in listed),
        math.fsum(cost.delta for cost in listed),
    )


@dataclass(frozen=True)
class Balance:
    """What one account may spend, has spent and has left.

    Attributes
    ----------
    account, budget
        The account and its limit.
    charges
        Every charge, oldest first, reserved ones included: their noise may have been seen.
    """

    account: Account
    budget: AccountBudget
    charges: tuple[Charge, ...]

    @property
    def spent(self) -> Cost:
        """Sum of what the charges cost."""
        return total_cost(charge.cost for charge in self.charges)

    @property
    def epsilon_spent(self) -> float:
        """Epsilon, at the account's delta, of all charges composed."""
        return composed_epsilon(self.spent, self.budget.delta)

    @property
    def epsilon_left(self) -> float:
        """The largest epsilon, to six digits and rounded down, one more release may ask for.

        A Gaussian release at the account's delta; of any other kind the budget covers less.
        """
        if not self.charges:
            return self.budget.epsilon
        spent = self.spent
        left = self.budget.mu_squared_beside(spent) - spent.mu_squared
        if left <= 0:
            return 0.0
        exact = epsilon_for(math.sqrt(left), self.budget.delta) / (1 - LATTICE_MARGIN)
        if exact <= 0:
            return 0.0
        digits = 5 - math.floor(math.log10(exact))
        rounded = math.floor(exact * (1 - 1e-9) * 10**digits) / 10**digits
        return rounded if rounded >= SMALLEST_EPSILON else 0.0

    def spent_before(self, charge_id: str) -> Cost:
        """Sum of what the charges cost that were reserved before one of them.

        Parameters
        ----------
        charge_id
            Of a charge of this account; it is not counted itself.

        Raises
        ------
        ValueError
            The account has no such charge.
        """
        position = [charge.id for charge in self.charges].index(charge_id)
        return total_cost(charge.cost for charge in self.charges[:position])

    def affords(self, cost: Cost) -> bool:
        """Whether the budget covers all charges and one more of `cost`."""
        costs = [charge.cost for charge in self.charges]
        return self.budget.covers(total_cost([*costs, cost]))
