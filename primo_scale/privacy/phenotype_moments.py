"""The optional paid release of phenotype means and standard deviations.

Good centres and scales make the clip of phenotype rows fit; where no public ones are known, a
twentieth of the release's mu^2 buys noisy ones, before anything else is summed. From then on they
are public (docs/maths/counts-and-moments.md, Theorem 2).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.errors import InputError
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import LARGEST_VALUE, SMALLEST_UNIT
from primo_scale.outcomes.moments import UNIT, RawMoments
from primo_scale.privacy import sensitivity
from primo_scale.privacy.calibration import Cost, release_mu
from primo_scale.privacy.ledger import Ledger
from primo_scale.privacy.mechanism import Promise
from primo_scale.privacy.noise import Integers, add_lattice_noise
from primo_scale.privacy.payer import Payer
from primo_scale.privacy.receipt import Receipt, settle
from primo_scale.privacy.scales import rounded_up
from primo_scale.privacy.spending import Charge, ReleaseRequest
from primo_scale.privacy.steps import step
from primo_scale.storage.documents import of_type, read_document
from primo_scale.storage.files import canonical_json, write_atomically

MOMENTS_SHARE = 0.05
# The farthest bound may be so many standard deviations from the mean, or the lattice is too coarse.
_FARTHEST = 0.99 * LARGEST_VALUE / SMALLEST_UNIT


@dataclass(frozen=True)
class NoisyMoments:
    """What was bought; public once it is paid for.

    Attributes
    ----------
    sums
        Noisy sums of U, of ``floor(U^2 / 2^20)`` and of 2^20, each of length l.
    sigma
        Standard deviation of the noise on each.
    charge
        In the ledger.
    """

    sums: tuple[tuple[int, ...], ...]
    sigma: float
    charge: str


def moments_sigma(n_phenotypes: int, promise: Promise) -> float:
    """Scale of the noise on each of the sums, rounded up; not for public phenotypes."""
    change = sensitivity.phenotype_moments(n_phenotypes, promise.adjacency)
    mu = release_mu(promise.epsilon, promise.delta) * math.sqrt(MOMENTS_SHARE)
    return rounded_up(change / mu)


def pay_for_moments(
    raw: RawMoments, promise: Promise, path: Path, *, ledger: Ledger, payer: Payer
) -> tuple[NoisyMoments, Receipt]:
    """Reserve the charge durably, draw the noise once, store the result at `path`.

    The same request again, with `path` still there, gives the same moments at no further cost.

    Raises
    ------
    BudgetRefused
        The budget does not cover this and the rest of the release; no noise was drawn.
    InputError
        At `path` are moments of another request: nothing was paid, and they stay.
    """
    sigma = moments_sigma(raw.sums.shape[1], promise)
    total = release_mu(promise.epsilon, promise.delta) ** 2
    request = ReleaseRequest(
        payer.account,
        _request_digest(raw, promise, sigma, ledger),
        promise.epsilon,
        promise.delta,
        Cost(MOMENTS_SHARE * total),
        payer.people,
    )
    found = read_moments(path)
    at_hand = () if found is None else (found.charge,)
    if found is not None:
        replayed = ledger.charge_paid_for(request, noise_at_hand=at_hand)
        if replayed is None or replayed.id != found.charge:
            raise InputError(
                "the work directory holds phenotype moments of another request",
                where=path,
                remedy="Use another --work-dir, or remove this file to pay for new ones",
            )
    to_follow = Cost((1 - MOMENTS_SHARE) * total)
    receipt = settle(ledger, request, noise_at_hand=at_hand, to_follow=to_follow)
    if found is None:
        return _draw(raw, sigma, receipt.charge, path, ledger), receipt
    ledger.mark_drawn(receipt.charge, _digest_of(found, ledger))
    return found, receipt


def read_moments(path: Path) -> NoisyMoments | None:
    """Moments that an earlier run stored, or None."""
    if not path.is_file():
        return None
    return read_document(
        path, _moments_from, remedy="Remove it; the same command pays for new ones"
    )


def _moments_from(value: dict[str, Any]) -> NoisyMoments:
    sums = tuple(tuple(of_type(int, number) for number in row) for row in value["sums"])
    return NoisyMoments(sums, of_type(float, value["sigma"]), of_type(str, value["charge"]))


def with_moments(
    phenotypes: Sequence[PhenotypeBounds], moments: NoisyMoments
) -> tuple[PhenotypeBounds, ...]:
    """Give each phenotype its noisy mean and standard deviation, within what its bounds allow."""
    return tuple(
        _with_moments(bounds, *(sums[j] / UNIT for sums in moments.sums))
        for j, bounds in enumerate(phenotypes)
    )


def _with_moments(
    bounds: PhenotypeBounds, total: float, squares: float, people: float
) -> PhenotypeBounds:
    people = max(people, 1.0)
    middle, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    centre = min(max(total / people, -1.0), 1.0)
    spread = math.sqrt(max(squares / people - centre**2, 0.0))
    mean = min(max(middle + half * centre, bounds.lower), bounds.upper)
    farthest = max(bounds.upper - mean, mean - bounds.lower)
    return replace(bounds, mean=mean, sd=max(half * spread, farthest / _FARTHEST))


def _draw(
    raw: RawMoments, sigma: float, charge: Charge, path: Path, ledger: Ledger
) -> NoisyMoments:
    noisy: Integers = add_lattice_noise(raw.sums, sigma, label="phenotype moments")
    moments = NoisyMoments(tuple(map(tuple, noisy.tolist())), sigma, charge.id)
    content = {"sums": moments.sums, "sigma": sigma, "charge": charge.id}
    write_atomically(path, canonical_json(content))
    step("moments stored")
    ledger.mark_drawn(charge, _digest_of(moments, ledger))
    return moments


def _request_digest(raw: RawMoments, promise: Promise, sigma: float, ledger: Ledger) -> str:
    exact = hashlib.sha256(np.ascontiguousarray(raw.sums, "<i8").tobytes()).hexdigest()
    parameters = {
        "query": "phenotype moments",
        "sigma": sigma,
        "privacy": str(promise.privacy),
        "adjacency": str(promise.adjacency),
    }
    return ledger.request_digest(exact, parameters)


def _digest_of(moments: NoisyMoments, ledger: Ledger) -> str:
    content = canonical_json({"sums": moments.sums, "charge": moments.charge})
    return ledger.keyed_digest("phenotype moments", content)
