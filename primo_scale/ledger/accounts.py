"""Accounts, budgets and charges, and their replay from the events of a ledger.

The events are the only stored state: every sum is recomputed at every use, so that none can
disagree with its parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import UsageError
from primo_scale.gaussian import calibration
from primo_scale.gaussian.calibration import LATTICE_MARGIN, SMALLEST_EPSILON, Cost, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.humanize import spent_in_words

_Digests = npt.NDArray[np.uint64]
ENTRY = np.dtype("<u8")
_IDENTIFIER = re.compile(r"[0-9a-f]{64}")
# Long enough that no name chosen by a person is the beginning of an identifier by chance.
_SHORTEST_ABBREVIATION = 8
# Relative tolerance of mu^2. The shares of a release's cost add up to it only up to rounding, and
# root finding may differ in the last digits between versions of SciPy. The tolerance changes
# epsilon by a relative 1e-8 at most, a hundredth of LATTICE_MARGIN.
_RECOMPUTED = 1e-9
# Relative tolerance of epsilon: above what `composed_epsilon` adds to a promise spent in full.
_REPORTED = 1e-5


class ChargeState(StrEnum):
    """State of a charge, which never moves back."""

    RESERVED = "reserved"
    DRAWN = "drawn"
    PUBLISHED = "published"


@dataclass(frozen=True)
class Account:
    """Account of one cohort for one privacy unit and one adjacency.

    The budgets of a cohort's accounts do not add up, because epsilon bounds how well neighbouring
    cohorts can be distinguished and every account has other neighbours. A label release protects no
    genotype at all, so no finite cost in a full account would be correct. One bound exists, which
    the ledger leaves to the custodian: a full release also protects phenotypes, so phenotypes are
    protected with the sum of mu^2 of the full and the label account. Add-remove implies replace-one
    only at twice the mu, and it requires that n is private, which replace-one may have published.
    """

    cohort: str  # keyed digest of the sample list, or the custodian's name for the cohort
    unit: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def given_name(self) -> str | None:
        """Name that the custodian gave the cohort, or None."""
        return None if _IDENTIFIER.fullmatch(self.cohort) else self.cohort

    @property
    def short_name(self) -> str:
        """Name to show the custodian: the given name, or the first 12 digits of the digest."""
        return self.given_name or self.cohort[:12]

    @property
    def description(self) -> str:
        """Short name, privacy unit and adjacency, for one line to the custodian."""
        return f"{self.short_name} ({self.unit} privacy, {self.adjacency})"

    def is_abbreviated_by(self, text: str) -> bool:
        """Return whether `text` is the cohort's name or at least 8 first digits of its identifier.

        Fewer digits are the name of another cohort.
        """
        if self.given_name is not None:
            return self.cohort == text
        return len(text) >= _SHORTEST_ABBREVIATION and self.cohort.startswith(text)


@dataclass(frozen=True)
class AccountBudget:
    """Largest amount that an account may spend."""

    epsilon: float  # total epsilon, set by the custodian or by the account's first release
    delta: float  # total delta, which never changes

    @property
    def mu_squared(self) -> float:
        """The budget as a total mu^2, which adds up over releases."""
        return release_mu(self.epsilon, self.delta) ** 2

    def mu_squared_beside(self, approximate: Cost) -> float:
        """Return the mu^2 that remains for Gaussian releases beside an approximate cost.

        The approximate epsilon and delta are subtracted, and the remainder is converted to mu^2:
        `composed_epsilon` solved for mu^2, without its margin (docs/maths/noise.md).
        """
        epsilon, delta = self.epsilon - approximate.epsilon, self.delta - approximate.delta
        if epsilon < SMALLEST_EPSILON or delta < calibration.DELTA_RANGE[0]:
            return 0.0
        return release_mu(epsilon, delta) ** 2

    def covers(self, total: Cost) -> bool:
        """Return whether the total cost of an account is within this budget."""
        if total.delta >= self.delta or total.epsilon > self.epsilon:
            return False
        return total.mu_squared <= self.mu_squared_beside(total) * (1 + _RECOMPUTED)


@dataclass(frozen=True)
class ChargeRequest:
    """Request to pay for a release, or for a part of a release with noise of its own."""

    account: Account
    # `Ledger.request_digest` of the exact statistics and the parameters of the noise.
    digest: str
    epsilon: float  # of the whole release
    delta: float  # of the whole release
    # Cost of this charge: that of the release, or a share of it. A Gaussian release costs
    # ``release_mu(epsilon, delta)^2``. A mechanism that is not mu-Gaussian, such as an amplified
    # subsample, costs the (epsilon_j, delta_j) that is proved for it. This would also hold for a
    # mechanism known only to be rho-zCDP, because rho-zCDP does not imply that mu^2 is 2 rho. The
    # product has no such mechanism.
    cost: Cost
    people_digest: str = ""  # keyed digest of the sample list; empty if it is not known
    # Keyed digests of the people's IIDs (`primo_scale.ledger.accounts`); empty if they are not
    # known, and in requests read from the ledger. Equality of requests ignores it.
    roster: bytes = field(default=b"", compare=False, repr=False)

    def problem(self) -> str | None:
        """Return why no budget could cover the request, or None.

        An epsilon or delta out of range raises a UsageError.
        """
        whole = release_mu(self.epsilon, self.delta) ** 2
        parts = (self.cost.mu_squared, self.cost.epsilon, self.cost.delta)
        if not all(math.isfinite(part) and part >= 0 for part in parts) or max(parts) == 0:
            return "has a cost that is not positive and finite"
        too_much = "costs more than its epsilon and delta"
        # Implied by the check below, which finds no epsilon for a mu^2 far above any promise.
        if self.cost.mu_squared > whole * (1 + _REPORTED):
            return too_much
        composed = calibration.composed_epsilon(self.cost, self.delta)
        return too_much if composed > self.epsilon * (1 + _REPORTED) else None


@dataclass(frozen=True)
class Charge:
    """One payment, which buys one noise."""

    id: str  # random
    request: ChargeRequest  # request that was paid for, with its cost
    state: ChargeState = ChargeState.RESERVED  # reserved, drawn or published
    # Digests of the only requests for statistics that the key may draw noise for, one for each
    # round, if the charge first bought an adjustment of phenotypes; recorded before each draw.
    bound_to: tuple[str, ...] = ()
    # UTC time of the payment, ISO 8601; empty until the charge is read from the ledger.
    reserved_at: str = ""
    # Keyed digest of the private statistics; None until the noise is recorded as drawn.
    statistics_digest: str | None = None
    # Digests of the releases published from the statistics. Every further one is post-processing.
    release_digests: tuple[str, ...] = ()
    # Keyed digest of the people's roster, which the ledger stores; empty if a version without
    # rosters made the charge.
    roster: str = ""

    def __str__(self) -> str:
        cost = self.cost
        subsampled = f" and (epsilon {cost.epsilon:g}, delta {cost.delta:g})" if cost.delta else ""
        return (
            f"{self.id}  {self.reserved_at}  {self.state:9}  epsilon {self.request.epsilon:g}  "
            f"mu^2 {cost.mu_squared:.6g}{subsampled}"
        )

    @property
    def cost(self) -> Cost:
        """Cost of the charge."""
        return self.request.cost


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Return the sum of the costs, each component rounded once."""
    listed = list(costs)
    return Cost(
        math.fsum(cost.mu_squared for cost in listed),
        math.fsum(cost.epsilon for cost in listed),
        math.fsum(cost.delta for cost in listed),
    )


