"""The account in the ledger that pays for a release of a cohort."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.reader import LedgerReader
from primo_scale.ledger.spending import Account


@dataclass(frozen=True)
class PayingCohort:
    """Account that pays for a release, and the people of the release.

    Attributes
    ----------
    account
        Account in the ledger.
    people_digest
        Keyed digest of the sample list. It reveals a second account for the same list.
    roster
        Keyed digests of the IIDs. They reveal a second account for any of the people.
    """

    account: Account
    people_digest: str
    roster: bytes = b""


def find_paying_cohort(
    ledger: LedgerReader,
    cohort_digest: str,
    individuals: Iterable[str],
    name: str | None,
    *,
    unit: PrivacyUnit,
    adjacency: Adjacency,
) -> PayingCohort:
    """Return the account that pays for a release of a cohort.

    Parameters
    ----------
    ledger
        Ledger that holds, or will hold, the cohort's account.
    cohort_digest
        SHA-256 digest of the sorted sample list, as hexadecimal text.
    individuals
        IIDs of the people of the release.
    name
        Name of the cohort, or None to identify it by the keyed digest of its sample list.
    unit
        Privacy unit.
    adjacency
        Neighbouring relation between cohorts.

    Raises
    ------
    UsageError
        The name matches several cohorts.
    """
    people_digest = ledger.cohort_identifier(cohort_digest)
    account = ledger.account_named(name or people_digest, unit=unit, adjacency=adjacency)
    return PayingCohort(account, people_digest, ledger.roster(individuals))
