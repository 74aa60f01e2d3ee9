"""Measurement of released weights in the people held out: one noise for each charge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from primo_scale.errors import InputError
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.interruption import deferred
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.spending import ChargeState
from primo_scale.privacy.held_out_sums import NoisyHoldOut, ScoredPeople, noisy_hold_out
from primo_scale.privacy.mechanism import HoldOut
from primo_scale.privacy.paid_statistics import PaidStatistics, record_statistics
from primo_scale.privacy.payment import Payer
from primo_scale.privacy.planning import Floats
from primo_scale.storage.files import canonical_json, read_fields, write_atomically

# Threads change the last digits of weights; another version or rule changes more.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class _Stored:
    """Document of a measurement."""

    noisy: NoisyHoldOut
    weight_norms: tuple[float, ...]  # length of the weights of each phenotype that were measured


def measure_once(
    paid: PaidStatistics,
    hold_out: HoldOut,
    weight_norms: tuple[float, ...],
    score: Callable[[], ScoredPeople],
    payer: Payer,
) -> NoisyHoldOut:
    """Return the noisy sums over the people held out, and record the charge as drawn.

    They are measured and drawn once, with the key of the charge, and stored durably. A retry finds
    them, or continues with the same key. `score` may be interrupted; the same command continues.
    The weights are recognised by the length of each phenotype's. An InputError is raised if the
    noisy sums of a charge that was drawn are missing, or are of other weights.
    """
    charge, noise_store = paid.charge, payer.noise_store
    path = noise_store.hold_out_path(charge.id)
    with noise_store.payment_explained(charge.id):
        if path.is_file():
            stored = _read(path, weight_norms)
        elif charge.state is not ChargeState.RESERVED:
            raise InputError(
                "the noisy sums over the people held out are missing",
                where=path,
                remedy="Restore the file from a backup, or remove "
                f"{noise_store.statistics_path(charge.id)}: the same command then pays again",
            )
        else:
            people = score()
            with deferred():
                source = KeystreamNoise(noise_store.open_key(charge.id))
                stored = _Stored(noisy_hold_out(people, hold_out, source), weight_norms)
                write_atomically(path, canonical_json(asdict(stored)))
                announce_step(PaymentStep.HOLD_OUT_STORED)
        with deferred():
            content = canonical_json(asdict(stored.noisy))
            record_statistics(payer, paid.private, charge, held_out=content)
    return stored.noisy


def _read(path: Path, weight_norms: tuple[float, ...]) -> _Stored:
    """Return the stored measurement, unless it is of other weights."""
    stored = read_fields(path, _Stored, remedy="Restore the file from a backup")
    pairs = zip(stored.weight_norms, weight_norms, strict=False)
    if len(stored.weight_norms) != len(weight_norms) or not all(
        math.isclose(one, other, rel_tol=_ROUNDING) for one, other in pairs
    ):
        raise InputError(
            "other weights were measured with this charge",
            where=path,
            remedy="Use the version that measured them, or another --work-dir, which pays again",
        )
    return stored


def weight_norms(weights: Floats) -> tuple[float, ...]:
    """Return the length of the weights of each phenotype, given in an array of shape (d, l)."""
    return tuple(np.linalg.norm(weights, axis=0).tolist())
