"""What the ledger answers when it refuses: one line, with the command that changes it."""

from __future__ import annotations

import shlex
from pathlib import Path

from primo_scale.errors import BudgetRefused
from primo_scale.privacy.calibration import Cost
from primo_scale.privacy.spending import Account, Balance, ReleaseRequest


def over_budget(
    path: Path, balance: Balance, *, request: ReleaseRequest, cost: Cost, lost_charges: int
) -> BudgetRefused:
    """A budget that does not cover `cost` more.

    Parameters
    ----------
    path
        The ledger.
    balance
        Of the account that was to pay.
    request
        What was asked for.
    cost
        What it, with the charges that were to follow it, would have cost.
    lost_charges
        Charges for the same request whose noise was never recorded.
    """
    spent, budget = balance.spent, balance.budget
    if spent.delta + cost.delta >= budget.delta:
        return BudgetRefused(
            "the subsampled part of this release would use up the cohort's delta",
            where=path,
            value=f"delta {cost.delta:g} on top of {spent.delta:g} spent in such parts",
            limit=f"less than delta {budget.delta:g} in all",
            remedy="Release without a subsample: that leaves delta as it is",
        )
    lost = f"Charged for interrupted runs of this release: {lost_charges}. " if lost_charges else ""
    return BudgetRefused(
        "the privacy budget does not cover this release",
        where=path,
        value=f"epsilon {request.epsilon:g}",
        limit=f"{balance.epsilon_left:g} left: {balance.epsilon_spent:.4g} spent of "
        f"{budget.epsilon:g} at delta {budget.delta:g}",
        remedy=f"{lost}Ask for less, or raise it: python -m pipelines.ledger "
        f"set-budget {_budget_options(path, request.account)} --epsilon E",
    )


def other_delta(path: Path, account: Account, *, asked: float | None, own: float) -> BudgetRefused:
    """A delta that is not the account's `own`."""
    return BudgetRefused(
        "the cohort's delta was fixed by its first budget",
        where=path,
        value=f"delta {asked!r}",
        limit=f"delta {own!r}",
        remedy=f"Ask for --delta {own!r}; what was spent: python -m pipelines.ledger show "
        f"{_cohort_options(path, account)}",
    )


def second_name(path: Path, account: Account, *, known_cohort: str) -> BudgetRefused:
    """A new `account` for people who have been charged to another cohort."""
    known = Account(known_cohort).short_name
    return BudgetRefused(
        "these people have a budget under another name",
        where="--cohort",
        value=account.short_name,
        limit=known,
        remedy=f"Give --cohort {shlex.quote(known)}; or, for other people with the same IDs, open "
        "their budget first: python -m pipelines.ledger set-budget "
        f"{_budget_options(path, account)} --epsilon E --delta D",
    )


def _cohort_options(path: Path, account: Account) -> str:
    """The options that name a ledger and a cohort on a command line."""
    return f"--ledger {shlex.quote(str(path))} --cohort {shlex.quote(account.short_name)}"


def _budget_options(path: Path, account: Account) -> str:
    """The options of `set-budget` that name an account; its defaults are left out."""
    default = Account(account.cohort)
    options = [_cohort_options(path, account)]
    if account.unit is not default.unit:
        options.append(f"--privacy {account.unit}")
    if account.adjacency is not default.adjacency:
        options.append(f"--adjacency {account.adjacency}")
    return " ".join(options)
