"""An open ledger: its accounts, its keys, and answers that change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from primo_scale.errors import InputError, UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.event_log import EventLog
from primo_scale.ledger.history import History, replay
from primo_scale.ledger.refusals import unknown_charge
from primo_scale.ledger.reservation import check_request
from primo_scale.ledger.rosters import make_roster
from primo_scale.ledger.spending import Account, Balance, Charge, ChargeRequest, PayingCohort
from primo_scale.storage.files import canonical_json


class LedgerReader:
    """Open ledger without the operations that spend; a context manager.

    With `create`, an empty ledger with new keys is created if there is no SQLite file at `path`.
    With `read_only`, the file stays unchanged, so that only `ask` and the queries work. An
    InputError is raised if the ledger does not exist and is not created, is of another kind, or is
    not accessible, and a ResourceError if the disk is full.
    """

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False) -> None:
        self.path = path
        self._log = EventLog(path, create=create and not read_only, read_only=read_only)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._log.close()

    def keyed_digest(self, purpose: str, data: bytes) -> str:
        """Return the HMAC-SHA256 of private data under the ledger's key, as hexadecimal text.

        Without the key nobody can confirm a guess. The digest must still not be published, because
        two equal digests reveal two equal inputs. Digests of different purposes never coincide.
        """
        return self._log.keyed_digest(purpose, data)

    def cohort_identifier(self, cohort_digest: str) -> str:
        """Return the keyed digest of a sample list, which identifies a cohort without a name."""
        return self.keyed_digest("cohort", cohort_digest.encode())

    def roster(self, individuals: Iterable[str]) -> bytes:
        """Return the keyed digests of people's IIDs, which do not depend on their FIDs."""
        return make_roster(individuals, bytes.fromhex(self.keyed_digest("people", b"")))

    def request_digest(self, statistics_digest: str, public_parameters: Mapping[str, Any]) -> str:
        """Return the keyed digest of the exact statistics and the public parameters of a release.

        The two determine the law of the noisy release.
        """
        return self.keyed_digest(
            "request", canonical_json([statistics_digest, dict(public_parameters)])
        )

    @property
    def public_key(self) -> str:
        """Public key that verifies signatures, as 64 hexadecimal digits; public."""
        return self._log.public_key

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of `data` under the ledger's own key, 64 bytes.

        A key that is not the one that the ledger recorded raises an InputError.
        """
        return self._log.sign(data)

    def account_named(self, name: str, *, unit: PrivacyUnit, adjacency: Adjacency) -> Account:
        """Return the account of a named cohort for a privacy unit and an adjacency.

        `name` is that of a cohort, or at least the first 8 digits of its identifier; if it matches
        several, a UsageError is raised. Any other text is the name of a new cohort.
        """
        known = {a.cohort for a in self._history().budgets if a.is_abbreviated_by(name)}
        if len(known) > 1:
            raise UsageError("the name matches several cohorts", where="--cohort", value=name)
        return Account(known.pop() if known else name, unit, adjacency)

    def check_request(self, request: ChargeRequest, *, stored_noise: Collection[str] = ()) -> None:
        """Raise the error that `Ledger.reserve` would raise for a new request; change nothing.

        The digest of the request is ignored, so the statistics need not exist yet. Nothing is
        raised if one of the charges in `stored_noise`, those whose noise is in the work directory,
        may be for this request and would then pay.
        """
        history = self._checked_history()
        for charge in history.charges.values():
            known = replace(charge.request, digest=request.digest, roster=request.roster)
            if known == request and charge.id in stored_noise:
                return
        check_request(self.path, history, request, self._log.attachment)

    def stored_charge(self, request: ChargeRequest, stored_noise: Collection[str]) -> Charge | None:
        """Return the charge that `Ledger.reserve` would return at no cost, or None."""
        return self._history().stored_charge(request, stored_noise)

    def unknown_charges(self, charges: Collection[str]) -> frozenset[str]:
        """Return the charges that this ledger did not make."""
        return frozenset(charges) - self._history().charges.keys()

    def refuse_unknown_charges(self, charges: Mapping[str, Path]) -> None:
        """Refuse stored noise that another ledger, or an earlier state of this one, paid for.

        `charges` are the files of the work directory, by the charge that each of them names.
        """
        unknown = sorted(self.unknown_charges(charges))
        if unknown:
            raise unknown_charge(self.path, unknown[0], charges[unknown[0]])

    def balance(self, account: Account) -> Balance:
        """Return the budget of an account and the charges against it.

        An account without a budget raises an InputError.
        """
        history = self._history()
        if account not in history.budgets:
            raise InputError("no such budget", where=self.path, value=account.description)
        return history.balance(account)

    def balances(self) -> list[Balance]:
        """Return the balance of every account, in the order in which the accounts were opened."""
        history = self._history()
        return [history.balance(account) for account in history.budgets]

    def head(self) -> str:
        """Return the keyed digest of the last event, which pins the chain up to it."""
        return self._log.head()

    def verify(self) -> list[str]:
        """Recompute the chain, the keys, the budgets and all charges; return a line per problem.

        Rosters are compared with the digests that the chain records.
        """
        history = self._history()
        problems = self._log.chain_problems() + history.problems
        for roster in sorted({charge.roster for charge in history.charges.values()} - {""}):
            try:
                self._log.attachment(roster)
            except InputError as error:
                problems.append(error.what)
        return problems

    def _checked_history(self) -> History:
        """Return the history, unless the ledger is damaged."""
        history = self._history()
        problems = self._log.chain_problems() + history.problems
        if problems:
            raise InputError(
                f"the ledger is damaged: {problems[0]}",
                where=self.path,
                remedy="Nothing is spent from it; see primo-scale ledger verify",
            )
        return history

    def _history(self) -> History:
        return replay(self._log.events())


def find_paying_cohort(
    ledger: LedgerReader,
    cohort_digest: str,
    individuals: Iterable[str],
    name: str | None,
    *,
    unit: PrivacyUnit,
    adjacency: Adjacency,
) -> PayingCohort:
    """Return the account that pays for a release of a cohort, which the ledger holds or will hold.

    `cohort_digest` is the SHA-256 digest of the sorted sample list, as hexadecimal text, and
    `individuals` are the IIDs of the people. Without a name, the keyed digest of the sample list
    identifies the cohort. A name that matches several cohorts raises a UsageError.
    """
    people_digest = ledger.cohort_identifier(cohort_digest)
    account = ledger.account_named(name or people_digest, unit=unit, adjacency=adjacency)
    return PayingCohort(account, people_digest, ledger.roster(individuals))