@dataclass(frozen=True)
class Balance:
    """Budget of an account and the charges against it."""

    account: Account
    budget: AccountBudget  # largest amount that the account may spend
    # Charges, oldest first. Reserved ones count, because their noise may have been seen.
    charges: tuple[Charge, ...]

    def __str__(self) -> str:
        spent = spent_in_words(self.epsilon_spent, self.budget.epsilon)
        left = self.epsilon_left
        remark = " (mu^2 adds up, not epsilon)" if self.charges and left else ""
        budget = f"epsilon {spent_in_words(self.budget.epsilon)} at delta {self.budget.delta:g}"
        lines = [
            f"cohort {self.account.description}",
            f"  budget  {budget}",
            f"  spent   epsilon {spent} in {len(self.charges)} charges",
            f"  left    epsilon {left:g}{remark}",
        ]
        return "\n".join([*lines, *(f"  charge {charge}" for charge in self.charges)])

    @property
    def spent(self) -> Cost:
        """Total cost of the charges."""
        return total_cost(charge.cost for charge in self.charges)

    @property
    def epsilon_spent(self) -> float:
        """Epsilon of the composition of all charges, at the account's delta."""
        return calibration.composed_epsilon(self.spent, self.budget.delta)

    @property
    def epsilon_left(self) -> float:
        """Largest epsilon of one more Gaussian release at the account's delta.

        It is rounded down to six digits. The budget covers less of any other kind of release.
        """
        if not self.charges:
            return self.budget.epsilon
        spent = self.spent
        left = self.budget.mu_squared_beside(spent) - spent.mu_squared
        if left <= 0:
            return 0.0
        exact = calibration.epsilon_for(math.sqrt(left), self.budget.delta) / (1 - LATTICE_MARGIN)
        if exact <= 0:
            return 0.0
        digits = 5 - math.floor(math.log10(exact))
        rounded = math.floor(exact * (1 - 1e-9) * 10**digits) / 10**digits
        return rounded if rounded >= SMALLEST_EPSILON else 0.0

    def affords(self, cost: Cost) -> bool:
        """Return whether the budget covers all charges and a further cost."""
        return self.budget.covers(total_cost([*(charge.cost for charge in self.charges), cost]))


