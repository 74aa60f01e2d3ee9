"""The privacy ledger: every release is paid for exactly once, before its noise exists.

One SQLite file holds an append-only chain of events, the secret key of its digests, and the private
key that signs releases. The states of a charge are reserved, drawn and published, in this order. A
retry of a request whose noise, or its key, is stored gets the same charge back. A request whose
noise and key are lost pays again, because its noise may have been seen. Therefore no charge ever
has two noises.

The ledger cannot detect that the file was replaced by an older copy, which forgets later charges,
or that somebody with the keys of the file rewrote the chain. Keep one ledger on a local disk, and
compare it with the releases (``verify --ledger``), or its head with one that was noted elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from primo_scale.errors import InputError, UsageError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.ledger.history import History, reservation_as_json
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.reader import LedgerReader
from primo_scale.ledger.refusals import other_delta
from primo_scale.ledger.reservation import Receipt, check_request, random_charge_id
from primo_scale.ledger.spending import Account, Balance, Charge, ChargeRequest, ChargeState

_RESERVATION = (PaymentStep.RESERVATION_WRITTEN, PaymentStep.RESERVATION_COMMITTED)
_DRAW_RECORD = (PaymentStep.DRAW_RECORD_WRITTEN, PaymentStep.DRAW_RECORD_COMMITTED)
_PUBLICATION_RECORD = (
    PaymentStep.PUBLICATION_RECORD_WRITTEN,
    PaymentStep.PUBLICATION_RECORD_COMMITTED,
)


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


class Ledger(LedgerReader):
    """Open ledger from which releases are paid; parameters and errors as for `LedgerReader`."""

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
        with self._transaction(_RESERVATION) as history:
            paid = history.stored_charge(request, stored_noise)
            if paid is not None:
                return Receipt(paid, is_new=False)
            return self._charge(history, request, new_charge)

    def bind(self, charge: Charge, request: ChargeRequest, number: int = 0) -> None:
        """Record which statistics the key of an adjustment will also draw noise for.

        `number` is that of the round, 0 for the first, whose statistics are bound in order.
        The record is durable when this returns. With one noise on two statistics, their exact
        difference would show. An unknown charge, and one bound to another request, raise an
        InputError.
        """
        with self._transaction() as history:
            known = self._find(history, charge)
            if len(known.bound_to) == number and known.state is ChargeState.RESERVED:
                body = {"charge": charge.id, "request": request.digest}
                self._log.append("bound", {**body, "number": number} if number else body)
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
        with self._transaction(_DRAW_RECORD) as history:
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
        """Record a release made from the private statistics of a charge, unless it is recorded.

        An unknown charge, or one whose noise was never recorded, raises an InputError.
        """
        with self._transaction(_PUBLICATION_RECORD) as history:
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
        """Set the largest amount that an existing or new account may spend.

        If epsilon is below what was spent, no further release is allowed. A new account needs a
        delta, and keeps it: another one raises BudgetRefused. A UsageError is raised if a parameter
        is out of range or missing.
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

    def _charge(
        self,
        history: History,
        request: ChargeRequest,
        new_charge: Callable[[], str],
    ) -> Receipt:
        """Append the charge of a request, after the budget that the request opens, if any."""
        check_request(self.path, history, request, self._log.attachment)
        opens_budget = request.account not in history.budgets
        if opens_budget:
            self._append_budget(request.account, request.epsilon, request.delta)
        roster = self._log.attach(request.roster) if request.roster else ""
        charge = Charge(new_charge(), request, roster=roster)
        self._log.append("reserved", reservation_as_json(charge))
        lost = history.charges_for(request)
        return Receipt(charge, is_new=True, opened_budget=opens_budget, lost=lost)

    def _append_budget(self, account: Account, epsilon: float, delta: float) -> None:
        release_mu(epsilon, delta)  # refuses a budget that no release could spend
        self._log.append("budget", {**asdict(account), "epsilon": epsilon, "delta": delta})

    def _find(self, history: History, charge: Charge) -> Charge:
        if charge.id not in history.charges:
            raise InputError("no such charge", where=self.path, value=charge.id)
        return history.charges[charge.id]

    @contextmanager
    def _transaction(self, steps: Sequence[PaymentStep] = ()) -> Iterator[History]:
        """Open a transaction and yield the state of the ledger at its start.

        The first of two steps is announced before the commit, and the second after it.
        """
        with self._log.exclusively():
            yield self._checked_history()
            if steps:
                announce_step(steps[0])
        if steps:
            announce_step(steps[1])
