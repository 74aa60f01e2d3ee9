"""The privacy ledger: every release is paid for before its noise exists, and exactly once.

One SQLite file holds an append-only chain of events and the secret key that digests in releases
are made with. A charge goes reserved -> drawn -> published. A retry of a request whose noise was
recorded gets the same charge back; a request that died between reserving and recording pays
again, because its noise may have been seen. So no charge ever has two noises, and a crash can
only cost budget, never privacy.

What this cannot see: a copy of the file put in its place (an older copy forgets what was spent
since), and a chain that someone with the file's key rewrote. Keep one ledger, on a local disk,
and compare its head with the one recorded in releases.
"""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from primo_scale.errors import BudgetRefused, InputError, UsageError
from primo_scale.privacy.calibration import release_mu
from primo_scale.privacy.event_log import EventLog
from primo_scale.privacy.spending import (
    Account,
    Balance,
    Charge,
    ChargeState,
    History,
    ReleaseRequest,
    account_as_json,
    replay,
    reservation_as_json,
)
from primo_scale.storage.files import canonical_json


@dataclass(frozen=True)
class Reservation:
    """The answer to a request that the budget allows.

    Attributes
    ----------
    charge
        In state `reserved`: draw its noise, once, unless it is the one whose noise is at hand.
        In any other state its noise exists and no other may be drawn for it.
    opened_budget
        The account had no budget and got this release's (epsilon, delta): tell the user.
    lost_charges
        Earlier charges for the same request whose noise was never recorded.
    """

    charge: Charge
    opened_budget: bool
    lost_charges: int = 0


def default_ledger_path() -> Path:
    """The user's ledger: ``primo_scale/ledger.sqlite`` under the XDG state directory."""
    state = os.environ.get("XDG_STATE_HOME")
    root = Path(state) if state else Path.home() / ".local" / "state"
    return root / "primo_scale" / "ledger.sqlite"


