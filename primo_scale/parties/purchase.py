"""Noise of a party's values, their payment and the drawing of the noise in the only safe order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.noise import KeystreamNoise, check_sigma, lattice_noise
from primo_scale.ledger.ledger import PaymentStep, Receipt, announce_step
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.parties.columns import PartyColumns, Roster, Survey, people_of
from primo_scale.privacy.mechanism import Promise, rounded_up
from primo_scale.privacy.payment import Payer, pay_once, record_drawn
from primo_scale.storage.files import file_published_at_end, sha256_of_file
from primo_scale.storage.resume import NEVER_OVERWRITTEN, of_other_request

_VALUE = np.dtype("<i8")
_DRAWS_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class PartyNoise:
    """Noise on every released value of one party."""

    sigma: float  # standard deviation in lattice units, rounded up
    cost: Cost  # of this party's release


def party_noise(
    epsilon: float, delta: float, *, n_columns: int, n_mixtures: int | None, person_columns: int
) -> PartyNoise:
    """Return the noise of `n_columns` columns of one party with which the promise holds.

    The promise (epsilon, delta) covers `person_columns` columns together: those of this party
    alone, or the columns of all parties for a promise about a person. `n_mixtures` is None where
    the rows of the people are released. Noise that is too large for the sampler is refused.
    """
    mu = release_mu(epsilon, delta)
    sigma = rounded_up(party_sensitivity(person_columns, n_mixtures) / mu)
    check_sigma(sigma, remedy="Raise --epsilon, or release fewer columns or mixtures")
    return PartyNoise(sigma, Cost(mu**2 * n_columns / person_columns))


def party_sensitivity(n_columns: int, n_mixtures: int | None) -> float:
    """Return the l2 sensitivity of `n_columns` columns, in lattice units, to one replaced row.

    Replacing one person changes a row of d coded values by at most ``2 * 2^20 sqrt(d)``, and the k
    sums of a mixture release by at most ``sqrt(k)`` times that, for every matrix of signs
    (docs/maths/parties.md).
    """
    return 2 * BOUNDED_UNIT * math.sqrt(n_columns * (n_mixtures or 1))


@dataclass(frozen=True, eq=False)
class PartyValues:
    """Exact values that a party is about to release. PRIVATE."""

    party: PartyColumns
    roster: Roster
    survey: Survey
    noise: PartyNoise
    public: Mapping[str, Any]  # public parameters that determine the release, as JSON values

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the release."""
        mixtures = self.survey.mixtures
        return (len(self.roster) if mixtures is None else len(mixtures)), len(self.party.columns)


def pay_for_values(
    values: PartyValues, promise: Promise, payer: Payer, *, published: str | None = None
) -> tuple[Path, Receipt]:
    """Store a key, reserve a charge, draw its noise once, and store the noisy values.

    While the key or the noisy values are stored, the same request returns the same values at no
    further cost. `published` is the charge of the release that exists already, which must be that
    of this request. The result is the file of the noisy values, int64 in the format of NumPy, and
    the receipt. If the budget does not cover the release, a BudgetRefused is raised and no noise
    was drawn.
    """
    noise, noise_store = values.noise, payer.noise_store
    parameters = {"query": "party release", "sigma": noise.sigma, **values.public}
    request = payer.request(values.survey.digest, parameters, promise, noise.cost)
    paid = payer.ledger.stored_charge(request, noise_store.charges())
    if published is not None and (paid is None or paid.id != published):
        raise of_other_request("--out", value=f"charge {published}", remedy=NEVER_OVERWRITTEN)
    size = values.shape[0] * values.shape[1] * _VALUE.itemsize
    noise_store.refuse_full_disk(paid, 2 * size)
    receipt = pay_once(payer, request)
    charge = receipt.charge
    with noise_store.payment_explained(charge.id):
        path = noise_store.values_path(charge.id)
        if not path.is_file():
            _draw(values, payer.source(charge), path)
        content = sha256_of_file(path).encode()
        record_drawn(payer, charge, "party release", content, stored=path)
    return path, receipt


def _draw(values: PartyValues, source: KeystreamNoise, path: Path) -> None:
    with file_published_at_end(path) as file:
        header = _write_noise(file, values, source)
        released = np.memmap(file, _VALUE, "r+", offset=header, shape=values.shape)
        if values.survey.mixtures is not None:
            released += values.survey.mixtures
        else:
            for positions, (_, units) in people_of(values.party, values.roster):
                released[positions] += units
        released.flush()
    announce_step(PaymentStep.STATISTICS_STORED)


def _write_noise(file: BinaryIO, values: PartyValues, source: KeystreamNoise) -> int:
    """Write noise alone, each piece under a label of its own; return the length of the header."""
    n_rows, n_columns = values.shape
    header = {"descr": _VALUE.str, "fortran_order": False, "shape": values.shape}
    np.lib.format.write_array_header_1_0(file, header)
    header_bytes = file.tell()
    step = max(1, _DRAWS_AT_A_TIME // n_columns)
    for start in range(0, n_rows, step):
        count = (min(start + step, n_rows) - start) * n_columns
        label = f"party release, rows from {start}"
        noise = lattice_noise(count, values.noise.sigma, source=source, label=label)
        file.write(noise.astype(_VALUE).tobytes())
    file.flush()
    return header_bytes
