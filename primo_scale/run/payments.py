"""Payments: the account that pays, messages to the custodian, and the charge of a release."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from primo_scale.errors import InputError
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.humanize import examples
from primo_scale.ledger.accounts import Account, Balance
from primo_scale.ledger.ledger import Ledger, Receipt, opening_command
from primo_scale.privacy import payment
from primo_scale.privacy.mechanism import Guarantee
from primo_scale.privacy.payment import Payer
from primo_scale.run import run_log, work_directory
from primo_scale.run.options import RunRequest

# Stands for the name that the custodian gives a cohort whose identifier is not made yet.
_NAME = "NAME"


def paying_cohort_of(
    ledger: Ledger, store: GenotypeStore, cohort: str | None, guarantee: Guarantee
) -> tuple[Account, str, bytes]:
    """Return the account that pays for a release of the people of a store, and their digests."""
    people = store.samples.individual
    unit, adjacency = guarantee.unit, guarantee.adjacency
    return ledger.paying_cohort(store.cohort_digest, people, cohort, unit=unit, adjacency=adjacency)


@contextmanager
def payer_of(request: RunRequest, store: GenotypeStore, guarantee: Guarantee) -> Iterator[Payer]:
    """Open the ledger of a run to pay for a release of the people of a store."""
    refuse_shared_iids(store)
    noise_store = payment.NoiseStore(request.work_dir / work_directory.NOISE)
    with payment.open_ledger(request.ledger_path, noise_store) as ledger:
        cohort = paying_cohort_of(ledger, store, request.cohort, guarantee)
        yield Payer(ledger, noise_store, *cohort)


def refuse_shared_iids(store: GenotypeStore) -> None:
    """Refuse people who share an IID: for the ledger they are one person, who has several rows."""
    counts = Counter(store.samples.individual)
    if len(counts) < store.n_samples:
        shared = [iid for iid, rows in counts.items() if rows > 1]
        raise InputError(
            "an IID is one person, whatever the FID, and has more than one row of the genotypes",
            where=store.people_file,
            value=examples(shared),
            remedy="Give other people other IIDs (plink2 --update-ids), and keep one row each "
            "(--remove)",
        )


def announce_opening(store: GenotypeStore, guarantee: Guarantee, request: RunRequest) -> None:
    """Warn if the release opens the budget of its cohort, all of which it then spends."""
    account = Account(request.cohort or _NAME, guarantee.unit, guarantee.adjacency)
    if request.ledger_path.exists():
        with Ledger(request.ledger_path, read_only=True) as ledger:
            account, *_ = paying_cohort_of(ledger, store, request.cohort, guarantee)
            if account.cohort in {balance.account.cohort for balance in ledger.balances()}:
                return
    command = opening_command(request.ledger_path, account, delta=f"{guarantee.delta!r}")
    run_log.LOGGER.warning(
        "the cohort has no budget: this release opens one of epsilon %g at delta %g and spends all "
        "of it (for more: primo-scale ledger set-budget)",
        guarantee.epsilon, guarantee.delta,
    )  # fmt: skip
    run_log.LOGGER.debug(
        "a larger budget: %s%s", command,
        f"; then give --cohort {_NAME} here too" if account.cohort == _NAME else "",
    )  # fmt: skip


def log_payment(what: str, receipt: Receipt, payer: Payer) -> Balance:
    """Log a payment, and return the balance after it.

    The caller still defers interruptions, so that none can keep the payment out of the log.
    """
    balance = payer.balance()
    level = logging.WARNING if receipt.lost else logging.INFO  # a warning of a second payment
    run_log.LOGGER.log(level, "%s: %s", what, receipt.summary)
    return balance
