"""Paying for one noise, or finding it paid for, and what the custodian is to be told of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from primo_scale.privacy.calibration import Cost
from primo_scale.privacy.ledger import Ledger
from primo_scale.privacy.spending import Charge, ChargeState, ReleaseRequest


@dataclass(frozen=True)
class Receipt:
    """A charge that has been paid.

    Attributes
    ----------
    charge
        In the ledger; its noise is at hand, or to be drawn now, once.
    opened_budget
        The account had no budget and got this release's: tell the user.
    history
        What was paid, in words for the user.
    """

    charge: Charge
    opened_budget: bool
    history: str


def settle(
    ledger: Ledger, request: ReleaseRequest, *, noise_at_hand: Collection[str], to_follow: Cost
) -> Receipt:
    """Pay for a request, unless the noise that it was paid for with is at hand.

    Parameters
    ----------
    ledger, request
        Where, and what for.
    noise_at_hand, to_follow
        As for `Ledger.reserve`.

    Raises
    ------
    UsageError, BudgetRefused, InputError, ValueError
        As for `Ledger.reserve`.
    """
    reservation = ledger.reserve(request, noise_at_hand=noise_at_hand, to_follow=to_follow)
    charge = reservation.charge
    if charge.id in noise_at_hand:
        history = f"paid for before, with charge {charge.id}: its noise is used, nothing is spent"
    elif charge.state is not ChargeState.RESERVED:
        reservation = ledger.reserve_again(request, to_follow=to_follow)
        charge = reservation.charge
        history = f"the noise that was paid for is lost: paid again, with charge {charge.id}"
    elif reservation.lost_charges:
        lost = reservation.lost_charges
        history = f"paid again, with charge {charge.id}: {lost} interrupted draws were charged too"
    else:
        history = f"paid with charge {charge.id}"
    return Receipt(charge, reservation.opened_budget, history)
