"""Receipt of a payment, and the checks of the request before it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.ledger.history import History
from primo_scale.ledger.refusals import name_refusal, other_delta, over_budget
from primo_scale.ledger.rosters import Overlap, find_overlap
from primo_scale.ledger.spending import AccountBudget, Balance, Charge, ChargeRequest, ChargeState


@dataclass(frozen=True)
class Receipt:
    """Charge that pays for a request."""

    charge: Charge  # Its noise, or the key from which to draw it once, is stored.
    is_new: bool  # whether the charge was made now
    # Whether the account had no budget and received one of this release's (epsilon, delta). The
    # caller tells the user.
    opened_budget: bool = False
    # Earlier charges for the same request, whose noise and key are lost.
    lost: tuple[Charge, ...] = ()

    @property
    def summary(self) -> str:
        """The payment in words, for the user."""
        charge = self.charge.id
        if not self.is_new:
            return f"paid for before, with charge {charge}: its noise is used, nothing is spent"
        if any(lost.state is not ChargeState.RESERVED for lost in self.lost):
            return f"the noise that was paid for is lost: paid again, with charge {charge}"
        if self.lost:
            interrupted = f"{len(self.lost)} interrupted draws were charged too"
            return f"paid again, with charge {charge}: {interrupted}"
        return f"paid with charge {charge}"


def random_charge_id() -> str:
    """Return the identifier of a new charge, 16 random hexadecimal digits."""
    return secrets.token_hex(8)


def check_request(
    path: Path,
    history: History,
    request: ChargeRequest,
    read_roster: Callable[[str], bytes],
) -> None:
    """Refuse a request that may not be charged, or that the budget does not cover.

    `read_roster` returns the roster with a given digest. Errors are those of `Ledger.reserve`.
    """
    problem = request.problem()
    if problem:
        raise ValueError(f"the request {problem}: {request.cost}")
    account = request.account
    shared = find_overlap(history, request, read_roster) if request.roster else Overlap()
    refusal = name_refusal(path, history, request, shared)
    if refusal is not None:
        raise refusal
    if account in history.budgets:
        balance = history.balance(account)
    else:  # the charge would open a budget
        balance = Balance(account, AccountBudget(request.epsilon, request.delta), ())
    if balance.budget.delta != request.delta:
        raise other_delta(path, account, asked=request.delta, own=balance.budget.delta)
    cost = request.cost
    if not balance.affords(cost):
        lost = history.count_interrupted(request)
        raise over_budget(path, balance, request=request, cost=cost, lost_charges=lost)
