"""The privacy ledger: every release is paid for exactly once, before its noise exists.

One SQLite file holds an append-only chain of events, the secret key of its digests, and the private
key that signs releases. The states of a charge are reserved, drawn and published, in this order. A
retry of a request whose noise, or its key, is stored gets the same charge back. A request whose
noise and key are lost pays again, because its noise may have been seen. Therefore no charge ever
has two noises.

The ledger cannot detect that the file was replaced by an older copy, which forgets later charges,
or that somebody with the keys of the file rewrote the chain. Keep one ledger on a local disk, and
compare it with the releases (``verify --ledger``), or its head with one that was noted elsewhere.

Each step of paying is announced by an audit event of the standard library. docs/privacy.md ("One
charge, one noise, one release") argues for every step what a crash after it can cost. An auditor or
a test installs a hook with `sys.addaudithook` to observe the order of the steps, or to kill the
process at a step. An event without a hook costs nothing, and a hook cannot skip a step.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from primo_scale.errors import BudgetRefused, InputError, UsageError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.humanize import spent_in_words
from primo_scale.interruption import check_before_charge
from primo_scale.ledger import accounts, event_log
from primo_scale.ledger.accounts import Account, Balance, Charge, ChargeRequest, History
from primo_scale.storage.files import canonical_json

AUDIT_EVENT = "primo_scale.step"


class PaymentStep(StrEnum):
    """Step of a payment.

    A record of the ledger is "written" inside a transaction and durable once it is "committed".
    """

    KEY_STORED = "key stored"
    RESERVATION_WRITTEN = "reservation written"
    RESERVATION_COMMITTED = "reservation committed"
    DRAW_STARTED = "draw started"
    ADJUSTMENT_STORED = "adjustment stored"
    BLOCK_WRITTEN = "block written"
    STATISTICS_STORED = "statistics stored"
    SECOND_ROUND_STORED = "second round stored"
    HOLD_OUT_STORED = "hold-out stored"
    DRAW_RECORD_WRITTEN = "draw record written"
    DRAW_RECORD_COMMITTED = "draw record committed"
    KEY_REMOVED = "key removed"
    RELEASE_STAGED = "release staged"
    RELEASE_PUBLISHED = "release published"
    PUBLICATION_RECORD_WRITTEN = "publication record written"
    PUBLICATION_RECORD_COMMITTED = "publication record committed"


def announce_step(step: PaymentStep) -> None:
    """Raise the audit event ``primo_scale.step``, whose argument is the completed step as text.

    If a signal asked the command to stop, and the reservation is written but not yet committed, an
    InterruptedRun is raised.
    """
    sys.audit(AUDIT_EVENT, step.value)
    if step is PaymentStep.RESERVATION_WRITTEN:
        check_before_charge()


@dataclass(frozen=True)
class Receipt:
    """Charge that pays for a request, whose noise, or the key to draw it once, is stored.

    Attributes
    ----------
    charge, is_new
        The charge, and whether it was made now.
    opened_budget
        Whether the account had no budget and received one of this release's (epsilon, delta).
    lost
        Earlier charges for the same request, whose noise and key are lost.
    """

    charge: Charge
    is_new: bool
    opened_budget: bool = False
    lost: tuple[Charge, ...] = ()

    @property
    def summary(self) -> str:
        """The payment in words, for the user."""
        charge = self.charge.id
        if not self.is_new:
            return f"paid for before, with charge {charge}: its noise is used, nothing is spent"
        if any(lost.state is not accounts.ChargeState.RESERVED for lost in self.lost):
            return f"the noise that was paid for is lost: paid again, with charge {charge}"
        if self.lost:
            interrupted = f"{len(self.lost)} interrupted draws were charged too"
            return f"paid again, with charge {charge}: {interrupted}"
        return f"paid with charge {charge}"


def random_charge_id() -> str:
    """Return the identifier of a new charge, 16 random hexadecimal digits."""
    return secrets.token_hex(8)


def default_ledger_path() -> Path:
    """Return the path of the user's ledger in the XDG state directory.

    A UsageError is raised if the user has no home directory.
    """
    state = os.environ.get("XDG_STATE_HOME")
    try:
        root = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise UsageError(
            "the user has no home directory", where="--ledger", remedy="Give the path of the ledger"
        ) from error
    return root / "primo_scale" / "ledger.sqlite"


class Ledger(event_log.EventLog):
    """Open ledger, from which releases are paid."""

    def cohort_identifier(self, cohort_digest: str) -> str:
        """Return the keyed digest of a sample list, which identifies a cohort without a name."""
        return self.keyed_digest("cohort", cohort_digest.encode())

    def paying_cohort(
        self,
        cohort_digest: str,
        individuals: Iterable[str],
        name: str | None,
        *,
        unit: PrivacyUnit,
        adjacency: Adjacency,
    ) -> tuple[Account, str, bytes]:
        """Return the account that pays for a release of a cohort, which the ledger will hold.

        Keyed digests of the sample list and of the IIDs follow. They reveal a second account for
        the same list, or for any of the people.

        `cohort_digest` is the SHA-256 digest of the sorted sample list, as hexadecimal text, and
        `individuals` are the IIDs of the people. Without a name, the keyed digest of the sample
        list identifies the cohort. A name that matches several cohorts raises a UsageError.
        """
        people_digest = self.cohort_identifier(cohort_digest)
        account = self.account_named(name or people_digest, unit=unit, adjacency=adjacency)
        return account, people_digest, self.roster(individuals)

    def roster(self, individuals: Iterable[str]) -> bytes:
        """Return the keyed digests of people's IIDs, which do not depend on their FIDs."""
        return accounts.make_roster(individuals, bytes.fromhex(self.keyed_digest("people", b"")))

    def request_digest(self, statistics_digest: str, public_parameters: Mapping[str, Any]) -> str:
        """Return the keyed digest of the exact statistics and the public parameters of a release.

        The two determine the law of the noisy release.
        """
        return self.keyed_digest(
            "request", canonical_json([statistics_digest, dict(public_parameters)])
        )

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
        """Raise the error that `reserve` would raise for a new request; change nothing.

        The digest of the request is ignored, so the statistics need not exist yet. Nothing is
        raised if one of the charges in `stored_noise`, those whose noise is in the work directory,
        may be for this request and would then pay.
        """
        history = self._checked_history()
        for charge in history.charges.values():
            known = replace(charge.request, digest=request.digest, roster=request.roster)
            if known == request and charge.id in stored_noise:
                return
        self._check(history, request)

    def stored_charge(self, request: ChargeRequest, stored_noise: Collection[str]) -> Charge | None:
        """Return the charge that `reserve` would return at no cost, or None."""
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
            raise InputError(
                "the ledger does not know a charge of the work directory, so what was spent on "
                "this cohort is recorded elsewhere",
                where=self.path,
                value=f"charge {unknown[0]} in {charges[unknown[0]]}",
                remedy="Restore this ledger from a backup, or give the --ledger that paid; for a "
                "release of its own from another ledger use another --work-dir",
            )

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

    def verify(self) -> list[str]:
        """Recompute the chain, the keys, the budgets and all charges; return a line per problem.

        Rosters are compared with the digests that the chain records.
        """
        history = self._history()
        problems = self.chain_problems() + history.problems
        for roster in sorted({charge.roster for charge in history.charges.values()} - {""}):
            try:
                self.attachment(roster)
            except InputError as error:
                problems.append(error.what)
        return problems

    def reserve(
        self,
        request: ChargeRequest,
        *,
        stored_noise: Collection[str] = (),
        new_charge: Callable[[], str] = random_charge_id,
    ) -> Receipt:
        """Pay for a release, unless it was paid for before and its noise is stored.

        The charge is durable when this returns.

        Parameters
        ----------
        request
            Request to be paid for.
        stored_noise
            Charges whose private statistics, or the key of whose noise, are in the work directory.
            The run that made them may have died before `mark_drawn`.
        new_charge
            Function that returns the identifier of a new charge. It is called once the request is
            allowed and before the charge is durable, so that the key of the noise can be stored.

        Raises
        ------
        UsageError
            Epsilon or delta of the request is out of range.
        BudgetRefused
            The budget of the account does not cover the request, the account has another delta, or
            the people of the request may not be charged to it (`refusals.name_refusal`).
        InputError
            The ledger is damaged.
        ValueError
            The cost is not positive, or it exceeds the request's epsilon and delta.
        """
        with self._transaction("RESERVATION") as history:
            paid = history.stored_charge(request, stored_noise)
            if paid is not None:
                return Receipt(paid, is_new=False)
            self._check(history, request)
            opens_budget = request.account not in history.budgets
            if opens_budget:
                self._append_budget(request.account, request.epsilon, request.delta)
            roster = self.attach(request.roster) if request.roster else ""
            charge = Charge(new_charge(), request, roster=roster)
            self.append("reserved", accounts.reservation_as_json(charge))
            lost = history.charges_for(request)
            return Receipt(charge, is_new=True, opened_budget=opens_budget, lost=lost)

    def bind(self, charge: Charge, request: ChargeRequest, number: int = 0) -> None:
        """Record which statistics the key of an adjustment will also draw noise for.

        `number` is that of the round, 0 for the first, whose statistics are bound in order.
        The record is durable when this returns. With one noise on two statistics, their exact
        difference would show. An unknown charge, and one bound to another request, raise an
        InputError.
        """
        with self._transaction() as history:
            known = self._find(history, charge)
            if len(known.bound_to) == number and known.state is accounts.ChargeState.RESERVED:
                body = {"charge": charge.id, "request": request.digest}
                self.append("bound", {**body, "number": number} if number else body)
            elif known.bound_to[number : number + 1] != (request.digest,):
                raise InputError(
                    "the noise of this charge is for other statistics or another method",
                    where=self.path,
                    value=charge.id,
                    remedy="Give the same inputs and options, or another --work-dir, which pays "
                    "again",
                )

    def mark_drawn(self, charge: Charge, statistics_digest: str) -> None:
        """Record that the noise of a charge was drawn, unless the same record exists.

        `statistics_digest` is the keyed digest of the private statistics, which are already
        durable. An unknown charge, or one with other noise, raises an InputError.
        """
        with self._transaction("DRAW_RECORD") as history:
            known = self._find(history, charge)
            if known.state is accounts.ChargeState.RESERVED:
                self.append("drawn", {"charge": charge.id, "digest": statistics_digest})
            elif known.statistics_digest != statistics_digest:
                raise InputError(
                    "other noise was already drawn for this charge",
                    where=self.path,
                    value=charge.id,
                    remedy="Use the recorded statistics, or run the release again to pay anew",
                )

    def mark_published(self, charge: Charge, release_digest: str) -> None:
        """Record a release made from the private statistics of a charge, unless it is recorded.

        An unknown charge, or one whose noise was never recorded, raises an InputError.
        """
        with self._transaction("PUBLICATION_RECORD") as history:
            known = self._find(history, charge)
            if known.state is accounts.ChargeState.RESERVED:
                raise InputError(
                    "the noise of this charge was not recorded",
                    where=self.path,
                    value=charge.id,
                    remedy="Run the release again",
                )
            if release_digest not in known.release_digests:
                self.append("published", {"charge": charge.id, "digest": release_digest})

    def set_budget(
        self, account: Account, *, epsilon: float, delta: float | None = None
    ) -> Balance:
        """Set the largest amount that an existing or new account may spend.

        If epsilon is below what was spent, no further release is allowed. A new account needs a
        delta, and keeps it: another one raises BudgetRefused. A UsageError is raised if a parameter
        is out of range or missing.
        """
        with self._transaction() as history:
            known = history.budgets.get(account)
            if known is not None and delta not in (None, known.delta):
                raise _other_delta(self.path, account, asked=delta, own=known.delta)
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

    def _append_budget(self, account: Account, epsilon: float, delta: float) -> None:
        release_mu(epsilon, delta)  # refuses a budget that no release could spend
        self.append("budget", {**asdict(account), "epsilon": epsilon, "delta": delta})

    def _find(self, history: History, charge: Charge) -> Charge:
        if charge.id not in history.charges:
            raise InputError("no such charge", where=self.path, value=charge.id)
        return history.charges[charge.id]

    @contextmanager
    def _transaction(self, record: str = "") -> Iterator[History]:
        """Open a transaction and yield the state of the ledger at its start.

        The step that `record` is written is announced before the commit, and the step that it is
        committed after it.
        """
        with self.exclusively():
            yield self._checked_history()
            if record:
                announce_step(PaymentStep[f"{record}_WRITTEN"])
        if record:
            announce_step(PaymentStep[f"{record}_COMMITTED"])

    def _check(self, history: History, request: ChargeRequest) -> None:
        """Refuse a request that may not be charged, or that the budget does not cover."""
        problem = request.problem()
        if problem:
            raise ValueError(f"the request {problem}: {request.cost}")
        account = request.account
        overlap = accounts.find_overlap(history, request, self.attachment)
        refusal = _name_refusal(self.path, history, request, overlap)
        if refusal is not None:
            raise refusal
        # A charge to an account without a budget would open one.
        opened = accounts.AccountBudget(request.epsilon, request.delta)
        budget = history.budgets.get(account, opened)
        if budget.delta != request.delta:
            raise _other_delta(self.path, account, asked=request.delta, own=budget.delta)
        balance = Balance(account, budget, ())
        if account in history.budgets:
            balance = history.balance(account)
        if not balance.affords(request.cost):
            raise _over_budget(self.path, history, balance, request)

    def _checked_history(self) -> History:
        """Return the history, unless the ledger is damaged."""
        history = self._history()
        problems = self.chain_problems() + history.problems
        if problems:
            raise InputError(
                f"the ledger is damaged: {problems[0]}",
                where=self.path,
                remedy="Nothing is spent from it; see primo-scale ledger verify",
            )
        return history

    def _history(self) -> History:
        return accounts.replay(self.events())


