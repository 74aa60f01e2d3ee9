"""What a ledger's events add up to: budgets, charges and their states, as pure data.

The events are the only truth; everything here is recomputed from them at every use, so there is
no stored sum that could disagree with its parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from primo_scale.errors import UsageError
from primo_scale.privacy.calibration import (
    LATTICE_MARGIN,
    SMALLEST_EPSILON,
    composed_epsilon,
    epsilon_for,
    release_mu,
)
from primo_scale.privacy.sensitivity import Adjacency, PrivacyUnit

_DIGEST_LENGTH = 64
# Root finding may differ in the last digits between versions of SciPy.
_RECOMPUTED = 1e-9


class ChargeState(StrEnum):
    """How far a release has come; it never goes back."""

    RESERVED = "reserved"
    DRAWN = "drawn"
    PUBLISHED = "published"


@dataclass(frozen=True)
class Account:
    """Whose budget is spent: guarantees for other units or adjacencies never mix.

    Attributes
    ----------
    cohort
        Keyed digest of genotypes and sample list, or the custodian's name for the cohort.
    unit, adjacency
        What of a person is protected, and against which neighbours.
    """

    cohort: str
    unit: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def given_name(self) -> str | None:
        """The custodian's name for the cohort, if it has one."""
        return None if len(self.cohort) == _DIGEST_LENGTH else self.cohort

    @property
    def short_name(self) -> str:
        """What to show the custodian: a given name whole, a digest by its beginning."""
        return self.given_name or self.cohort[:12]

    def is_abbreviated_by(self, text: str) -> bool:
        """Whether `text` is the cohort's name, or the beginning of its identifier."""
        return self.cohort.startswith(text) if self.given_name is None else self.cohort == text


@dataclass(frozen=True)
class Budget:
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


@dataclass(frozen=True)
class ReleaseRequest:
    """A release to be paid for.

    Attributes
    ----------
    account
        Who pays.
    digest
        `Ledger.request_digest` of the statistics and of everything the noise depends on.
    epsilon, delta
        The guarantee asked for.
    people
        Keyed digest of the sample list; empty where it is not known.
    """

    account: Account
    digest: str
    epsilon: float
    delta: float
    people: str = ""

    @property
    def mu_squared(self) -> float:
        """What it costs: the square of the mu that (epsilon, delta) allows a mechanism."""
        return release_mu(self.epsilon, self.delta) ** 2


@dataclass(frozen=True)
class Charge:
    """One payment and the one noise it buys.

    Attributes
    ----------
    id
        Random name of the charge.
    request
        What was paid for.
    mu_squared
        What was paid.
    state
        Reserved, drawn or published.
    reserved_at
        UTC time, ISO 8601; empty until it is read back.
    statistics_digest
        Keyed digest of the private statistics, once drawn.
    release_digests
        Digests of the releases published from it (more than one is post-processing).
    """

    id: str
    request: ReleaseRequest
    mu_squared: float
    state: ChargeState = ChargeState.RESERVED
    reserved_at: str = ""
    statistics_digest: str | None = None
    release_digests: tuple[str, ...] = ()


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
    budget: Budget
    charges: tuple[Charge, ...]

    @property
    def mu_squared_spent(self) -> float:
        """Sum of what the charges cost."""
        return math.fsum(charge.mu_squared for charge in self.charges)

    @property
    def epsilon_spent(self) -> float:
        """Epsilon, at the account's delta, of all charges composed."""
        return composed_epsilon(self.mu_squared_spent, self.budget.delta)

    @property
    def epsilon_left(self) -> float:
        """The largest epsilon, to six digits and rounded down, one more release may ask for."""
        left = self.budget.mu_squared - self.mu_squared_spent
        if left <= 0:
            return 0.0
        exact = epsilon_for(math.sqrt(left), self.budget.delta) / (1 - LATTICE_MARGIN)
        if exact <= 0:
            return 0.0
        digits = 5 - math.floor(math.log10(exact))
        rounded = math.floor(exact * (1 - 1e-9) * 10**digits) / 10**digits
        return rounded if rounded >= SMALLEST_EPSILON else 0.0

    def affords(self, mu_squared: float) -> bool:
        """Whether the budget covers all charges and one more of `mu_squared`."""
        costs = [charge.mu_squared for charge in self.charges]
        return math.fsum([*costs, mu_squared]) <= self.budget.mu_squared


