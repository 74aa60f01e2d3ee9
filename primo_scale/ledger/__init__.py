"""Privacy ledger: budgets of cohorts, charges for releases, and a durable record of both.

`show` prints what each cohort may spend and has spent, `set_budget` changes it, and `verify`
recomputes the ledger. Each takes the path of a ledger; None stands for the user's own.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from primo_scale.errors import UsageError, errors_explained

_LOGGER = logging.getLogger("primo_scale")

if TYPE_CHECKING:
    from primo_scale.ledger.accounts import Balance
    from primo_scale.ledger.ledger import Ledger


@dataclass(frozen=True)
class LedgerState:
    """State of a ledger. PRIVATE.

    Attributes
    ----------
    path : Path
        File of the ledger.
    head : str
        Digest of its last event; a copy of it, noted elsewhere, shows later that nothing was lost.
    public_key : str
        Key with which others verify the signatures of releases. It may be published.
    balances : tuple of Balance
        Budget, charges, `epsilon_spent` and `epsilon_left` of each account.
    """

    path: Path
    head: str
    public_key: str
    balances: tuple[Balance, ...]

    def __str__(self) -> str:
        accounts = [str(balance) for balance in self.balances] or ["no cohort has a budget yet"]
        head = f"{self.path}, head {self.head}"
        return "\n".join([head, f"public key {self.public_key}", *accounts])


@errors_explained()
def show(path: str | Path | None = None, *, cohort: str | None = None) -> LedgerState:
    """Return what each cohort may spend, has spent and has left, with every charge.

    Parameters
    ----------
    path
        Ledger file; None stands for the user's own.
    cohort
        Name of the cohort to show, or 8 or more first digits of its identifier. None stands for
        all.

    Returns
    -------
    LedgerState
        Balances, which `print` shows in words.

    Raises
    ------
    InputError
        There is no ledger, or it is damaged.
    UsageError
        The ledger has no such cohort.
    """
    with _open(path) as ledger:
        balances = ledger.balances()
        shown = [b for b in balances if cohort is None or b.account.is_abbreviated_by(cohort)]
        if cohort is not None and not shown:
            known = ", ".join(balance.account.short_name for balance in balances) or "none"
            limit = f"known: {known}"
            raise UsageError("no such cohort", where="--cohort", value=cohort, limit=limit)
        return LedgerState(ledger.path, ledger.head(), ledger.public_key, tuple(shown))


@errors_explained()
def verify(path: str | Path | None = None) -> tuple[str, ...]:
    """Recompute the whole ledger.

    Parameters
    ----------
    path
        Ledger file; None stands for the user's own.

    Returns
    -------
    tuple of str
        Every problem; empty if there is none.

    Raises
    ------
    InputError
        There is no ledger, or it cannot be read.
    """
    with _open(path) as ledger:
        return tuple(ledger.verify())


@errors_explained()
def set_budget(
    *,
    epsilon: float,
    delta: float | None = None,
    cohort: str | None = None,
    unit: str = "full",
    adjacency: str = "replace-one",
    path: str | Path | None = None,
) -> Balance:
    """Set a cohort's total budget.

    A name that matches no cohort opens a budget for a new one, to be used with the same name in a
    request. Each unit and adjacency has a budget of its own. Budgets do not add up: a guarantee for
    phenotypes alone is none for genotypes.

    Parameters
    ----------
    epsilon
        Total epsilon that the cohort may spend. Below what was spent, no further release is
        allowed.
    delta
        Delta of a new budget; an existing one keeps its own.
    cohort
        Name of the cohort, or 8 or more first digits of its identifier. None stands for the only
        cohort of the ledger.
    unit, adjacency
        What is protected, ``full``, ``label`` or ``feature``, and against which neighbours,
        ``replace-one`` or ``add-remove``.
    path
        Ledger file, which is made if there is none; None stands for the user's own.

    Returns
    -------
    Balance
        Balance of the account, which `print` shows in words.

    Raises
    ------
    UsageError
        A parameter is out of range or missing, or no cohort is named and the ledger does not have
        exactly one.
    BudgetRefused
        `delta` is not that of the existing budget.
    InputError
        The ledger is damaged.
    """
    from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
    from primo_scale.storage.files import files_private

    for name, given, kind in (("unit", unit, PrivacyUnit), ("adjacency", adjacency, Adjacency)):
        if given not in list(kind):
            raise UsageError("not a valid choice", where=name, value=given, limit=", ".join(kind))
    with files_private(), _open(path, create=True) as ledger:
        known = {balance.account.cohort for balance in ledger.balances()}
        if cohort is None and len(known) != 1:
            raise UsageError(
                "name the cohort: the ledger does not hold exactly one",
                where="--cohort",
                value=f"{len(known)} cohorts",
                remedy="primo-scale ledger show lists them",
            )
        account = ledger.account_named(
            min(known) if cohort is None else cohort,
            unit=PrivacyUnit(unit),
            adjacency=Adjacency(adjacency),
        )
        balance = ledger.set_budget(account, epsilon=epsilon, delta=delta)
    if account.cohort not in known:
        _LOGGER.info("new cohort: %s", account.cohort)
    return balance


def _open(path: str | Path | None, *, create: bool = False) -> Ledger:
    from primo_scale.ledger.ledger import Ledger, default_ledger_path
    from primo_scale.storage.locations import usable_path

    file = default_ledger_path() if path is None else usable_path(path, "path")
    return Ledger(file, create=create)