# ---- Refusals, each with the command that resolves it --------------------------------------------


def _over_budget(
    path: Path, history: History, balance: Balance, request: ChargeRequest
) -> BudgetRefused:
    """Return the refusal of a request that the budget does not cover."""
    cost = request.cost
    reserved = sum(c.state is accounts.ChargeState.RESERVED for c in history.charges_for(request))
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
    lost = f"Charged for interrupted runs of this release: {reserved}. " if reserved else ""
    return BudgetRefused(
        "the privacy budget does not cover this release",
        where=path,
        value=f"epsilon {request.epsilon:g}",
        limit=f"{balance.epsilon_left:g} left: {spent_epsilon} spent of "
        f"{spent_in_words(budget.epsilon)} at delta {budget.delta:g}",
        remedy=f"{lost}Ask for less, or raise it: "
        f"{_budget_command(path, request.account, request.account.short_name)}",
    )


def _other_delta(path: Path, account: Account, *, asked: float | None, own: float) -> BudgetRefused:
    """Return the refusal of a delta that differs from the account's own."""
    return BudgetRefused(
        "the cohort's delta was fixed by its first budget",
        where=path,
        value=f"delta {asked!r}",
        limit=f"delta {own!r}",
        remedy=f"Ask for --delta {own!r}; what was spent: primo-scale ledger show "
        f"--ledger {shlex.quote(str(path))} --cohort {shlex.quote(account.short_name)}",
    )


