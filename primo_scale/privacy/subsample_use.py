"""One subsample, one release.

Amplification is proved for a fresh subsample a charge: two noisy X'X of the same subsample would
say more together than their charges admit. The charge that a subsample served is written beside
its statistics before its noise is drawn, and stays there.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from primo_scale.accumulate.statistics import RawStatistics
from primo_scale.errors import InputError
from primo_scale.privacy.spending import Charge
from primo_scale.storage.files import write_atomically


def refuse_second_use(
    raw: RawStatistics, replayed: Charge | None, noise_at_hand: Collection[str]
) -> None:
    """Refuse to draw again from a subsample, but for continuing the one release that it serves.

    Parameters
    ----------
    raw
        Statistics of a subsample.
    replayed
        The charge that the ledger would replay for the request, if there is one.
    noise_at_hand
        Charges whose noise, or its key, is in the work directory.

    Raises
    ------
    InputError
        The subsample has served another release, or its own, whose noise is lost.
    """
    path = _served_path(raw)
    served = set(noise_at_hand)
    if path.is_file():
        served.add(path.read_text(encoding="utf-8"))
    continued = {replayed.id} if replayed is not None and replayed.id in noise_at_hand else set()
    if served - continued or (replayed is not None and not continued):
        raise InputError(
            "the subsample has served a release already",
            where=str(raw.matrices.path),
            value=", ".join(sorted(served)) or (replayed.id if replayed else None),
            remedy="Draw a fresh one: run with another --work-dir",
        )


def record_use(raw: RawStatistics, charge: Charge) -> None:
    """Write durably which charge the subsample serves; before its noise is drawn."""
    write_atomically(_served_path(raw), charge.id.encode())


def _served_path(raw: RawStatistics) -> Path:
    path = raw.matrices.path
    if not isinstance(path, Path):
        raise ValueError(f"{path} is in no directory, where a charge is recorded durably")
    return path.with_suffix(".charge")
