"""Noisy means and standard deviations of phenotypes, an optional paid release.

Clipping of phenotype rows needs good centres and scales. If no public ones are known, a twentieth
of the release's mu^2 buys noisy ones before the statistics are summed. They are public afterwards
(docs/maths/counts-and-moments.md, Theorem 2).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from primo_scale.errors import InputError
from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.gaussian.lattice_noise import Integers, add_lattice_noise
from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.ledger.reservation import Receipt
from primo_scale.ledger.spending import Charge, ChargeRequest
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import BOUNDED_UNIT, LARGEST_VALUE, SMALLEST_UNIT
from primo_scale.outcomes.moments import RawMoments
from primo_scale.privacy.mechanism import Promise
from primo_scale.privacy.noise_store import NoiseStore, NoisyMoments
from primo_scale.privacy.payment import Payer, record_drawn, settle
from primo_scale.privacy.scales import rounded_up
from primo_scale.storage.files import canonical_json, write_atomically

MOMENTS_SHARE = 0.05
# Largest distance of a bound from the mean, in standard deviations, that the lattice can code.
_FARTHEST = 0.99 * LARGEST_VALUE / SMALLEST_UNIT
_LARGEST_SD_ERROR = 0.1  # share of the sd that noise may change it by without a warning


def moments_sigma(n_phenotypes: int, promise: Promise) -> float:
    """Return the standard deviation of the noise on every sum, rounded up.

    The phenotypes must be private: feature privacy needs no noisy moments
    (docs/maths/counts-and-moments.md, Theorem 2).
    """
    change = sensitivity.phenotype_moments(n_phenotypes, promise.adjacency)
    mu = release_mu(promise.epsilon, promise.delta) * math.sqrt(MOMENTS_SHARE)
    return rounded_up(change / mu)


def pay_for_moments(
    raw: RawMoments, promise: Promise, payer: Payer
) -> tuple[NoisyMoments, Receipt]:
    """Store a key, reserve a charge, draw the noise once, and store the noisy moments.

    While the key or the moments are stored, the same request returns the same moments at no further
    cost. The promise is that of the whole release. If the budget does not cover the moments and the
    rest of the release, a BudgetRefused is raised and no noise was drawn. If the stored moments
    belong to another request, an InputError is raised, nothing is paid and the moments remain.
    """
    noise_store = payer.noise_store
    sigma = moments_sigma(raw.sums.shape[1], promise)
    request = _request(raw, promise, sigma, payer)
    found = noise_store.read_moments()
    if found is not None and payer.ledger.stored_charge(request, [found.charge]) is None:
        raise InputError(
            "the work directory holds phenotype moments of another request",
            where=noise_store.moments_path,
            remedy="Use another --work-dir, or remove this file to pay for new ones",
        )
    receipt = settle(payer, request, further_cost=cost_beside_moments(promise))
    with noise_store.payment_explained(receipt.charge.id):
        if found is None:
            found = _draw(raw, sigma, receipt.charge, noise_store)
        content = canonical_json({"sums": found.sums, "charge": found.charge})
        stored_at = noise_store.moments_path
        record_drawn(payer, receipt.charge, "phenotype moments", content, stored=stored_at)
    return found, receipt


def cost_beside_moments(promise: Promise) -> Cost:
    """Return the cost of a release's statistics, beside that of its phenotype moments."""
    return Cost((1 - MOMENTS_SHARE) * release_mu(promise.epsilon, promise.delta) ** 2)


def are_paid(raw: RawMoments, promise: Promise, payer: Payer) -> bool:
    """Return whether `pay_for_moments` would use stored moments, or their key, at no cost."""
    request = _request(raw, promise, moments_sigma(raw.sums.shape[1], promise), payer)
    return payer.stored_charge(request) is not None


def with_moments(
    phenotypes: Sequence[PhenotypeBounds], moments: NoisyMoments
) -> tuple[PhenotypeBounds, ...]:
    """Return the bounds with noisy means and standard deviations, limited by the bounds."""
    return tuple(
        _with_moments(bounds, *(sums[j] / BOUNDED_UNIT for sums in moments.sums))
        for j, bounds in enumerate(phenotypes)
    )


def are_too_wide(bounds: PhenotypeBounds, sigma: float, people: float) -> bool:
    """Return whether the bounds of `with_moments` are too wide for its sd to be that of the values.

    Either it is the least that the bounds allow, as the lattice cannot code a bound that is further
    than some 32 sds from the mean, or noise of `sigma` on the sums over `people` moves it by more
    than a tenth.
    """
    middle, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    centre = (bounds.mean - middle) / half
    error = sigma / (BOUNDED_UNIT * people) * math.hypot(1, 2 * centre, centre**2)
    least = _farthest(bounds) / _FARTHEST
    return bounds.sd <= least or error > 2 * _LARGEST_SD_ERROR * (bounds.sd / half) ** 2


def _farthest(bounds: PhenotypeBounds) -> float:
    return max(bounds.upper - bounds.mean, bounds.mean - bounds.lower)


def _with_moments(
    bounds: PhenotypeBounds, total: float, squares: float, people: float
) -> PhenotypeBounds:
    people = max(people, 1.0)
    middle, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    centre = min(max(total / people, -1.0), 1.0)
    spread = math.sqrt(max(squares / people - centre**2, 0.0))
    mean = min(max(middle + half * centre, bounds.lower), bounds.upper)
    bounds = replace(bounds, mean=mean)
    return replace(bounds, sd=max(half * spread, _farthest(bounds) / _FARTHEST))


def _draw(raw: RawMoments, sigma: float, charge: Charge, noise_store: NoiseStore) -> NoisyMoments:
    source = KeystreamNoise(noise_store.open_key(charge.id))
    announce_step(PaymentStep.DRAW_STARTED)
    noisy: Integers = add_lattice_noise(raw.sums, sigma, source=source, label="phenotype moments")
    moments = NoisyMoments(tuple(map(tuple, noisy.tolist())), sigma, charge.id)
    write_atomically(noise_store.moments_path, canonical_json(asdict(moments)))
    announce_step(PaymentStep.MOMENTS_STORED)
    return moments


def _request(raw: RawMoments, promise: Promise, sigma: float, payer: Payer) -> ChargeRequest:
    exact = hashlib.sha256(np.ascontiguousarray(raw.sums, "<i8").tobytes()).hexdigest()
    parameters = {
        "query": "phenotype moments",
        "sigma": sigma,
        "privacy": str(promise.privacy),
        "adjacency": str(promise.adjacency),
    }
    cost = Cost(MOMENTS_SHARE * release_mu(promise.epsilon, promise.delta) ** 2)
    return payer.request(exact, parameters, promise, cost)
