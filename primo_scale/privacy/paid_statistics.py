"""Drawing of the noise of statistics that are paid for, in the only safe order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.errors import InputError
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.ledger.accounts import Charge, ChargeRequest
from primo_scale.ledger.ledger import PaymentStep, announce_step
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.privacy.payment import Payer, record_drawn
from primo_scale.privacy.private_statistics import (
    Draw,
    PrivateStatistics,
    is_drawn,
    privatise,
    reopen_private,
)
from primo_scale.storage.block_matrices import stored_bytes


@dataclass(frozen=True)
class PaidStatistics:
    """Private statistics, and the charge that paid for them, which is drawn or published."""

    private: PrivateStatistics
    charge: Charge


def draw_once(
    raw: RawStatistics,
    mechanism: Mechanism,
    payer: Payer,
    reserved: str,
    *,
    on_block: Callable[[int, int], None],
    is_last: bool = True,
) -> PaidStatistics:
    """Draw the noise of statistics once, store it, and record it as drawn.

    `reserved` is the charge that paid for the release when its phenotypes were adjusted: its key
    draws the noise of one request, which the ledger records before, and no other. After an error or
    a kill at any point, the next call therefore continues with the same noise.

    `on_block` receives the number of finished blocks and the total number. If a second round or a
    hold-out follows, this draw is not the last: the charge is not yet recorded as drawn, and its
    key remains, until `record_statistics`.

    A ResourceError is raised if the disk has no space for the private statistics, and an InputError
    if the key is lost, or bound to another request, or if the stored noise is not the one that the
    ledger recorded.
    """
    noise_store, charge = payer.noise_store, _reserved(reserved, payer)
    size = stored_bytes(raw.matrices.layout, gram_copies=mechanism.recipe.gram_copies)
    noise_store.refuse_full_disk(charge, size)
    stored = noise_store.statistics_path(charge.id)
    if not (is_drawn(stored) or noise_store.has_key(charge.id)):
        raise InputError(
            "the noise that this release was paid with is lost, and its key too",
            where=stored,
            remedy="Restore it from a backup, or use another --work-dir, which pays again",
        )
    payer.ledger.bind(charge, _request(raw, mechanism, payer))
    with noise_store.payment_explained(charge.id):
        private = _drawn(raw, mechanism, noise_store, charge, on_block)
        if is_last:
            record_statistics(payer, private, charge)
    return PaidStatistics(private, charge)


def record_statistics(
    payer: Payer, private: PrivateStatistics, charge: Charge, *, held_out: bytes = b""
) -> None:
    """Record the statistics of a charge as drawn, with the bytes of its hold-out if it has one.

    Those of a second round are in the noise store, if there was one.
    """
    second = payer.noise_store.second_round_path(charge.id)
    content = private.matrices.sha256().encode() + held_out
    content += second.read_bytes() if second.is_file() else b""
    stored = payer.noise_store.statistics_path(charge.id)
    record_drawn(payer, charge, "private statistics", content, stored=stored)


def stored_charge(
    raw: RawStatistics, mechanism: Mechanism, payer: Payer, reserved: str
) -> Charge | None:
    """Return the charge whose noise `draw_once` would use, or None if it would refuse."""
    charge = _reserved(reserved, payer)
    is_free = charge.bound_to[:1] in ((), (_request(raw, mechanism, payer).digest,))
    return charge if is_free else None


def _reserved(reserved: str, payer: Payer) -> Charge:
    """Return the charge that paid when the phenotypes were adjusted."""
    for charge in payer.balance().charges:
        if charge.id == reserved:
            return charge
    raise InputError(
        "the phenotypes were adjusted and paid for from another account",
        where="--ledger, --cohort",
        value=reserved,
        remedy="Give the --ledger and --cohort that accumulate was given",
    )


def _request(raw: RawStatistics, mechanism: Mechanism, payer: Payer) -> ChargeRequest:
    parameters = asdict(mechanism)
    if mechanism.hold_out is None:
        del parameters["hold_out"]  # as in requests of earlier versions, whose noise stays valid
    else:  # the sums do not depend on the people held out, but their measurement does
        parameters["inputs"] = raw.inputs
    parameters["boundaries"] = list(raw.matrices.layout.boundaries)
    return payer.request(raw.sha256, parameters, mechanism.promise, mechanism.cost)


def _drawn(
    raw: RawStatistics,
    mechanism: Mechanism,
    noise_store: NoiseStore,
    charge: Charge,
    on_block: Callable[[int, int], None],
) -> PrivateStatistics:
    """Return the stored private statistics of a charge, or draw them."""
    store = noise_store.statistics_path(charge.id)
    if is_drawn(store):
        return reopen_private(store, raw, mechanism)
    source = KeystreamNoise(noise_store.open_key(charge.id))
    announce_step(PaymentStep.DRAW_STARTED)
    return privatise(raw, Draw(mechanism, source, store, on_block))