@dataclass
class History:
    """The state a sequence of events leads to, and what is wrong with the sequence.

    Attributes
    ----------
    budgets
        By account.
    charges
        By charge id, oldest first.
    problems
        One line for each event that no ledger would have written.
    """

    budgets: dict[Account, Budget] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def balance(self, account: Account) -> Balance:
        """The balance of an account that has a budget."""
        charges = (c for c in self.charges.values() if c.request.account == account)
        return Balance(account, self.budgets[account], tuple(charges))

    def accounts_of(self, people: str) -> set[Account]:
        """Accounts that releases of these people have been charged to."""
        requests = (charge.request for charge in self.charges.values())
        return {request.account for request in requests if people and request.people == people}

    def interrupted(self, request: ReleaseRequest) -> int:
        """Charges for the same request whose noise was never recorded."""
        return sum(
            charge.request == request and charge.state is ChargeState.RESERVED
            for charge in self.charges.values()
        )

    def charge_to_replay(
        self, request: ReleaseRequest, noise_at_hand: Collection[str]
    ) -> Charge | None:
        """A charge for the same request whose noise exists and may be used again, or None.

        One of `noise_at_hand` if it is such a charge, recorded as drawn or not; else the last one
        that was recorded as drawn.
        """
        same = [charge for charge in self.charges.values() if charge.request == request]
        for charge in same:
            if charge.id in noise_at_hand:
                return charge
        drawn = [charge for charge in same if charge.state is not ChargeState.RESERVED]
        return drawn[-1] if drawn else None


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


def account_as_json(account: Account) -> dict[str, str]:
    """The account's part of an event."""
    return {
        "cohort": account.cohort,
        "unit": account.unit.value,
        "adjacency": account.adjacency.value,
    }


def reservation_as_json(charge: Charge) -> dict[str, str | float]:
    """The event that a new charge is recorded as."""
    return {
        **account_as_json(charge.request.account),
        "charge": charge.id,
        "request": charge.request.digest,
        "epsilon": charge.request.epsilon,
        "delta": charge.request.delta,
        "mu_squared": charge.mu_squared,
        "people": charge.request.people,
    }


def _account_from(body: Mapping[str, Any]) -> Account:
    return Account(body["cohort"], PrivacyUnit(body["unit"]), Adjacency(body["adjacency"]))


def _apply(history: History, time: str, kind: str, body: Mapping[str, Any]) -> str | None:
    """Apply one event; return what is wrong with it, if anything."""
    if kind == "created":
        return None
    if kind == "budget":
        return _apply_budget(history, body)
    if kind == "reserved":
        return _apply_reservation(history, time, body)
    if kind in ("drawn", "published"):
        return _apply_progress(history, kind, body)
    return "is of an unknown kind"


def _apply_budget(history: History, body: Mapping[str, Any]) -> str | None:
    account = _account_from(body)
    before = history.budgets.get(account)
    history.budgets[account] = Budget(body["epsilon"], body["delta"])
    if before is not None and before.delta != body["delta"]:
        return f"changes the delta of cohort {account.short_name}"
    return None


def _apply_reservation(history: History, time: str, body: Mapping[str, Any]) -> str | None:
    account = _account_from(body)
    asked = (body["request"], body["epsilon"], body["delta"], body["people"])
    request = ReleaseRequest(account, *asked)
    charge = Charge(body["charge"], request, body["mu_squared"], reserved_at=time)
    budget = history.budgets.get(account)
    affordable = budget is not None and history.balance(account).affords(charge.mu_squared)
    known = charge.id in history.charges
    history.charges[charge.id] = charge
    if known:
        return f"reserves charge {charge.id} twice"
    if budget is None:
        return f"spends from cohort {account.short_name}, which has no budget"
    if budget.delta != request.delta:
        return f"has another delta than cohort {account.short_name}"
    if not math.isclose(charge.mu_squared, request.mu_squared, rel_tol=_RECOMPUTED):
        return f"charge {charge.id} costs other than its epsilon and delta"
    return None if affordable else f"overspends the budget of cohort {account.short_name}"


def _apply_progress(history: History, kind: str, body: Mapping[str, Any]) -> str | None:
    charge = history.charges.get(body["charge"])
    if charge is None:
        return f"charge {body['charge']} was never reserved"
    if kind == "drawn":
        history.charges[charge.id] = replace(
            charge, state=ChargeState.DRAWN, statistics_digest=body["digest"]
        )
        in_order = charge.state is ChargeState.RESERVED
        return None if in_order else f"a second noise for charge {charge.id}"
    history.charges[charge.id] = replace(
        charge,
        state=ChargeState.PUBLISHED,
        release_digests=(*charge.release_digests, body["digest"]),
    )
    in_order = charge.state is not ChargeState.RESERVED
    return None if in_order else f"charge {charge.id} was published before its noise was recorded"
