"""Refusal to use a subsample for a second release.

Amplification is proved for one fresh subsample per charge: two noisy X'X of the same subsample
reveal more than their charges account for (docs/maths/subsampling.md, Theorem 2). The charge of the
release that a subsample served is recorded in the work directory before its noise is drawn. The
record must be durable, so it is on a local disk even if the statistics are in an object store.
"""

from __future__ import annotations

from primo_scale.errors import InputError
from primo_scale.ledger.spending import Charge
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.storage.files import write_atomically


def refuse_second_use(noise_store: NoiseStore, replayed: Charge | None) -> None:
    """Refuse a second release from a subsample; allow to continue the release that it serves.

    Parameters
    ----------
    noise_store
        Noise store of the work directory with the statistics of the subsample.
    replayed
        Charge that the ledger would replay for the request, or None.

    Raises
    ------
    InputError
        The subsample has served another release, or the noise of its release is lost.
    """
    charges = noise_store.charges()
    served = {
        charge
        for charge, path in noise_store.used_charges().items()
        if path != noise_store.moments_path
    }
    continued = {replayed.id} if replayed is not None and replayed.id in charges else set()
    if served - continued or (replayed is not None and not continued):
        raise InputError(
            "the subsample has served a release already",
            where=noise_store.directory.parent,
            value=", ".join(sorted(served)) or (replayed.id if replayed else None),
            remedy="Draw a fresh subsample: run with another --work-dir",
        )


def record_use(noise_store: NoiseStore, charge: Charge) -> None:
    """Record durably the charge that the subsample serves, before its noise is drawn."""
    write_atomically(noise_store.subsample_use_path, charge.id.encode())
