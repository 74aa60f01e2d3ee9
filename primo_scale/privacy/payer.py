"""Whose budget a release is paid from."""

from __future__ import annotations

from dataclasses import dataclass

from primo_scale.privacy.ledger import Ledger
from primo_scale.privacy.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.spending import Account


@dataclass(frozen=True)
class Payer:
    """Whose budget is spent.

    Attributes
    ----------
    account
        In the ledger.
    people
        Keyed digest of the sample list, by which a second account for it is noticed.
    """

    account: Account
    people: str


def payer_of(
    ledger: Ledger,
    cohort_digest: str,
    name: str | None,
    *,
    unit: PrivacyUnit,
    adjacency: Adjacency,
) -> Payer:
    """Who pays for a release of a cohort.

    Parameters
    ----------
    ledger
        That knows the cohort, or will.
    cohort_digest
        Of the sample list.
    name
        The custodian's name for the cohort; None: it goes by its sample list.
    unit, adjacency
        What of a person is protected, and against which neighbours.

    Raises
    ------
    UsageError
        The name stands for several cohorts.
    """
    people = ledger.cohort_identifier(cohort_digest)
    account = ledger.account_named(name or people, unit=unit, adjacency=adjacency)
    return Payer(account, people)
