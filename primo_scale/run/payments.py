"""What the custodian is told of a payment, before it and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primo_scale.run.log_records import LOGGER

if TYPE_CHECKING:
    from pathlib import Path

    from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.ledger.reader import LedgerReader
    from primo_scale.ledger.spending import Account, Balance, PayingCohort
    from primo_scale.privacy.receipt import Receipt
    from primo_scale.run.design import Budget, Design

# Stands for the name that the custodian gives a cohort whose identifier is not made yet.
_NAME = "NAME"


def announce_opening(
    store: GenotypeStore, design: Design, budget: Budget, *, ledger: Path | None, cohort: str | None
) -> None:
    """Log that the release opens its cohort's budget and spends all of it, if it does.

    Parameters
    ----------
    store
        Genotypes, for the people.
    design
        Public choices of the run.
    budget
        (epsilon, delta) of the release.
    ledger, cohort
        Ledger file and name of the cohort, where not the defaults.
    """
    from primo_scale.ledger.ledger import default_ledger_path
    from primo_scale.ledger.refusals import opening_command

    path = ledger or default_ledger_path()
    account = _account_to_open(path, store, design, cohort)
    if account is None:
        return
    command = opening_command(path, account, delta=f"{budget.delta!r}")
    LOGGER.warning(
        "the cohort has no budget: this release opens one of epsilon %g at delta %g and spends all "
        "of it. To allow further releases, set a larger one first: %s%s",
        budget.epsilon, budget.delta, command,
        f"; then give --cohort {_NAME} here too" if account.cohort == _NAME else "",
    )  # fmt: skip


def _account_to_open(
    path: Path, store: GenotypeStore, design: Design, cohort: str | None
) -> Account | None:
    """Return the account that a release would open, None where its cohort has a budget."""
    from primo_scale.ledger.ledger import Ledger
    from primo_scale.ledger.spending import Account

    if not path.exists():
        return Account(cohort or _NAME, design.privacy, design.adjacency)
    with Ledger(path, read_only=True) as ledger:
        paying_cohort = paying_cohort_of(ledger, store, cohort, design.privacy, design.adjacency)
        known = {balance.account.cohort for balance in ledger.balances()}
    return None if paying_cohort.account.cohort in known else paying_cohort.account


def log_payment(what: str, receipt: Receipt, balance: Balance) -> None:
    """Say what was paid, and that a budget was opened if one was.

    To be called before interruptions are let in again, which would leave the payment unsaid.

    Parameters
    ----------
    what
        Name of the purchase in words.
    receipt
        Receipt of the purchase.
    balance
        Balance of the account that paid.
    """
    LOGGER.info("%s: %s", what, receipt.summary)
    if receipt.opened_budget:
        LOGGER.info(
            "the cohort %s had no budget: it now has epsilon %g at delta %g, for this release and "
            "no other; for more: primo-scale ledger set-budget",
            balance.account.short_name, balance.budget.epsilon, balance.budget.delta,
        )  # fmt: skip


def paying_cohort_of(
    ledger: LedgerReader,
    store: GenotypeStore,
    cohort: str | None,
    unit: PrivacyUnit,
    adjacency: Adjacency,
) -> PayingCohort:
    """Return the account that pays for a release of the people of a store.

    Parameters
    ----------
    ledger
        Ledger that holds, or will hold, the cohort's account.
    store
        Genotypes, for the people.
    cohort
        Name of the cohort, or None.
    unit, adjacency
        Privacy unit and neighbouring relation of the release.
    """
    from primo_scale.ledger.reader import find_paying_cohort

    return find_paying_cohort(
        ledger,
        store.cohort_digest,
        store.samples.individual,
        cohort,
        unit=unit,
        adjacency=adjacency,
    )
