"""Pay, then draw, once: the ledger and the door in the one order that is safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from primo_scale.accumulate.statistics import RawStatistics
from primo_scale.errors import InputError
from primo_scale.privacy.ledger import Ledger
from primo_scale.privacy.mechanism import GramMechanism
from primo_scale.privacy.private_statistics import (
    PrivateStatistics,
    charge_at_hand,
    privatise,
    reopen_private,
)
from primo_scale.privacy.spending import Account, Charge, ChargeState, ReleaseRequest


@dataclass(frozen=True)
class PaidStatistics:
    """Private statistics and the charge that their one noise was paid with.

    Attributes
    ----------
    private
        What may be published.
    charge
        In the ledger, drawn or published.
    opened_budget
        The cohort had no budget and got this release's: tell the user.
    """

    private: PrivateStatistics
    charge: Charge
    opened_budget: bool


def pay_and_draw(
    raw: RawStatistics,
    mechanism: GramMechanism,
    path: Path,
    *,
    ledger: Ledger,
    account: Account,
    on_block: Callable[[int, int], None],
) -> PaidStatistics:
    """Reserve the charge durably, draw its noise once, store the result, record it as drawn.

    The same request again, with what it drew still at `path`, gives the same private statistics
    at no further cost; where they are lost, it pays again.

    Parameters
    ----------
    raw
        Exact statistics.
    mechanism
        Calibrated noise.
    path
        Store of the private statistics in the work directory.
    ledger, account
        Where and on whose budget.
    on_block
        Called with (blocks done, blocks in all) while noise is drawn.

    Raises
    ------
    BudgetRefused
        The budget does not cover it; no noise was drawn.
    InputError
        What lies at `path` is not what the ledger recorded.
    """
    digest = ledger.request_digest(
        raw.sha256, {**asdict(mechanism), "boundaries": list(raw.matrices.layout.boundaries)}
    )
    request = ReleaseRequest(account, digest, mechanism.epsilon, mechanism.delta)
    at_hand = charge_at_hand(path)
    reservation = ledger.reserve(request, noise_at_hand=at_hand)
    charge = reservation.charge
    if charge.id != at_hand and charge.state is not ChargeState.RESERVED:
        reservation = ledger.reserve_again(request)  # the noise it paid for is lost
        charge = reservation.charge
    if charge.id == at_hand:
        private = reopen_private(path, raw, mechanism)
    else:
        private = privatise(raw, mechanism, path, charge.id, on_block)
    drawn = ledger.keyed_digest("private statistics", private.matrices.sha256().encode())
    if charge.statistics_digest not in (None, drawn):
        raise InputError(
            "the private statistics are not those that the ledger recorded",
            where=path,
            value=charge.id,
            remedy="Remove them; the same command then pays for new ones",
        )
    ledger.mark_drawn(charge, drawn)
    return PaidStatistics(private, charge, reservation.opened_budget)
