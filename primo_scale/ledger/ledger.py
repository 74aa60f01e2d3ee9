"""The privacy ledger: every release is paid for before its noise exists, and exactly once.

One SQLite file holds an append-only chain of events, the secret key that its digests are made
with, and the private key that releases are signed with. A charge goes reserved -> drawn ->
published. A retry of a request whose noise was recorded, or whose key is at hand, gets the same
charge back; a request whose noise and key are lost pays again, because its noise may have been
seen. So no charge ever has two noises.

What this cannot see: a copy of the file put in its place (an older copy forgets what was spent
since), and a chain that someone with the file's keys rewrote. Keep one ledger, on a local disk,
and compare its head with the one recorded in releases.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from primo_scale.errors import InputError, UsageError
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.event_log import EventLog
from primo_scale.ledger.history import History, account_as_json, replay, reservation_as_json
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.refusals import name_refusal, other_delta, over_budget, unknown_charge
from primo_scale.ledger.rosters import Overlap, make_roster, overlap
from primo_scale.ledger.spending import (
    Account,
    AccountBudget,
    Balance,
    Charge,
    ChargeState,
    ReleaseRequest,
)
from primo_scale.storage.files import canonical_json

_NOTHING = Cost(0.0)


def random_charge_id() -> str:
    """Return the name of a new charge."""
    return secrets.token_hex(8)


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
        Make an empty ledger, with new keys, where there is none.
    read_only
        Only `ask` it: the file stays as it is.

    Raises
    ------
    InputError
        No ledger there and not to be created, not a ledger, or not accessible.
    ResourceError
        The disk is full.
    """

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False) -> None:
        self.path = path
        self._log = EventLog(path, create=create and not read_only, read_only=read_only)

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

    def roster(self, individuals: Iterable[str]) -> bytes:
        """Return keyed digests of people's IIDs, by which they are recognised under any FID."""
        return make_roster(individuals, bytes.fromhex(self.keyed_digest("people", b"")))

    @property
    def public_key(self) -> str:
        """What `sign` is checked with, 64 hexadecimal digits; for publishing."""
        return self._log.public_key

    def sign(self, data: bytes) -> bytes:
        """Ed25519 signature, 64 bytes, under the ledger's own key.

        Raises
        ------
        InputError
            The key in the file is not the one that the ledger recorded.
        """
        return self._log.sign(data)

    def account_named(self, name: str, *, unit: PrivacyUnit, adjacency: Adjacency) -> Account:
        """The account for a unit and adjacency of the cohort that a name stands for.

        Parameters
        ----------
        name
            A cohort's name or at least 8 digits that its identifier begins with, by any of its
            accounts; else the name of a new cohort.
        unit, adjacency
            What of a person is protected, and against which neighbours.

        Raises
        ------
        UsageError
            It stands for several.
        """
        known = {a.cohort for a in self._history().budgets if a.is_abbreviated_by(name)}
        if len(known) > 1:
            raise UsageError("stands for several cohorts", where="--cohort", value=name)
        return Account(known.pop() if known else name, unit, adjacency)

    def request_digest(self, statistics_digest: str, public_parameters: Mapping[str, Any]) -> str:
        """Digest of what determines a noisy release: exact statistics and public parameters."""
        return self.keyed_digest(
            "request", canonical_json([statistics_digest, dict(public_parameters)])
        )

    def reserve(
        self,
        request: ReleaseRequest,
        *,
        stored_noise: Collection[str] = (),
        further_cost: Cost = _NOTHING,
        new_charge: Callable[[], str] = random_charge_id,
    ) -> Reservation:
        """Pay for a release, or find that this very release was paid for and drawn already.

        The charge is on the disk before this returns. A request that was reserved and never
        recorded as drawn is charged anew, unless its noise is at hand.

        Parameters
        ----------
        request
            What is asked for.
        stored_noise
            Charges whose private statistics, or the key that they are drawn with, lie in the work
            directory: a run may have died before `mark_drawn`.
        further_cost
            Cost of the release's other charges, not asked for yet: a budget that would not cover
            them too refuses now, while nothing is spent.
        new_charge
            Function that returns the name of a new charge. It is called once nothing refuses the
            request and before the charge is durable, so that the key of its noise can be stored.

        Raises
        ------
        UsageError
            Parameters out of range.
        BudgetRefused
            The account's budget does not cover it, its delta is another one, or these people may
            not be charged to it unless the custodian sets a budget first (`name_refusal`).
        InputError
            The ledger is damaged.
        ValueError
            The cost is none, or more than the request promises.
        """
        with self._transaction() as history:
            paid = history.replayable_charge(request, stored_noise)
            if paid is not None:
                reservation = Reservation(paid, opened_budget=False)
            else:
                reservation = self._charge(history, request, further_cost, new_charge)
            announce_step(PaymentStep.RESERVATION_WRITTEN)
        announce_step(PaymentStep.RESERVATION_COMMITTED)
        return reservation

    def reserve_again(
        self,
        request: ReleaseRequest,
        *,
        further_cost: Cost = _NOTHING,
        new_charge: Callable[[], str] = random_charge_id,
    ) -> Reservation:
        """Pay for a release whose earlier noise is lost, as if it had never been drawn.

        Raises
        ------
        UsageError, BudgetRefused, InputError, ValueError
            As for `reserve`.
        """
        with self._transaction() as history:
            reservation = self._charge(history, request, further_cost, new_charge)
            announce_step(PaymentStep.RESERVATION_WRITTEN)
        announce_step(PaymentStep.RESERVATION_COMMITTED)
        return reservation

    def ask(
        self, request: ReleaseRequest, *, stored_noise: Collection[str] = ()
    ) -> Reservation | None:
        """Return what `reserve` would answer to a new request, and change nothing.

        The answer may be asked for before the statistics exist: the request's digest is not
        looked at.

        Parameters
        ----------
        request
            Request for the whole release, with any digest.
        stored_noise
            Charges whose noise lies in the work directory.

        Returns
        -------
        Reservation or None
            None where one of the charges at hand, which then pays, may be for this request.

        Raises
        ------
        UsageError, BudgetRefused, InputError, ValueError
            As for `reserve`.
        """
        history = self._checked_history()
        for charge in history.charges.values():
            known = replace(charge.request, digest=request.digest, roster=request.roster)
            if known == request and charge.id in stored_noise:
                return None
        return self._answer(history, request, _NOTHING)

    def unknown_charges(self, charges: Collection[str]) -> frozenset[str]:
        """Return those of the charges that this ledger did not make."""
        return frozenset(charges) - self._history().charges.keys()

    def refuse_unknown_charges(self, charges: Mapping[str, Path]) -> None:
        """Refuse to go on where noise is at hand that this ledger was not paid for.

        Parameters
        ----------
        charges
            Files of the work directory, by the charge that each of them names.

        Raises
        ------
        InputError
            The ledger does not know one of the charges. Another ledger, or this one before it was
            replaced, paid for it and remembers what was spent.
        """
        unknown = sorted(self.unknown_charges(charges))
        if unknown:
            raise unknown_charge(self.path, unknown[0], charges[unknown[0]])

    def replayable_charge(
        self, request: ReleaseRequest, *, stored_noise: Collection[str] = ()
    ) -> Charge | None:
        """The charge that `reserve` would give back for nothing; None if it would charge."""
        return self._history().replayable_charge(request, stored_noise)

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
            announce_step(PaymentStep.DRAW_RECORD_WRITTEN)
        announce_step(PaymentStep.DRAW_RECORD_COMMITTED)

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
            announce_step(PaymentStep.PUBLICATION_RECORD_WRITTEN)
        announce_step(PaymentStep.PUBLICATION_RECORD_COMMITTED)

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
                raise other_delta(self.path, account, asked=delta, own=known.delta)
            chosen = known.delta if known is not None else delta
            if chosen is None:
                raise UsageError(
                    "a new budget needs a delta",
                    where="--delta",
                    value=account.description,
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
            raise InputError("no such budget", where=self.path, value=account.description)
        return history.balance(account)

    def balances(self) -> list[Balance]:
        """Every account's balance, in the order the accounts were opened."""
        history = self._history()
        return [history.balance(account) for account in history.budgets]

    def head(self) -> str:
        """Keyed digest of the last event: recorded in a release, it pins the whole chain."""
        return self._log.head()

    def verify(self) -> list[str]:
        """Recompute the chain, the keys, the budgets, every charge's path; return what is wrong.

        Lists of people are compared with the digests that the chain records.
        """
        history = self._history()
        problems = self._log.chain_problems() + history.problems
        for roster in sorted({charge.roster for charge in history.charges.values()} - {""}):
            try:
                self._log.attachment(roster)
            except InputError as error:
                problems.append(error.what)
        return problems

    def _charge(
        self,
        history: History,
        request: ReleaseRequest,
        further_cost: Cost,
        new_charge: Callable[[], str],
    ) -> Reservation:
        """Write down the budget that a request opens, if it does, and its charge."""
        answer = self._answer(history, request, further_cost)
        if answer.opened_budget:
            self._append_budget(request.account, request.epsilon, request.delta)
        roster = self._log.attach(request.roster) if request.roster else ""
        charge = Charge(new_charge(), request, roster=roster)
        self._log.append("reserved", reservation_as_json(charge))
        return replace(answer, charge=charge)

    def _answer(self, history: History, request: ReleaseRequest, further_cost: Cost) -> Reservation:
        """Return a reservation whose charge has no name yet; raise what refuses the request."""
        problem = request.problem()
        if problem:
            raise ValueError(f"the request {problem}: {request.cost}")
        account = request.account
        shared = overlap(history, request, self._log.attachment) if request.roster else Overlap()
        refusal = name_refusal(self.path, history, request, shared)
        if refusal is not None:
            raise refusal
        opened = account not in history.budgets
        if opened:
            balance = Balance(account, AccountBudget(request.epsilon, request.delta), ())
        else:
            balance = history.balance(account)
        if balance.budget.delta != request.delta:
            raise other_delta(self.path, account, asked=request.delta, own=balance.budget.delta)
        lost = history.interrupted(request)
        if not balance.affords(request.cost + further_cost):
            cost = request.cost + further_cost
            raise over_budget(self.path, balance, request=request, cost=cost, lost_charges=lost)
        return Reservation(Charge("", request), opened, lost)

    def _find(self, history: History, charge: Charge) -> Charge:
        if charge.id not in history.charges:
            raise InputError("no such charge", where=self.path, value=charge.id)
        return history.charges[charge.id]

    @contextmanager
    def _transaction(self) -> Iterator[History]:
        """Changes to the ledger, all or none, from the state they start in."""
        with self._log.exclusively():
            yield self._checked_history()

    def _checked_history(self) -> History:
        """Return the history of a ledger that is not damaged."""
        history = self._history()
        problems = self._log.chain_problems() + history.problems
        if problems:
            raise InputError(
                f"the ledger is damaged: {problems[0]}",
                where=self.path,
                remedy="Nothing is spent from it; see python -m pipelines.ledger verify",
            )
        return history

    def _append_budget(self, account: Account, epsilon: float, delta: float) -> None:
        release_mu(epsilon, delta)  # refuses what could never be spent
        self._log.append("budget", {**account_as_json(account), "epsilon": epsilon, "delta": delta})

    def _history(self) -> History:
        return replay(self._log.events())