# ---- Replay of the events ------------------------------------------------------------------------


@dataclass
class History:
    """State that a sequence of events leads to.

    Attributes
    ----------
    budgets
        Budgets by account.
    charges
        Charges by identifier, oldest first.
    problems
        One line for each event that no ledger would have written.
    """

    budgets: dict[Account, AccountBudget] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def balance(self, account: Account) -> Balance:
        """Return the balance of an account that has a budget."""
        charges = (c for c in self.charges.values() if c.request.account == account)
        return Balance(account, self.budgets[account], tuple(charges))

    def charges_for(self, request: ChargeRequest) -> tuple[Charge, ...]:
        """Return the charges for the same request, oldest first."""
        return tuple(charge for charge in self.charges.values() if charge.request == request)

    def stored_charge(self, request: ChargeRequest, stored_noise: Collection[str]) -> Charge | None:
        """Return the charge in `stored_noise` that paid for the same request, or None."""
        stored = (charge for charge in self.charges_for(request) if charge.id in stored_noise)
        return next(stored, None)


def replay(events: Iterable[tuple[str, str, Mapping[str, Any]]]) -> History:
    """Recompute budgets and charges from ``(time, kind, body)`` events, oldest first."""
    history = History()
    for number, (time, kind, body) in enumerate(events, start=1):
        try:
            problem = _apply(history, time, kind, body)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            problem = f"cannot be read ({error!r})"
        if problem:
            history.problems.append(f"event {number} ({kind}): {problem}")
    return history


def reservation_as_json(charge: Charge) -> dict[str, str | float]:
    """Return the body of the event that records a new charge."""
    return {
        **asdict(charge.request.account),
        "charge": charge.id,
        "request": charge.request.digest,
        "epsilon": charge.request.epsilon,
        "delta": charge.request.delta,
        "mu_squared": charge.cost.mu_squared,
        "approximate_epsilon": charge.cost.epsilon,
        "approximate_delta": charge.cost.delta,
        "people": charge.request.people_digest,
        "roster": charge.roster,
    }


def _account_from(body: Mapping[str, Any]) -> Account:
    return Account(body["cohort"], PrivacyUnit(body["unit"]), Adjacency(body["adjacency"]))


def _apply(history: History, time: str, kind: str, body: Mapping[str, Any]) -> str | None:
    """Apply one event and return its problem, if it has one."""
    match kind:
        case "created":
            return None
        case "budget":
            return _apply_budget(history, body)
        case "reserved":
            return _apply_reservation(history, time, body)
        case "bound" | "drawn" | "published":
            return _apply_progress(history, kind, body)
    return "is of an unknown kind"


def _apply_budget(history: History, body: Mapping[str, Any]) -> str | None:
    account = _account_from(body)
    budget = AccountBudget(body["epsilon"], body["delta"])
    before = history.budgets.get(account, budget)
    history.budgets[account] = budget
    changes = before.delta != budget.delta
    return f"changes the delta of cohort {account.short_name}" if changes else None


