"""Drawing of the noise of a second round, with the key of the charge that paid for the release."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from primo_scale.accumulation.own_sums import RawOwnSums
from primo_scale.errors import InputError
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.gaussian.lattice_noise import add_lattice_noise
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.spending import ChargeState
from primo_scale.privacy.mechanism import Mechanism, SecondRound
from primo_scale.privacy.paid_statistics import PaidStatistics, record_statistics
from primo_scale.privacy.payment import Payer
from primo_scale.privacy.planning import Floats
from primo_scale.storage.files import canonical_json, read_fields, write_atomically

LABEL = "second round"


@dataclass(frozen=True)
class _Stored:
    """Document of the noisy sums."""

    values: tuple[int, ...]


def draw_second_round(
    raw: RawOwnSums, second: SecondRound, mechanism: Mechanism, paid: PaidStatistics, payer: Payer
) -> Floats:
    """Return the noisy sums of the second round, drawn once; shape (m,).

    `mechanism` is that of the first round, with the hold-out of the release. The ledger records
    which sums the key serves before it draws. The charge is recorded as drawn unless there is a
    hold-out. An InputError is raised if the key serves other sums, or if sums that were drawn are
    missing.
    """
    noise_store, charge = payer.noise_store, paid.charge
    path = noise_store.second_round_path(charge.id)
    hold_out = None if mechanism.hold_out is None else asdict(mechanism.hold_out)
    parameters = {"second_round": asdict(second), "inputs": raw.inputs, "hold_out": hold_out}
    request = payer.request(raw.sha256, parameters, mechanism.promise, mechanism.cost)
    payer.ledger.bind(charge, request, number=1)
    if charge.state is not ChargeState.RESERVED and not path.is_file():
        raise InputError(
            "the noisy sums of the second round are missing",
            where=path,
            remedy="Restore the file from a backup, or use another --work-dir, which pays again",
        )
    with noise_store.payment_explained(charge.id):
        if not path.is_file():
            source = KeystreamNoise(noise_store.open_key(charge.id))
            announce_step(PaymentStep.DRAW_STARTED)
            noisy = add_lattice_noise(raw.values, second.sigma, source=source, label=LABEL)
            stored = _Stored(tuple(noisy.tolist()))
            write_atomically(path, canonical_json(asdict(stored)))
            announce_step(PaymentStep.SECOND_ROUND_STORED)
        stored = read_fields(path, _Stored, remedy="Restore the file from a backup")
        if mechanism.hold_out is None:
            record_statistics(payer, paid.private, charge)
    return np.array(stored.values, dtype=np.float64)
