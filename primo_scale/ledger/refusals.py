"""Refusals of the ledger: one-line errors, each with the command that resolves it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.calibration import Cost
from primo_scale.humanize import spent_in_words
from primo_scale.ledger.history import History
from primo_scale.ledger.rosters import Overlap
from primo_scale.ledger.spending import Account, Balance, ChargeRequest


def over_budget(
    path: Path, balance: Balance, *, request: ChargeRequest, cost: Cost, lost_charges: int
) -> BudgetRefused:
    """Return the refusal of a request that the budget does not cover.

    `cost` is that of the request and of the release's further charges, and `lost_charges` the
    number of charges for the same request whose noise was never recorded.
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
    spent_epsilon = spent_in_words(balance.epsilon_spent, budget.epsilon)
    lost = f"Charged for interrupted runs of this release: {lost_charges}. " if lost_charges else ""
    return BudgetRefused(
        "the privacy budget does not cover this release",
        where=path,
        value=f"epsilon {request.epsilon:g}",
        limit=f"{balance.epsilon_left:g} left: {spent_epsilon} spent of "
        f"{spent_in_words(budget.epsilon)} at delta {budget.delta:g}",
        remedy=f"{lost}Ask for less, or raise it: primo-scale ledger "
        f"set-budget {_budget_options(path, request.account)} --epsilon E",
    )


def other_delta(path: Path, account: Account, *, asked: float | None, own: float) -> BudgetRefused:
    """Return the refusal of a delta that differs from the account's own."""
    return BudgetRefused(
        "the cohort's delta was fixed by its first budget",
        where=path,
        value=f"delta {asked!r}",
        limit=f"delta {own!r}",
        remedy=f"Ask for --delta {own!r}; what was spent: primo-scale ledger show "
        f"{_cohort_options(path, account)}",
    )


def unknown_charge(path: Path, charge: str, file: Path) -> InputError:
    """Return the refusal of noise in the work directory that another ledger paid for.

    `file` is the file of the work directory that names the charge.
    """
    return InputError(
        "the ledger does not know a charge of the work directory, so what was spent on this "
        "cohort is recorded elsewhere",
        where=path,
        value=f"charge {charge} in {file}",
        remedy="Restore this ledger from a backup, or give the --ledger that paid; for a release "
        "of its own from another ledger use another --work-dir",
    )


def name_refusal(
    path: Path, history: History, request: ChargeRequest, shared: Overlap
) -> BudgetRefused | None:
    """Return the refusal of a request that may not be charged to its account, or None.

    `shared` are the people of the request, identified by the IID alone, for whom other cohorts were
    charged and this one was not; a sample list is identified by all its FIDs and IIDs. The balance
    of the account does not matter here.

    No refused release is paid under another cohort name, unit or adjacency without a decision of
    the custodian, who sets a budget in advance. For people who were charged elsewhere the decision
    is that they are other people with the same IDs. It ends with the first charge: then each of two
    lists with equal IIDs is charged to its own cohort alone. New people may be charged to any
    cohort that has a budget, because counting people who are not in the data can only overestimate
    what a person's data have cost.
    """
    account = request.account
    names = history.cohorts_of(request.people_digest)
    same_list = set() if account.cohort in names else names
    charged_elsewhere = bool(shared.shared or same_list)
    has_budget = account in history.budgets
    if charged_elsewhere and history.has_charges(account.cohort):  # its budget is for its people
        return _second_name(path, replace(account, cohort="NAME"), request, shared, same_list)
    if charged_elsewhere and not has_budget:
        return _second_name(path, account, request, shared, same_list)
    if has_budget:  # set in advance if nothing was charged to it yet
        return None
    if history.has_budget(account.cohort):  # of another unit or adjacency
        return _unopened(path, account)
    if history.has_budget(request.people_digest):  # set for this list, under its own identifier
        return _second_name(path, account, request, shared, {request.people_digest})
    return None  # people and cohort are new to the ledger: the request opens a budget


def _second_name(
    path: Path, to_open: Account, request: ChargeRequest, shared: Overlap, same_list: set[str]
) -> BudgetRefused:
    """Return the refusal of a second cohort for people for whom another cohort was charged.

    `to_open` is the account to open for other people: the requested one, unless it is in use.
    """
    chargeable = (*shared.chargeable, *sorted(same_list - shared.shared.keys()))[:1]
    names = {cohort: Account(cohort).short_name for cohort in chargeable or sorted(shared.shared)}
    known, who = ", ".join(names.values()), "these people have"
    if shared.shared and max(shared.shared.values()) < shared.n_people:
        who = "some of these people, identified by their IIDs, have"
        known = ", ".join(
            f"{name}: {shared.shared.get(cohort, shared.n_people)} of {shared.n_people}"
            for cohort, name in names.items()
        )
    give = f"Give --cohort {shlex.quote(names[chargeable[0]])}; or, for" if chargeable else "For"
    return BudgetRefused(
        f"{who} a budget under another name",
        where="--cohort",
        value=request.account.short_name,
        expected=known,
        remedy=f"{give} other people with the same IDs, open a budget of their own first: "
        f"{opening_command(path, to_open)}",
    )


def _unopened(path: Path, account: Account) -> BudgetRefused:
    """Return the refusal to open a further kind of budget for a cohort automatically."""
    return BudgetRefused(
        "the cohort has no budget for this kind of privacy, but one for another",
        where=path,
        value=account.description,
        remedy="Budgets of several kinds do not add up, so only the custodian opens a further one: "
        f"{opening_command(path, account)}",
    )


def lowered_budget(path: Path, balance: Balance) -> BudgetRefused:
    """Return the refusal to publish a paid release that a lowered budget no longer covers."""
    budget = balance.budget
    spent = spent_in_words(balance.epsilon_spent, budget.epsilon)
    return BudgetRefused(
        "the budget was lowered below what has been spent",
        where=path,
        value=f"epsilon {spent}",
        limit=f"epsilon {budget.epsilon:g}",
        remedy="Raise it again; publishing what was paid for spends nothing more: "
        f"{opening_command(path, balance.account, delta=repr(budget.delta))}",
    )


def opening_command(path: Path, account: Account, *, delta: str = "D") -> str:
    """Return the command that opens an account with a given delta and an epsilon to be filled in.

    It contains the whole cohort identifier, because an abbreviation is not known before the
    cohort's first budget.
    """
    return (
        f"primo-scale ledger set-budget --ledger {shlex.quote(str(path))} "
        f"--cohort {shlex.quote(account.cohort)} "
        f"--privacy {account.unit} --adjacency {account.adjacency} --epsilon E --delta {delta}"
    )


def _cohort_options(path: Path, account: Account) -> str:
    """Return the command-line options that name a ledger and a cohort."""
    return f"--ledger {shlex.quote(str(path))} --cohort {shlex.quote(account.short_name)}"


def _budget_options(path: Path, account: Account) -> str:
    """Return the options of `set-budget` that name an account, without the default values."""
    default = Account(account.cohort)
    options = [_cohort_options(path, account)]
    if account.unit is not default.unit:
        options.append(f"--privacy {account.unit}")
    if account.adjacency is not default.adjacency:
        options.append(f"--adjacency {account.adjacency}")
    return " ".join(options)
