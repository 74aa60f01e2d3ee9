"""Adjustment of phenotypes before the sums: a noisy regression on covariates, and its payment.

A share of the release's mu^2 buys noisy Gram matrices of (c, y), of the constant and the covariates
with each phenotype. From them follow the effects of the constant and the covariates, as a posterior
mean, and the standard deviation that they leave. The sums are of the residuals. The charge pays for
the whole release, whose statistics are drawn later with the same key (docs/maths/adjustment.md).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt

from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.lattice_noise import add_symmetric_noise, check_sigma
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.ledger.accounts import Charge, ChargeRequest
from primo_scale.ledger.ledger import PaymentStep, Receipt, announce_step
from primo_scale.outcomes.adjustment import AdjustmentScale, RawAdjustment
from primo_scale.outcomes.coding import EFFECT_UNIT, LARGEST_VALUE, OutcomeCoding
from primo_scale.privacy.mechanism import SHARES, Guarantee, rounded_up
from primo_scale.privacy.payment import NoisyAdjustment, Payer, pay_once
from primo_scale.storage.files import canonical_json, of_other_request, write_atomically

# Smallest sd of residuals: that of a phenotype whose lattice has 4 steps in an sd.
_LEAST_SD = 4 / LARGEST_VALUE
_DIGITS = 6  # significant, of results whose last digits depend on the processor

Float64 = npt.NDArray[np.float64]


def adjustment_sigma(norm: int, adjacency: Adjacency, cost: Cost) -> float:
    """Return the standard deviation of the noise on the diagonals, rounded up.

    `cost` is that of the release. Source: docs/maths/adjustment.md, Theorem 1.
    """
    mu = math.sqrt(cost.mu_squared * SHARES.adjustment)
    sigma = rounded_up(sensitivity.adjustment(norm, adjacency) / mu)
    check_sigma(sigma, where="--epsilon", remedy="Raise it, or release fewer phenotypes together")
    return sigma


def pay_for_adjustment(
    raw: RawAdjustment, norm: int, promise: Guarantee, cost: Cost, payer: Payer
) -> tuple[NoisyAdjustment, Receipt]:
    """Store a key, reserve the charge of the release, draw the noise once, and store the result.

    `cost` is that of the release, for whose statistics the key remains. While the key or the result
    is stored, the same request returns the same result at no further cost. A BudgetRefused is
    raised if the budget does not cover the release, and no noise was drawn. If the stored result
    belongs to another request, an InputError is raised, nothing is paid and it remains.
    """
    noise_store = payer.noise_store
    sigma = adjustment_sigma(norm, promise.adjacency, cost)
    request = _request(raw, sigma, promise, cost, payer)
    found = noise_store.read_adjustment()
    if found is not None and (
        found.sigma != sigma or payer.ledger.stored_charge(request, [found.charge]) is None
    ):
        remedy = "Use another --work-dir, or remove this file and the statistics to pay again"
        raise of_other_request(noise_store.adjustment_path, remedy=remedy)
    receipt = pay_once(payer, request)
    with noise_store.payment_explained(receipt.charge.id):
        if found is None:
            found = _draw(raw, sigma, receipt.charge, payer)
    return found, receipt


def adjusted(
    coding: OutcomeCoding, scale: AdjustmentScale, noisy: NoisyAdjustment
) -> OutcomeCoding:
    """Return the coding of residuals: with effects, and with the sds that they leave.

    A binary phenotype keeps its public sd. Sds have few digits, and so the same on every machine.
    """
    phenotypes, effects = [], []
    unit = float(coding.unit) ** 2
    for bounds, shift, gram in zip(coding.phenotypes, scale.shifts, noisy.grams, strict=True):
        coefficients, variance = _posterior(np.array(gram) / unit, noisy.sigma / unit, 4.0**-shift)
        widest = (bounds.upper - bounds.lower) / 2
        sd = bounds.sd
        if bounds.kind == "quantitative":
            sd = min(max(bounds.sd * 2**shift * math.sqrt(variance), _LEAST_SD * widest), widest)
            sd = float(f"{sd:.{_DIGITS}g}")
        per_code = 2**shift * bounds.sd / sd * EFFECT_UNIT
        effects.append(tuple(round(float(each) * per_code) for each in coefficients))
        phenotypes.append(replace(bounds, sd=sd))
    return replace(coding, phenotypes=tuple(phenotypes), effects=tuple(effects))


def covariance_of_covariates(
    coding: OutcomeCoding, scale: AdjustmentScale, noisy: NoisyAdjustment
) -> Float64:
    """Return the covariance of the covariates' codes in the cohort, shape (c, c)."""
    grams = np.array(noisy.grams, dtype=np.float64)[:, :-1, :-1].mean(axis=0)
    people = max(float(grams[0, 0]), noisy.sigma, 1.0)
    centred = grams[1:, 1:] - np.outer(grams[1:, 0], grams[1:, 0]) / people
    values, vectors = np.linalg.eigh(centred / people)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    rounded = [float(f"{value:.{_DIGITS}g}") for value in positive.ravel().tolist()]
    return np.array(rounded).reshape(positive.shape) * float(coding.constant) ** 2


def _posterior(gram: Float64, sigma: float, variance: float) -> tuple[Float64, float]:
    """Return the effects of c on y, and the variance of y that they leave.

    In units in which the constant, and covariates at their bounds, are 1, and y has the public
    `variance`. A priori an effect has the variance of y, and y the mean 0.
    Source: docs/maths/adjustment.md, "The posterior mean".
    """
    noisy, cross, square = gram[:-1, :-1], gram[:-1, -1], float(gram[-1, -1])
    values, vectors = np.linalg.eigh(noisy)
    design = (vectors * np.maximum(values, 0)) @ vectors.T
    people, noise = max(float(noisy[0, 0]), sigma, 1.0), sigma**2 / 2 * (1 + variance * len(noisy))
    errors = variance * design + noise * np.eye(len(noisy))
    prior = variance * design
    effects = prior @ np.linalg.solve(prior @ design + errors, cross)
    left = (square - 2 * effects @ cross + effects @ noisy @ effects) / people
    error = sigma * (1 + float(effects @ effects)) / people
    known = variance**2 / (variance**2 + error**2)
    return effects, max(known * left + (1 - known) * variance, min(error, variance))


def _draw(raw: RawAdjustment, sigma: float, charge: Charge, payer: Payer) -> NoisyAdjustment:
    path = payer.noise_store.adjustment_path
    source = payer.source(charge)
    noisy = [
        add_symmetric_noise(gram, sigma, source=source, label=f"adjustment, phenotype {number}")
        for number, gram in enumerate(raw.grams)
    ]
    grams = tuple(tuple(map(tuple, gram.tolist())) for gram in noisy)
    found = NoisyAdjustment(grams, sigma, charge.id)
    write_atomically(path, canonical_json(asdict(found)))
    announce_step(PaymentStep.ADJUSTMENT_STORED)
    return found


def _request(
    raw: RawAdjustment, sigma: float, promise: Guarantee, cost: Cost, payer: Payer
) -> ChargeRequest:
    exact = hashlib.sha256(np.ascontiguousarray(raw.grams, "<i8").tobytes()).hexdigest()
    parameters = {
        "query": "adjustment",
        "sigma": sigma,
        "privacy": str(promise.unit),
        "adjacency": str(promise.adjacency),
    }
    return payer.request(exact, parameters, promise, cost)
