"""Pay, then draw, once: the ledger and the door in the one order that is safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.ledger.cohort_account import PayingCohort
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.spending import Charge, ReleaseRequest
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.privacy.private_statistics import (
    Draw,
    PrivateStatistics,
    is_drawn,
    privatise,
    reopen_private,
)
from primo_scale.privacy.receipt import Receipt, settle
from primo_scale.privacy.subsample_use import record_use, refuse_second_use
from primo_scale.storage.block_matrices import stored_bytes


@dataclass(frozen=True)
class PaidStatistics:
    """Private statistics and what their one noise was paid with.

    Attributes
    ----------
    private
        What may be published.
    receipt
        Its charge is in the ledger, drawn or published.
    """

    private: PrivateStatistics
    receipt: Receipt


def pay_and_draw(
    raw: RawStatistics,
    mechanism: Mechanism,
    noise_store: NoiseStore,
    *,
    ledger: Ledger,
    paying_cohort: PayingCohort,
    on_block: Callable[[int, int], None],
) -> PaidStatistics:
    """Store a key, reserve the charge durably, draw its noise once, store it, record it as drawn.

    The key is durable before the charge is, so an error or a kill at any point leaves a request
    that the next call continues with the same noise and one charge. Where the key or the private
    statistics are lost from the work directory, the request pays again.

    Parameters
    ----------
    raw
        Exact statistics.
    mechanism
        Calibrated noise.
    noise_store
        Keys and private statistics of earlier charges, in the work directory.
    ledger, paying_cohort
        Where and on whose budget.
    on_block
        Called with (blocks done, blocks in all) while noise is drawn.

    Raises
    ------
    BudgetRefused
        The budget does not cover it; no noise was drawn.
    ResourceError
        The disk has no room for what would be bought.
    InputError
        What is at hand is not what the ledger recorded, or the ledger does not know it.
    """
    ledger.refuse_unknown_charges(noise_store.used_charges())
    request = _request(raw, mechanism, ledger, paying_cohort)
    replayed = ledger.replayable_charge(request, stored_noise=noise_store.charges())
    if mechanism.recipe.subsample is not None:
        refuse_second_use(noise_store, replayed)
    size = stored_bytes(raw.matrices.layout, gram_copies=mechanism.recipe.gram_copies)
    noise_store.refuse_full_disk(None if replayed is None else replayed.id, size)
    receipt = settle(ledger, request, noise_store, further_cost=Cost(0.0))
    charge = receipt.charge
    with noise_store.payment_explained(charge.id):
        private = _drawn(raw, mechanism, noise_store, charge, on_block)
        digest = ledger.keyed_digest("private statistics", private.matrices.sha256().encode())
        if charge.statistics_digest not in (None, digest):
            raise InputError(
                "the private statistics are not those that the ledger recorded",
                where=noise_store.statistics_path(charge.id),
                value=charge.id,
                remedy="Restore them from a backup, or remove them",
            )
        ledger.mark_drawn(charge, digest)
        noise_store.remove_key(charge.id)
        announce_step(PaymentStep.KEY_REMOVED)
    return PaidStatistics(private, receipt)


def charge_with_stored_noise(
    raw: RawStatistics,
    mechanism: Mechanism,
    noise_store: NoiseStore,
    *,
    ledger: Ledger,
    paying_cohort: PayingCohort,
) -> Charge | None:
    """Return the charge whose noise `pay_and_draw` would use at no cost; None: it would pay.

    Raises
    ------
    InputError
        Noise is at hand that the ledger does not know.
    """
    ledger.refuse_unknown_charges(noise_store.used_charges())
    charges = noise_store.charges()
    request = _request(raw, mechanism, ledger, paying_cohort)
    replayed = ledger.replayable_charge(request, stored_noise=charges)
    return replayed if replayed is not None and replayed.id in charges else None


def _request(
    raw: RawStatistics, mechanism: Mechanism, ledger: Ledger, paying_cohort: PayingCohort
) -> ReleaseRequest:
    promise = mechanism.promise
    digest = ledger.request_digest(
        raw.sha256, {**asdict(mechanism), "boundaries": list(raw.matrices.layout.boundaries)}
    )
    asked = (digest, promise.epsilon, promise.delta, mechanism.cost)
    return ReleaseRequest(
        paying_cohort.account, *asked, paying_cohort.people_digest, paying_cohort.roster
    )


def _drawn(
    raw: RawStatistics,
    mechanism: Mechanism,
    noise_store: NoiseStore,
    charge: Charge,
    on_block: Callable[[int, int], None],
) -> PrivateStatistics:
    """Return the private statistics of a charge: those at hand, or drawn now."""
    store = noise_store.statistics_path(charge.id)
    if is_drawn(store):
        return reopen_private(store, raw, mechanism)
    if mechanism.recipe.subsample is not None:
        record_use(noise_store, charge)
    source = KeystreamNoise(noise_store.open_key(charge.id))
    announce_step(PaymentStep.DRAW_STARTED)
    return privatise(raw, Draw(mechanism, source, store, on_block))
