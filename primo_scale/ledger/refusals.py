"""What the ledger refuses, and what it answers: one line, with the command that changes it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.calibration import Cost
from primo_scale.humanize import spent_in_words
from primo_scale.ledger.history import History
from primo_scale.ledger.rosters import Overlap
from primo_scale.ledger.spending import Account, Balance, ReleaseRequest


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
    spent_epsilon = spent_in_words(balance.epsilon_spent, budget.epsilon)
    lost = f"Charged for interrupted runs of this release: {lost_charges}. " if lost_charges else ""
    return BudgetRefused(
        "the privacy budget does not cover this release",
        where=path,
        value=f"epsilon {request.epsilon:g}",
        limit=f"{balance.epsilon_left:g} left: {spent_epsilon} spent of "
        f"{spent_in_words(budget.epsilon)} at delta {budget.delta:g}",
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


def unknown_charge(path: Path, charge: str, file: Path) -> InputError:
    """Return the refusal of noise in the work directory that another ledger was paid for.

    Parameters
    ----------
    path
        Ledger file.
    charge
        Charge that the ledger did not make.
    file
        File of the work directory that names it.
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
    path: Path, history: History, request: ReleaseRequest, shared: Overlap
) -> BudgetRefused | None:
    """Return why a request may not be charged to the account that it names, whatever is left in it.

    Two rules keep a refused release from going through under another name, unit or adjacency,
    unless the custodian says so:

    1. People for whom other cohorts were charged and this one was not are not charged to this one,
       unless its budget was set beforehand and nothing was ever charged to it: that says "other
       people who happen to have the same IDs". (A budget without any charge was always set: one
       that is opened unasked comes with its first charge.) People are the same if their sample
       lists are, or if their IIDs are, whatever the FIDs and whoever else is in the lists.
    2. A budget is opened unasked only where people and cohort are both new to the ledger, in any
       unit and adjacency.

    New people may be charged to any cohort that has a budget: a sum over more people than it is
    about is only too large.

    Parameters
    ----------
    path
        Ledger file.
    history
        Everything charged so far.
    request
        Request that is not paid for yet.
    shared
        People of the request for whom other cohorts were charged, by their IIDs.

    Returns
    -------
    BudgetRefused or None
        Error to be raised; None where the account may be charged, and opened if it is not.
    """
    account = request.account
    has_budget = account in history.budgets
    names = history.cohorts_of(request.people_digest)
    same_list = set() if account.cohort in names else names
    if shared.elsewhere or same_list:
        if history.has_charges(account.cohort):
            return _second_name(path, replace(account, cohort="NAME"), request, shared, same_list)
        if not has_budget:
            return _second_name(path, account, request, shared, same_list)
    if has_budget:
        return None
    if history.has_budget(account.cohort):
        return _unopened(path, account)
    # Set under the people's own identifier, before anything was charged to it.
    if history.has_budget(request.people_digest):
        return _second_name(path, account, request, shared, {request.people_digest})
    return None


def _second_name(
    path: Path, to_open: Account, request: ReleaseRequest, shared: Overlap, same_list: set[str]
) -> BudgetRefused:
    """Return the refusal of a second cohort for people whom the ledger knows in another.

    `to_open` is the account to open for other people: the requested one, unless it is taken.
    """
    homes = shared.homes or tuple(sorted(same_list - shared.elsewhere.keys()))
    names = {cohort: Account(cohort).short_name for cohort in homes[:1] or sorted(shared.elsewhere)}
    known, who = ", ".join(names.values()), "these people have"
    if shared.elsewhere and max(shared.elsewhere.values()) < shared.people:
        who = "some of these people, whom their IIDs tell, have"
        counts = {name: shared.elsewhere[cohort] for cohort, name in names.items()}
        known = ", ".join(f"{name}: {n} of {shared.people}" for name, n in counts.items())
    give = "For"
    if homes:
        give = f"Give --cohort {shlex.quote(names[homes[0]])}; or, for"
    return BudgetRefused(
        f"{who} a budget under another name",
        where="--cohort",
        value=request.account.short_name,
        limit=known,
        remedy=f"{give} other people with the same IDs, open a budget of their own first: "
        f"{opening_command(path, to_open)}",
    )


def _unopened(path: Path, account: Account) -> BudgetRefused:
    """An `account` without a budget, of a cohort that has one for another unit or adjacency."""
    return BudgetRefused(
        "the cohort has no budget for this kind of privacy, but one for another",
        where=path,
        value=account.description,
        remedy="Budgets of several kinds do not add, so a further one is the custodian's to open: "
        f"{opening_command(path, account)}",
    )


def lowered_budget(path: Path, balance: Balance) -> BudgetRefused:
    """Return the refusal to publish what a budget covered when it was paid, and covers no more."""
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
    """Return the command that opens an account, its cohort written out in full.

    No abbreviation of the cohort is known before its first budget.

    Parameters
    ----------
    path
        The ledger.
    account
        Account to be opened.
    delta
        Delta of the budget; the epsilon is left to the custodian.
    """
    options = [f"--ledger {shlex.quote(str(path))}", f"--cohort {shlex.quote(account.cohort)}"]
    return (
        f"python -m pipelines.ledger set-budget {' '.join(options)} "
        f"--privacy {account.unit} --adjacency {account.adjacency} --epsilon E --delta {delta}"
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
