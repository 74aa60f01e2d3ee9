"""Payment for one noise: who pays, and what a retry pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import Cost
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.reservation import Receipt
from primo_scale.ledger.spending import Balance, Charge, ChargeRequest, PayingCohort
from primo_scale.privacy.mechanism import Guarantee
from primo_scale.privacy.noise_store import NoiseStore


@dataclass(frozen=True)
class Payer:
    """Cohort that pays for noise, its open ledger, and the store of the noise.

    Stored noise whose charge the ledger does not know raises an InputError.
    """

    ledger: Ledger
    cohort: PayingCohort
    noise_store: NoiseStore

    def __post_init__(self) -> None:
        self.ledger.refuse_unknown_charges(self.noise_store.used_charges())

    def request(
        self, exact_digest: str, parameters: Mapping[str, Any], promise: Guarantee, cost: Cost
    ) -> ChargeRequest:
        """Return the request for noise on exact values; `parameters` are public."""
        digest = self.ledger.request_digest(exact_digest, parameters)
        return self.cohort.request(digest, promise.epsilon, promise.delta, cost)

    def stored_charge(self, request: ChargeRequest) -> Charge | None:
        """Return the charge whose noise, or noise key, is stored and serves a request, or None."""
        return self.ledger.stored_charge(request, self.noise_store.charges())

    def balance(self) -> Balance:
        """Return the balance of the paying account, which has a budget."""
        return self.ledger.balance(self.cohort.account)


@contextmanager
def open_payer(
    ledger: Path, noise_store: NoiseStore, find_cohort: Callable[[Ledger], PayingCohort]
) -> Iterator[Payer]:
    """Open the ledger that pays; it is created only if the store has no noise that was paid for."""
    with Ledger(ledger, create=not noise_store.used_charges()) as opened:
        yield Payer(opened, find_cohort(opened), noise_store)


def settle(payer: Payer, request: ChargeRequest) -> Receipt:
    """Pay for a request, unless it was paid for and its noise, or the key of its noise, is stored.

    The state of the ledger and of the noise store decides, whatever ended an earlier run:

    ==================  =========================  ============================================
    noise store         charge in the ledger       what `settle` does
    ==================  =========================  ============================================
    nothing             none                       stores a key, then pays
    unused key          none                       removes the key, stores another, then pays
    key                 reserved                   pays nothing: the key draws the same noise
    noise               in any state               pays nothing: the noise is used
    nothing             in any state               pays again: the lost noise may have been seen
    used key or noise   none                       is not reached: `Payer` refuses the ledger
    ==================  =========================  ============================================

    Errors are those of `Ledger.reserve` and `NoiseStore.create_key`.
    """
    ledger, noise_store = payer.ledger, payer.noise_store
    unpaid = ledger.unknown_charges(noise_store.unused_charges())

    def new_charge() -> str:
        charge = noise_store.create_key(unpaid)
        announce_step(PaymentStep.KEY_STORED)
        return charge

    return ledger.reserve(
        request,
        stored_noise=noise_store.charges(),
        new_charge=new_charge,
    )


def record_drawn(payer: Payer, charge: Charge, what: str, content: bytes, *, stored: Path) -> None:
    """Record that the noise of a charge is stored durably at `stored`, and remove its key.

    The ledger records the keyed digest of the `content`, for a purpose in words. An InputError is
    raised if it recorded another one, or does not know the charge.
    """
    digest = payer.ledger.keyed_digest(what, content)
    if charge.statistics_digest not in (None, digest):
        raise InputError(
            "the noisy values are not those that the ledger recorded",
            where=stored,
            value=charge.id,
            remedy="Restore them from a backup, or remove them",
        )
    payer.ledger.mark_drawn(charge, digest)
    payer.noise_store.remove_key(charge.id)
    announce_step(PaymentStep.KEY_REMOVED)
