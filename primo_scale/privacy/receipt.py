"""Payment for one noise, and its receipt for the custodian."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import NO_COST, Cost
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.spending import Charge, ChargeRequest, ChargeState
from primo_scale.privacy.noise_store import NoiseStore


@dataclass(frozen=True)
class Receipt:
    """Receipt of a payment."""

    # Charge in the ledger. Its noise is stored, or must be drawn once.
    charge: Charge
    opened_budget: bool  # as in `Reservation`
    summary: str  # for the user


def settle(
    ledger: Ledger,
    request: ChargeRequest,
    noise_store: NoiseStore,
    *,
    further_cost: Cost = NO_COST,
    stored: Collection[str] = (),
) -> Receipt:
    """Pay for a request, unless it was paid for and its noise is stored.

    The noise store receives the key of a new charge. `further_cost` is the cost of the release's
    other charges, and `stored` further charges whose results are in the work directory. Errors are
    those of `Ledger.reserve` and `NoiseStore.create_key`.
    """
    charges = noise_store.charges().union(stored)
    unpaid = ledger.unknown_charges(noise_store.unused_charges())

    def new_charge() -> str:
        charge = noise_store.create_key(unpaid)
        announce_step(PaymentStep.KEY_STORED)
        return charge

    reservation = ledger.reserve(
        request, stored_noise=charges, further_cost=further_cost, new_charge=new_charge
    )
    charge = reservation.charge
    if charge.id in charges:
        summary = f"paid for before, with charge {charge.id}: its noise is used, nothing is spent"
    elif charge.state is not ChargeState.RESERVED:
        reservation = ledger.reserve_again(
            request, further_cost=further_cost, new_charge=new_charge
        )
        charge = reservation.charge
        summary = f"the noise that was paid for is lost: paid again, with charge {charge.id}"
    elif reservation.lost_charges:
        lost = reservation.lost_charges
        summary = f"paid again, with charge {charge.id}: {lost} interrupted draws were charged too"
    else:
        summary = f"paid with charge {charge.id}"
    return Receipt(charge, reservation.opened_budget, summary)


def record_drawn(
    ledger: Ledger, charge: Charge, digest: str, noise_store: NoiseStore, *, stored: Path
) -> None:
    """Record that the noise of a charge is stored durably at `stored`, and remove its key.

    `digest` is the keyed digest of what is stored. An InputError is raised if the ledger recorded
    another one, or does not know the charge.
    """
    if charge.statistics_digest not in (None, digest):
        raise InputError(
            "the noisy values are not those that the ledger recorded",
            where=stored,
            value=charge.id,
            remedy="Restore them from a backup, or remove them",
        )
    ledger.mark_drawn(charge, digest)
    noise_store.remove_key(charge.id)
    announce_step(PaymentStep.KEY_REMOVED)