def _name_refusal(
    path: Path, history: History, request: ChargeRequest, overlap: tuple[dict[str, int], list[str]]
) -> BudgetRefused | None:
    """Return the refusal of a request that may not be charged to its account, or None.

    `overlap` is the result of `find_overlap`, which identifies people by the IID alone;
    a sample list is identified by all its FIDs and IIDs. The balance of the account does not matter
    here.

    No refused release is paid under another cohort name, unit or adjacency without a decision of
    the custodian, who sets a budget in advance. For people who were charged elsewhere the decision
    is that they are other people with the same IDs. It ends with the first charge: then each of two
    lists with equal IIDs is charged to its own cohort alone. New people may be charged to any
    cohort that has a budget, because counting people who are not in the data can only overestimate
    what a person's data have cost.
    """
    account, (shared, chargeable) = request.account, overlap
    charged = [charge.request for charge in history.charges.values()]
    same_people = (r for r in charged if r.people_digest == request.people_digest != "")
    names = {r.account.cohort for r in same_people}
    with_budget = {known.cohort for known in history.budgets}
    same_list = set() if account.cohort in names else names
    has_budget = account in history.budgets
    to_open = account
    if shared or same_list:
        if any(r.account.cohort == account.cohort for r in charged):  # its budget is for its people
            to_open = replace(account, cohort="NAME")
        elif has_budget:  # set in advance, because nothing was charged to it yet
            return None
    elif has_budget:
        return None
    elif account.cohort in with_budget:
        return BudgetRefused(
            "the cohort has no budget for this kind of privacy, but one for another",
            where=path,
            value=account.description,
            remedy="Budgets of several kinds do not add up, so only the custodian opens a further "
            f"one: {opening_command(path, account)}",
        )
    elif request.people_digest in with_budget:  # set for this list, under its own identifier
        same_list = {request.people_digest}
    else:
        return None  # people and cohort are new to the ledger: the request opens a budget
    offers = [*chargeable, *sorted(same_list - shared.keys())][:1]
    names_of = {cohort: Account(cohort).short_name for cohort in offers or sorted(shared)}
    people = len(request.roster) // accounts.ENTRY.itemsize
    known = (
        f"{name}: {shared[cohort]} of {people}" if cohort in shared else name
        for cohort, name in names_of.items()
    )
    give = f"Give --cohort {shlex.quote(names_of[offers[0]])}; or, for" if offers else "For"
    return BudgetRefused(
        "people of this release have a budget under another name",
        where="--cohort",
        value=account.short_name,
        expected=", ".join(known),
        remedy=f"{give} other people with the same IDs, open a budget of their own first: "
        f"{opening_command(path, to_open)}",
    )


def lowered_budget(path: Path, balance: Balance) -> BudgetRefused:
    """Return the refusal to publish a paid release that a lowered budget no longer covers."""
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
    """Return the command that opens an account with a given delta and an epsilon to be filled in.

    It contains the whole cohort identifier, because an abbreviation is not known before the
    cohort's first budget.
    """
    return f"{_budget_command(path, account, account.cohort)} --delta {delta}"


def _budget_command(path: Path, account: Account, name: str) -> str:
    return (
        f"primo-scale ledger set-budget --ledger {shlex.quote(str(path))} "
        f"--cohort {shlex.quote(name)} --privacy {account.unit} --adjacency {account.adjacency} "
        "--epsilon E"
    )