def _apply_reservation(history: History, time: str, body: Mapping[str, Any]) -> str | None:
    account, identifier = _account_from(body), body["charge"]
    cost = Cost(body["mu_squared"], body["approximate_epsilon"], body["approximate_delta"])
    promise = body["epsilon"], body["delta"]
    request = ChargeRequest(account, body["request"], *promise, cost, body["people"])
    # Version 0.1 recorded no rosters.
    charge = Charge(identifier, request, reserved_at=time, roster=body.get("roster", ""))
    budget, known = history.budgets.get(account), identifier in history.charges
    history.charges[identifier] = charge
    if known:
        return f"reserves charge {identifier} twice"
    if budget is None:
        return f"spends from cohort {account.short_name}, which has no budget"
    if budget.delta != request.delta:
        return f"has another delta than cohort {account.short_name}"
    if problem := request.problem():
        return f"charge {identifier} {problem}"
    affordable = budget.covers(history.balance(account).spent)
    return None if affordable else f"overspends the budget of cohort {account.short_name}"


def _apply_progress(history: History, kind: str, body: Mapping[str, Any]) -> str | None:
    charge = history.charges.get(body["charge"])
    if charge is None:
        return f"charge {body['charge']} was never reserved"
    is_reserved = charge.state is ChargeState.RESERVED
    if kind == "bound":
        changed = replace(charge, bound_to=(*charge.bound_to, body["request"]))
        in_order = is_reserved and body.get("number", 0) == len(charge.bound_to)
        problem = f"the key of charge {charge.id} serves two requests"
    elif kind == "drawn":
        changed = replace(charge, state=ChargeState.DRAWN, statistics_digest=body["digest"])
        in_order, problem = is_reserved, f"records a second noise for charge {charge.id}"
    else:
        releases = (*charge.release_digests, body["digest"])
        changed = replace(charge, state=ChargeState.PUBLISHED, release_digests=releases)
        in_order = not is_reserved
        problem = f"charge {charge.id} was published before its noise was recorded"
    history.charges[charge.id] = changed
    return None if in_order else problem


# ---- People --------------------------------------------------------------------------------------
#
# A roster is the sorted array of the keyed digests of the IIDs of a release's people, 8 bytes each:
# 4 MB for 500,000 people. Only collisions make it inexact: two disjoint lists of n and m people
# seem to share a person with probability below n m / 2^64, 1.4e-8 for 500,000 each.


def make_roster(individuals: Iterable[str], key: bytes) -> bytes:
    """Return the roster of people: the keyed BLAKE2b digests of their IIDs under a secret key."""
    size = ENTRY.itemsize
    digests = (blake2b(iid.encode(), digest_size=size, key=key).digest() for iid in individuals)
    return np.unique(np.frombuffer(b"".join(digests), ENTRY)).tobytes()


def find_overlap(
    history: History, request: ChargeRequest, read_roster: Callable[[str], bytes]
) -> tuple[dict[str, int], list[str]]:
    """Find the people of a request for whom other cohorts were charged.

    The result has the number of people, by other cohort, for whom that cohort was charged and the
    request's own cohort was not, and the other cohorts that the request could be charged to.
    `read_roster` returns the roster with a given digest.
    """
    if not request.roster:
        return {}, []
    rosters: dict[str, _Digests] = {}
    for charge in history.charges.values():
        if charge.roster and charge.roster not in rosters:
            rosters[charge.roster] = np.frombuffer(read_roster(charge.roster), ENTRY)
    counts = _count_shared(history, request, rosters)
    chargeable = [
        cohort
        for cohort in sorted(counts)
        if not _count_shared(
            history, replace(request, account=replace(request.account, cohort=cohort)), rosters
        )
    ]
    return counts, chargeable


def _count_shared(
    history: History, request: ChargeRequest, rosters: Mapping[str, _Digests]
) -> dict[str, int]:
    """Return the number of people, by other cohort, new to the request's own cohort."""
    people = np.frombuffer(request.roster, ENTRY)
    others: dict[str, set[str]] = {}
    for charge in history.charges.values():
        cohort = charge.request.account.cohort
        if cohort != request.account.cohort:
            others.setdefault(cohort, set()).add(charge.roster)
        elif charge.roster:
            people = np.setdiff1d(people, rosters[charge.roster], assume_unique=True)
        elif charge.request.people_digest == request.people_digest:
            return {}  # charged for the same list by a version without rosters
    counts = {
        cohort: sum(
            int(np.isin(people, rosters[digest], assume_unique=True).sum())
            for digest in digests
            if digest
        )
        for cohort, digests in others.items()
    }
    return {cohort: count for cohort, count in counts.items() if count}