class Ledger:
    """An open ledger; use as a context manager.

    Parameters
    ----------
    path
        The SQLite file.
    create
        Make an empty ledger, with a new key, where there is none.

    Raises
    ------
    InputError
        No ledger there and not to be created, not a ledger, or not accessible.
    ResourceError
        The disk is full.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._log = EventLog(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._log.close()

    def keyed_digest(self, purpose: str, data: bytes) -> str:
        """HMAC-SHA256 of private data under the ledger's key, hexadecimal.

        Unlike a plain digest it confirms no guess to anybody without the key. It is still not for
        publishing: two equal ones would say that two inputs are equal. `purpose` keeps digests of
        one kind from standing in for another.
        """
        return self._log.keyed_digest(purpose, data)

    def cohort_identifier(self, cohort_digest: str) -> str:
        """Keyed digest of a cohort's sample list: the name of its account unless it has one."""
        return self.keyed_digest("cohort", cohort_digest.encode())

    def account_named(self, name: str) -> Account:
        """The account that `name`, or the beginning of an identifier, stands for; else a new one.

        Raises
        ------
        UsageError
            It stands for several.
        """
        known = [a for a in self._history().budgets if a.is_abbreviated_by(name)]
        if len({account.cohort for account in known}) > 1:
            raise UsageError("stands for several cohorts", where="--cohort", value=name)
        return Account(known[0].cohort if known else name)

    def request_digest(self, statistics_digest: str, public_parameters: Mapping[str, Any]) -> str:
        """Digest of what determines a noisy release: exact statistics and public parameters."""
        return self.keyed_digest(
            "request", canonical_json([statistics_digest, dict(public_parameters)])
        )

    def reserve(
        self, request: ReleaseRequest, *, noise_at_hand: Collection[str] = ()
    ) -> Reservation:
        """Pay for a release, or find that this very release was paid for and drawn already.

        The charge is on the disk before this returns. A request that was reserved and never
        recorded as drawn is charged anew, unless its noise is at hand.

        Parameters
        ----------
        request
            What is asked for.
        noise_at_hand
            Charges whose private statistics, or the key that they are drawn with, lie in the work
            directory: a run may have died before `mark_drawn`.

        Raises
        ------
        UsageError
            Parameters out of range.
        BudgetRefused
            The account's budget does not cover it, or its delta is another one.
        InputError
            The ledger is damaged.
        """
        with self._transaction() as history:
            paid = history.charge_to_replay(request, noise_at_hand)
            if paid is not None:
                return Reservation(paid, opened_budget=False)
            return self._charge(history, request)

    def reserve_again(self, request: ReleaseRequest) -> Reservation:
        """Pay for a release whose earlier noise is lost, as if it had never been drawn.

        Raises
        ------
        UsageError, BudgetRefused, InputError
            As for `reserve`.
        """
        with self._transaction() as history:
            return self._charge(history, request)

    def mark_drawn(self, charge: Charge, statistics_digest: str) -> None:
        """Record that the charge's one noise was drawn, giving these private statistics.

        Parameters
        ----------
        charge
            In state `reserved`.
        statistics_digest
            Keyed digest of the private statistics, which are on the disk by now.

        Raises
        ------
        InputError
            The charge is unknown, or other noise was recorded for it.
        """
        with self._transaction() as history:
            known = self._find(history, charge)
            if known.state is ChargeState.RESERVED:
                self._log.append("drawn", {"charge": charge.id, "digest": statistics_digest})
            elif known.statistics_digest != statistics_digest:
                raise InputError(
                    "other noise was already drawn for this charge",
                    where=self.path,
                    value=charge.id,
                    remedy="Use the recorded statistics, or run the release again to pay anew",
                )

    def mark_published(self, charge: Charge, release_digest: str) -> None:
        """Record a release made from the charge's private statistics.

        Raises
        ------
        InputError
            The charge is unknown, or its noise was never recorded.
        """
        with self._transaction() as history:
            known = self._find(history, charge)
            if known.state is ChargeState.RESERVED:
                raise InputError(
                    "the noise of this charge was not recorded",
                    where=self.path,
                    value=charge.id,
                    remedy="Run the release again",
                )
            if release_digest not in known.release_digests:
                self._log.append("published", {"charge": charge.id, "digest": release_digest})

    def set_budget(
        self, account: Account, *, epsilon: float, delta: float | None = None
    ) -> Balance:
        """Set the most an account may spend.

        Parameters
        ----------
        account
            Existing or new.
        epsilon
            Total, below what is spent too: nothing more is allowed then.
        delta
            Needed for a new account; an existing one keeps its own.

        Raises
        ------
        UsageError
            Parameters out of range, or no delta for a new account.
        BudgetRefused
            Another delta than the account's own.
        """
        with self._transaction() as history:
            known = history.budgets.get(account)
            if known is not None and delta not in (None, known.delta):
                raise self._other_delta(account, delta, known.delta)
            chosen = known.delta if known is not None else delta
            if chosen is None:
                raise UsageError(
                    "a new cohort needs a delta",
                    where="--delta",
                    remedy="It is fixed for the life of the cohort; 1/n^2 is a common choice",
                )
            self._append_budget(account, epsilon, chosen)
        return self.balance(account)

    def balance(self, account: Account) -> Balance:
        """What an account may spend, has spent and has left.

        Raises
        ------
        InputError
            The account has no budget.
        """
        history = self._history()
        if account not in history.budgets:
            raise InputError("no such cohort", where=self.path, value=account.cohort)
        return history.balance(account)

    def balances(self) -> list[Balance]:
        """Every account's balance, in the order the accounts were opened."""
        history = self._history()
        return [history.balance(account) for account in history.budgets]

    def head(self) -> str:
        """Keyed digest of the last event: recorded in a release, it pins the whole chain."""
        return self._log.head()

    def verify(self) -> list[str]:
        """Recompute the chain, the budgets and every charge's path; return what is wrong."""
        return self._log.chain_problems() + self._history().problems

    def _charge(self, history: History, request: ReleaseRequest) -> Reservation:
        account = request.account
        opened = account not in history.budgets
        if opened:
            self._refuse_second_budget(history, request)
            self._append_budget(account, request.epsilon, request.delta)
            history = self._history()
        balance = history.balance(account)
        if balance.budget.delta != request.delta:
            raise self._other_delta(account, request.delta, balance.budget.delta)
        if not balance.affords(request.mu_squared):
            raise self._over_budget(balance, request)
        charge = Charge(secrets.token_hex(8), request, request.mu_squared)
        self._log.append("reserved", reservation_as_json(charge))
        return Reservation(charge, opened, history.interrupted(request))

    def _refuse_second_budget(self, history: History, request: ReleaseRequest) -> None:
        """Refuse to open a budget unasked for people who have been charged to another."""
        others = [
            account
            for account in history.accounts_of(request.people)
            if account.cohort != request.account.cohort
        ]
        if others:
            raise BudgetRefused(
                "these people have a budget under another name",
                where="--cohort",
                value=request.account.short_name,
                limit=others[0].short_name,
                remedy=f"Give --cohort {shlex.quote(others[0].short_name)}; or, for other people "
                "with the same IDs, open their budget first: python -m pipelines.ledger "
                f"set-budget {self._options(request.account)} --epsilon E --delta D",
            )

    def _find(self, history: History, charge: Charge) -> Charge:
        if charge.id not in history.charges:
            raise InputError("no such charge", where=self.path, value=charge.id)
        return history.charges[charge.id]

    def _over_budget(self, balance: Balance, request: ReleaseRequest) -> BudgetRefused:
        lost = self._history().interrupted(request)
        explanation = f"Charged for interrupted runs of this release: {lost}. " if lost else ""
        return BudgetRefused(
            "the privacy budget does not cover this release",
            where=self.path,
            value=f"epsilon {request.epsilon:g}",
            limit=f"{balance.epsilon_left:g} left: {balance.epsilon_spent:.4g} spent of "
            f"{balance.budget.epsilon:g} at delta {balance.budget.delta:g}",
            remedy=f"{explanation}Ask for less, or raise it: python -m pipelines.ledger "
            f"set-budget {self._options(request.account)} --epsilon E",
        )

    def _other_delta(self, account: Account, asked: float | None, own: float) -> BudgetRefused:
        return BudgetRefused(
            "the cohort's delta was fixed by its first budget",
            where=self.path,
            value=f"delta {asked!r}",
            limit=f"delta {own!r}",
            remedy=f"Ask for --delta {own!r}; what was spent: python -m pipelines.ledger show "
            f"{self._options(account)}",
        )

    @contextmanager
    def _transaction(self) -> Iterator[History]:
        """Changes to the ledger, all or none, from the state they start in."""
        with self._log.exclusively():
            history = self._history()
            problems = self._log.chain_problems() + history.problems
            if problems:
                raise InputError(
                    f"the ledger is damaged: {problems[0]}",
                    where=self.path,
                    remedy="Nothing is spent from it; see python -m pipelines.ledger verify",
                )
            yield history

    def _append_budget(self, account: Account, epsilon: float, delta: float) -> None:
        release_mu(epsilon, delta)  # refuses what could never be spent
        self._log.append("budget", {**account_as_json(account), "epsilon": epsilon, "delta": delta})

    def _history(self) -> History:
        return replay(self._log.events())

    def _options(self, account: Account) -> str:
        """The options that name this ledger and cohort on a command line."""
        return f"--ledger {shlex.quote(str(self.path))} --cohort {shlex.quote(account.short_name)}"
