"""Budgets and charges, recomputed from the events of a ledger at every use.

The events are the only stored state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.spending import (
    Account,
    AccountBudget,
    Balance,
    Charge,
    ChargeRequest,
    ChargeState,
)


@dataclass
class History:
    """State that a sequence of events leads to, and the problems of the sequence."""

    budgets: dict[Account, AccountBudget] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)  # by identifier, oldest first
    # One line for each event that no ledger would have written.
    problems: list[str] = field(default_factory=list)

    def balance(self, account: Account) -> Balance:
        """Return the balance of an account that has a budget."""
        charges = (c for c in self.charges.values() if c.request.account == account)
        return Balance(account, self.budgets[account], tuple(charges))

    def cohorts_of(self, people_digest: str) -> set[str]:
        """Return the cohorts that were charged for a sample list, in any unit and adjacency.

        `people_digest` is the keyed digest of the list; an empty one matches no cohort.
        """
        if not people_digest:
            return set()
        requests = (charge.request for charge in self.charges.values())
        return {r.account.cohort for r in requests if r.people_digest == people_digest}

    def has_budget(self, cohort: str) -> bool:
        """Return whether a cohort has a budget, in any unit and adjacency."""
        return any(account.cohort == cohort for account in self.budgets)

    def has_charges(self, cohort: str) -> bool:
        """Return whether a cohort was ever charged, in any unit and adjacency."""
        return any(c.request.account.cohort == cohort for c in self.charges.values())

    def charges_for(self, request: ChargeRequest) -> tuple[Charge, ...]:
        """Return the charges for the same request, oldest first."""
        return tuple(charge for charge in self.charges.values() if charge.request == request)

    def count_interrupted(self, request: ChargeRequest) -> int:
        """Return the number of charges for the same request whose noise was never recorded."""
        return sum(c.state is ChargeState.RESERVED for c in self.charges_for(request))

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


def _request_from(body: Mapping[str, Any]) -> ChargeRequest:
    cost = Cost(body["mu_squared"], body["approximate_epsilon"], body["approximate_delta"])
    return ChargeRequest(
        _account_from(body),
        body["request"],
        body["epsilon"],
        body["delta"],
        cost,
        body["people"],
    )


def _account_from(body: Mapping[str, Any]) -> Account:
    return Account(body["cohort"], PrivacyUnit(body["unit"]), Adjacency(body["adjacency"]))


def _apply(history: History, time: str, kind: str, body: Mapping[str, Any]) -> str | None:
    """Apply one event and return its problem, if it has one."""
    if kind == "created":
        return None
    if kind == "budget":
        return _apply_budget(history, body)
    if kind == "reserved":
        return _apply_reservation(history, time, body)
    if kind in ("bound", "drawn", "published"):
        return _apply_progress(history, kind, body)
    return "is of an unknown kind"


def _apply_budget(history: History, body: Mapping[str, Any]) -> str | None:
    account = _account_from(body)
    before = history.budgets.get(account)
    history.budgets[account] = AccountBudget(body["epsilon"], body["delta"])
    if before is not None and before.delta != body["delta"]:
        return f"changes the delta of cohort {account.short_name}"
    return None


def _apply_reservation(history: History, time: str, body: Mapping[str, Any]) -> str | None:
    request = _request_from(body)
    account = request.account
    # Version 0.1 recorded no rosters.
    charge = Charge(body["charge"], request, reserved_at=time, roster=body.get("roster", ""))
    budget = history.budgets.get(account)
    known = charge.id in history.charges
    history.charges[charge.id] = charge
    if known:
        return f"reserves charge {charge.id} twice"
    if budget is None:
        return f"spends from cohort {account.short_name}, which has no budget"
    if budget.delta != request.delta:
        return f"has another delta than cohort {account.short_name}"
    problem = request.problem()
    if problem:
        return f"charge {charge.id} {problem}"
    affordable = budget.covers(history.balance(account).spent)
    return None if affordable else f"overspends the budget of cohort {account.short_name}"


def _apply_progress(history: History, kind: str, body: Mapping[str, Any]) -> str | None:
    charge = history.charges.get(body["charge"])
    if charge is None:
        return f"charge {body['charge']} was never reserved"
    if kind == "bound":
        history.charges[charge.id] = replace(charge, bound_to=(*charge.bound_to, body["request"]))
        number = body.get("number", 0)
        in_order = charge.state is ChargeState.RESERVED and number == len(charge.bound_to)
        return None if in_order else f"the key of charge {charge.id} serves two requests"
    if kind == "drawn":
        history.charges[charge.id] = replace(
            charge, state=ChargeState.DRAWN, statistics_digest=body["digest"]
        )
        in_order = charge.state is ChargeState.RESERVED
        return None if in_order else f"records a second noise for charge {charge.id}"
    history.charges[charge.id] = replace(
        charge,
        state=ChargeState.PUBLISHED,
        release_digests=(*charge.release_digests, body["digest"]),
    )
    in_order = charge.state is not ChargeState.RESERVED
    return None if in_order else f"charge {charge.id} was published before its noise was recorded"
