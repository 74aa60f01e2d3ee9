"""Payment for private statistics and the drawing of their noise, in the only safe order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.errors import InputError
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.reservation import Receipt
from primo_scale.ledger.spending import Charge, ChargeRequest
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.privacy.payment import Payer, record_drawn, settle
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
    """Private statistics, and the receipt of their payment; its charge is drawn or published."""

    private: PrivateStatistics
    receipt: Receipt


def pay_and_draw(
    raw: RawStatistics,
    mechanism: Mechanism,
    payer: Payer,
    *,
    reserved: str | None = None,
    on_block: Callable[[int, int], None],
) -> PaidStatistics:
    """Store a key, reserve a charge, draw its noise once, store it, and record it as drawn.

    The key is durable before the charge is. After an error or a kill at any point, the next call
    therefore continues with the same noise and the same charge. If the key or the private
    statistics are lost from the work directory, the request pays again.

    `reserved` is the charge that paid for the release when its phenotypes were adjusted: its key
    draws the noise of one request, which the ledger records before, and no other.

    `on_block` receives the number of finished blocks and the total number. With a hold-out, the
    charge is not yet recorded as drawn, and its key remains, until
    `primo_scale.privacy.paid_hold_out.measure_once`.

    If the budget does not cover the release, a BudgetRefused is raised and no noise was drawn. A
    ResourceError is raised if the disk has no space for the private statistics, and an InputError
    if the stored noise is not the one that the ledger recorded.
    """
    noise_store, request = payer.noise_store, _request(raw, mechanism, payer)
    paid = payer.stored_charge(request) if reserved is None else _reserved(reserved, payer)
    if mechanism.recipe.subsample is not None:
        noise_store.refuse_second_use(paid)
    size = stored_bytes(raw.matrices.layout, gram_copies=mechanism.recipe.gram_copies)
    noise_store.refuse_full_disk(paid, size)
    if reserved is None or paid is None:
        receipt = settle(payer, request)
    else:
        receipt = Receipt(paid, is_new=False)
        if not (is_drawn(noise_store.statistics_path(paid.id)) or noise_store.has_key(paid.id)):
            raise InputError(
                "the noise that this release was paid with is lost, and its key too",
                where=noise_store.statistics_path(paid.id),
                remedy="Restore it from a backup, or use another --work-dir, which pays again",
            )
        payer.ledger.bind(paid, request)
    charge = receipt.charge
    with noise_store.payment_explained(charge.id):
        private = _drawn(raw, mechanism, noise_store, charge, on_block)
        if mechanism.hold_out is None:
            record_statistics(payer, private, charge)
    return PaidStatistics(private, receipt)


def record_statistics(
    payer: Payer, private: PrivateStatistics, charge: Charge, *, held_out: bytes = b""
) -> None:
    """Record the statistics of a charge as drawn, with the bytes of its hold-out if it has one."""
    content = private.matrices.sha256().encode() + held_out
    stored = payer.noise_store.statistics_path(charge.id)
    record_drawn(payer, charge, "private statistics", content, stored=stored)


def stored_charge(
    raw: RawStatistics, mechanism: Mechanism, payer: Payer, *, reserved: str | None = None
) -> Charge | None:
    """Return the charge whose noise `pay_and_draw` would use at no cost, or None."""
    request = _request(raw, mechanism, payer)
    if reserved is None:
        return payer.stored_charge(request)
    charge = _reserved(reserved, payer)
    return charge if charge.bound_to in (None, request.digest) else None


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
    request = payer.request(raw.sha256, parameters, mechanism.promise, mechanism.cost)
    if mechanism.recipe.subsample is None:
        return request
    return replace(request, subsample=payer.ledger.keyed_digest("subsample", raw.sha256.encode()))


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
    if mechanism.recipe.subsample is not None:
        noise_store.record_subsample_use(charge.id)
    source = KeystreamNoise(noise_store.open_key(charge.id))
    announce_step(PaymentStep.DRAW_STARTED)
    return privatise(raw, Draw(mechanism, source, store, on_block))
