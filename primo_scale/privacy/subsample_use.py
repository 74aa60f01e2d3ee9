"""One subsample, one release.

Amplification is proved for a fresh subsample a charge: two noisy X'X of the same subsample would
say more together than their charges admit. The charge that a subsample served is written to the
work directory before its noise is drawn, and stays there. It has to be durable, so it lies on a
disk wherever the statistics lie.
"""

from __future__ import annotations

from primo_scale.errors import InputError
from primo_scale.ledger.spending import Charge
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.storage.files import write_atomically


def refuse_second_use(noise_store: NoiseStore, replayed: Charge | None) -> None:
    """Refuse to draw again from a subsample, but for continuing the one release that it serves.

    Parameters
    ----------
    noise_store
        Of the work directory whose statistics are of the subsample.
    replayed
        The charge that the ledger would replay for the request, if there is one.

    Raises
    ------
    InputError
        The subsample has served another release, or its own, whose noise is lost.
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
            remedy="Draw a fresh one: run with another --work-dir",
        )


def record_use(noise_store: NoiseStore, charge: Charge) -> None:
    """Write durably which charge the subsample serves; before its noise is drawn."""
    write_atomically(noise_store.subsample_use_path, charge.id.encode())
