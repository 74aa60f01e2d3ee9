"""Whose budget a release is paid from."""

from __future__ import annotations

from dataclasses import dataclass

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
