"""Keys, charges and noise: what is measured is bound, then its noise is drawn once and stored.

A release has one charge, whose key draws all of its noise in this order: adjustment of phenotypes,
statistics, second round, people held out. For each of them the ledger records what is measured
before its noise is drawn, so that the key serves nothing else, in a copied work directory too. The
result is stored durably. A retry finds it, or draws the same noise with the key. When all is
stored, the ledger records it, and the key is removed.

`NoiseStore` has these files of a charge:

``CHARGE.unused``
    Key of a keystream from which nothing was drawn. It is durable before the charge is.
``CHARGE.key``
    The same key, renamed before the first draw.
``CHARGE.zarr`` or ``CHARGE.npy``
    Private statistics, or the noisy values of one party.
``CHARGE.second_round.json``, ``CHARGE.hold_out.json``
    Noisy sums of the second round, and over the people held out.

``adjustment.json`` beside the directory also names a charge. It holds the noisy Gram matrices by
which phenotypes are adjusted.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.accumulation.statistics import RawOwnSums, RawStatistics
from primo_scale.errors import InputError, remedy_extended
from primo_scale.gaussian import noise, sensitivity
from primo_scale.gaussian.calibration import Cost
from primo_scale.interruption import deferred
from primo_scale.ledger.accounts import Account, Balance, Charge, ChargeRequest
from primo_scale.ledger.ledger import Ledger, PaymentStep, Receipt, announce_step, random_charge_id
from primo_scale.machine import refuse_full_disk
from primo_scale.outcomes.coding import EFFECT_UNIT, LARGEST_VALUE, OutcomeCoding
from primo_scale.outcomes.store import AdjustmentScale, RawAdjustment
from primo_scale.privacy import planning, private_statistics, shares
from primo_scale.privacy.mechanism import Guarantee, Mechanism, SecondRound, rounded_up
from primo_scale.storage import files, resuming
from primo_scale.storage.block_matrices import stored_bytes
from primo_scale.storage.stores import decrypt_file, encrypt_file_content

_RESTORE = "Restore the file from a backup"
# Threads change the last digits of weights; another version or rule changes more.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class NoisyAdjustment:
    """Noisy Gram matrices by which phenotypes are adjusted; public once they are paid for.

    Attributes
    ----------
    grams
        Gram matrix of (c, y) of each of the l phenotypes.
    sigma
        Standard deviation of the noise on the diagonals, in lattice units.
    charge
        Identifier of the charge that paid.
    """

    grams: tuple[tuple[tuple[int, ...], ...], ...]
    sigma: float
    charge: str


@dataclass(frozen=True)
class NoiseStore:
    """Noise keys and private statistics in a directory. PRIVATE: a key reveals its noise.

    Both are encrypted if the work directory is.
    """

    directory: Path

    @property
    def adjustment_path(self) -> Path:
        """Path of the noisy Gram matrices by which phenotypes are adjusted."""
        return self.directory.with_name("adjustment.json")

    def charges(self) -> frozenset[str]:
        """Return the charges whose noise, or whose noise key, is stored.

        A damaged adjustment raises an InputError.
        """
        pays_again = "It holds noise that was paid for: without it the same command pays again"
        with remedy_extended(lambda: pays_again, where=self.directory):
            stores = self._files("zarr").items()
            drawn = {charge for charge, path in stores if private_statistics.is_drawn(path)}
        adjustment = self.read_adjustment()
        drawn |= set() if adjustment is None else {adjustment.charge}
        return frozenset(drawn.union(self._files("npy", "key", "unused")))

    def unused_charges(self) -> frozenset[str]:
        """Return the charges with a key from which nothing was drawn."""
        return frozenset(self._files("unused"))

    def used_charges(self) -> dict[str, Path]:
        """Return the charges whose noise may exist, each with the file that names it.

        A damaged adjustment raises an InputError.
        """
        adjustment = self.read_adjustment()
        adjusted = {} if adjustment is None else {adjustment.charge: self.adjustment_path}
        return adjusted | self._files("zarr", "npy", "key")

    def read_adjustment(self) -> NoisyAdjustment | None:
        """Return the noisy adjustment that an earlier run stored, or None.

        A damaged document raises an InputError.
        """
        moments = self.directory.with_name("phenotype_moments.json")
        if moments.is_file():
            raise InputError(
                "was paid for by version 0.4, which alone can finish its release",
                where=moments,
                remedy="Finish it with that version, or use another --work-dir, which pays again",
            )
        if not self.adjustment_path.is_file():
            return None
        remedy = "Restore the file; without it the same command pays again"
        return files.read_fields(self.adjustment_path, NoisyAdjustment, remedy=remedy)

    def path_of(self, charge: str, end: str) -> Path:
        """Return the path of a file of a charge, by its end."""
        return self.directory / f"{charge}.{end}"

    def create_key(self, unpaid: Collection[str]) -> str:
        """Create a durable key and return the identifier of its new charge.

        The unused keys of `unpaid` are removed, so that they never serve another request. The
        ledger does not know these charges, because a run died before they were durable. An
        InputError or a ResourceError is raised if the key cannot be written.
        """
        charge = random_charge_id()
        path = self.path_of(charge, "unused")
        with remedy_extended(lambda: "No budget was spent", where=path):
            for old in unpaid:
                self.path_of(old, "unused").unlink(missing_ok=True)
            files.make_private_directory(self.directory)
            files.write_atomically(path, encrypt_file_content(os.urandom(noise.KEY_BYTES), charge))
        return charge

    def open_key(self, charge: str) -> bytes:
        """Return the key of a charge, after marking it durably as used.

        A missing or damaged key raises an InputError. No new key is created, because it would draw
        a second noise.
        """
        unused, key = self.path_of(charge, "unused"), self.path_of(charge, "key")
        if not key.is_file():
            if not unused.is_file():
                raise InputError("the key of the noise is missing", where=key)
            unused.rename(key)
            files.sync_directory(self.directory)
        secret = decrypt_file(key, charge)
        if len(secret) != noise.KEY_BYTES:
            raise InputError(
                "the key of the noise is damaged",
                where=key,
                value=f"{len(secret)} bytes",
                limit=noise.KEY_BYTES,
            )
        return secret

    def refuse_lost(self, charge: str, stored: Path) -> None:
        """Refuse a charge whose noise is not `stored`, and whose key cannot draw it again."""
        kept = (stored, self.path_of(charge, "key"), self.path_of(charge, "unused"))
        if not any(path.exists() for path in kept):
            raise InputError(
                "the noise that this release was paid with is lost, and its key too",
                where=stored,
                remedy="Restore it from a backup, or use another --work-dir, which pays again",
            )

    def remove_key(self, charge: str) -> None:
        """Remove durably the key of a charge whose private statistics are recorded."""
        if self.directory.is_dir():
            self.path_of(charge, "key").unlink(missing_ok=True)
            # Also if an earlier run died right after the removal.
            files.sync_directory(self.directory)

    @contextmanager
    def payment_explained(self, charge: str) -> Iterator[None]:
        """Extend the remedy of an error after a payment by the amount that a retry spends."""
        remedy = (
            f"Budget was spent, on charge {charge}: while its key or its noise is intact in "
            f"{self.directory.parent}, the same command spends nothing more; without them the "
            "release has to be paid again"
        )
        with remedy_extended(lambda: remedy, where=self.directory):
            yield

    def refuse_full_disk(self, paid: Charge | None, needed: int) -> None:
        """Refuse to pay for private statistics of `needed` bytes that do not fit on the disk.

        The statistics of `paid`, a charge that is not paid again, may already be stored, or a part
        of them. A ResourceError is raised if the rest does not fit.
        """
        if paid is not None:
            store = self.path_of(paid.id, "zarr")
            if private_statistics.is_drawn(store) or self.path_of(paid.id, "npy").is_file():
                return
            needed -= sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        refuse_full_disk(
            self.directory,
            needed,
            what="the private statistics",
            remedy="Free space, then run the same command again",
        )

    def _files(self, *ends: str) -> dict[str, Path]:
        """Return the files with any of these ends by their charge; a later end takes precedence."""
        return {path.stem: path for end in ends for path in self.directory.glob(f"*.{end}")}


@dataclass(frozen=True)
class Payer:
    """Cohort that pays for noise, its open ledger, and the store of the noise.

    The account and the digests of its people are those of `Ledger.paying_cohort`.

    Stored noise whose charge the ledger does not know raises an InputError.
    """

    ledger: Ledger
    noise_store: NoiseStore
    account: Account
    people_digest: str
    roster: bytes = b""

    def __post_init__(self) -> None:
        self.ledger.refuse_unknown_charges(self.noise_store.used_charges())

    def request(
        self, exact_digest: str, parameters: Mapping[str, Any], promise: Guarantee, cost: Cost
    ) -> ChargeRequest:
        """Return the request for noise on exact values; `parameters` are public."""
        digest = self.ledger.request_digest(exact_digest, parameters)
        whole, people = (promise.epsilon, promise.delta), (self.people_digest, self.roster)
        return ChargeRequest(self.account, digest, *whole, cost, *people)

    def balance(self) -> Balance:
        """Return the balance of the paying account, which has a budget."""
        return self.ledger.balance(self.account)

    def charge(self, identifier: str) -> Charge:
        """Return the charge that paid when the phenotypes were adjusted."""
        for charge in self.balance().charges:
            if charge.id == identifier:
                return charge
        raise InputError(
            "the phenotypes were adjusted and paid for from another account",
            where="--ledger, --cohort",
            value=identifier,
            remedy="Give the --ledger and --cohort that accumulate was given",
        )

    def source(self, charge: Charge) -> noise.KeystreamNoise:
        """Return the source of a charge's noise, which the ledger has bound."""
        source = noise.KeystreamNoise(self.noise_store.open_key(charge.id))
        announce_step(PaymentStep.DRAW_STARTED)
        return source


def open_ledger(path: Path, noise_store: NoiseStore) -> Ledger:
    """Open the ledger that pays; it is created only if the store has no noise that was paid for."""
    return Ledger(path, create=not noise_store.used_charges())


def pay_once(payer: Payer, request: ChargeRequest) -> Receipt:
    """Pay for a request, unless it was paid for and its noise, or the key of its noise, is stored.

    The state of the ledger and of the noise store decides, whatever ended an earlier run:

    ==================  =========================  ============================================
    noise store         charge in the ledger       what `pay_once` does
    ==================  =========================  ============================================
    nothing             none                       stores a key, then pays
    unused key          none                       removes the key, stores another, then pays
    key                 reserved                   pays nothing: the key draws the same noise
    noise               in any state               pays nothing: the noise is used
    nothing             in any state               pays again: the lost noise may have been seen
    used key or noise   none                       is not reached: `Payer` refuses the ledger
    ==================  =========================  ============================================

    Errors are a UsageError, BudgetRefused or InputError of `Ledger.reserve`, and an InputError or
    ResourceError if the key cannot be written.
    """
    ledger, noise_store = payer.ledger, payer.noise_store
    unpaid = ledger.unknown_charges(noise_store.unused_charges())

    def new_charge() -> str:
        charge = noise_store.create_key(unpaid)
        announce_step(PaymentStep.KEY_STORED)
        return charge

    return ledger.reserve(request, stored_noise=noise_store.charges(), new_charge=new_charge)


def record_drawn(payer: Payer, charge: Charge, what: str, content: bytes, *, stored: Path) -> None:
    """Record that the noise of a charge is stored durably at `stored`, and remove its key.

    The ledger records the keyed digest of the `content`, for a purpose in words. An InputError is
    raised if it recorded another one, or does not know the charge.
    """
    digest = payer.ledger.keyed_digest(what, content)
    if charge.statistics_digest not in (None, digest):
        raise InputError(
            "the noisy values are not those that the ledger recorded",
            where=stored,
            value=charge.id,
            remedy="Restore them from a backup, or remove them",
        )
    payer.ledger.mark_drawn(charge, digest)
    payer.noise_store.remove_key(charge.id)
    announce_step(PaymentStep.KEY_REMOVED)


# ---- Statistics ----------------------------------------------------------------------------------


def draw_statistics(
    raw: RawStatistics,
    mechanism: Mechanism,
    payer: Payer,
    charge: Charge,
    on_block: Callable[[int, int], None],
) -> private_statistics.PrivateStatistics:
    """Return the private statistics that a charge pays for, drawn once.

    `on_block` receives the number of finished blocks and the total number. A ResourceError is
    raised if the disk has no space for the private statistics, and an InputError if the key is
    lost or bound to another request.
    """
    noise_store = payer.noise_store
    size = stored_bytes(raw.matrices.layout, gram_copies=mechanism.recipe.gram_copies)
    noise_store.refuse_full_disk(charge, size)
    stored = noise_store.path_of(charge.id, "zarr")
    noise_store.refuse_lost(charge.id, stored)
    payer.ledger.bind(charge, _request(raw, mechanism, payer))
    with noise_store.payment_explained(charge.id):
        if private_statistics.is_drawn(stored):
            return private_statistics.reopen_private(stored, raw, mechanism)
        return private_statistics.privatise(raw, mechanism, payer.source(charge), stored, on_block)


def serves(charge: Charge, raw: RawStatistics, mechanism: Mechanism, payer: Payer) -> bool:
    """Return whether the key of a charge serves these statistics, as `draw_statistics` asks."""
    return charge.bound_to[:1] in ((), (_request(raw, mechanism, payer).digest,))


def record_statistics(
    payer: Payer,
    private: private_statistics.PrivateStatistics,
    charge: Charge,
    held_out: private_statistics.NoisyHoldOut | None = None,
) -> None:
    """Record that all noise of a charge is drawn: statistics, second round and hold-out.

    An InputError is raised if the ledger recorded others.
    """
    noise_store = payer.noise_store
    second = noise_store.path_of(charge.id, "second_round.json")
    stored = noise_store.path_of(charge.id, "zarr")
    with noise_store.payment_explained(charge.id), deferred():
        content = private.matrices.sha256().encode()
        content += b"" if held_out is None else files.canonical_json(asdict(held_out))
        content += second.read_bytes() if second.is_file() else b""
        record_drawn(payer, charge, "private statistics", content, stored=stored)


def _request(raw: RawStatistics, mechanism: Mechanism, payer: Payer) -> ChargeRequest:
    parameters = asdict(mechanism)
    if mechanism.hold_out is None:
        del parameters["hold_out"]  # as in requests of earlier versions, whose noise stays valid
    else:  # the sums do not depend on the people held out, but their measurement does
        parameters["inputs"] = raw.inputs
    parameters["boundaries"] = list(raw.matrices.layout.boundaries)
    return payer.request(raw.sha256, parameters, mechanism.promise, mechanism.cost)


# ---- Second round --------------------------------------------------------------------------------


def draw_second_round(
    raw: RawOwnSums, second: SecondRound, mechanism: Mechanism, payer: Payer, charge: Charge
) -> planning.Floats:
    """Return the noisy sums of the second round, drawn once; shape (m,).

    `mechanism` is that of the first round, with the hold-out of the release. An InputError is
    raised if the key serves other sums, or if sums that were drawn are missing.
    """
    path = payer.noise_store.path_of(charge.id, "second_round.json")
    payer.noise_store.refuse_lost(charge.id, path)
    hold_out = None if mechanism.hold_out is None else asdict(mechanism.hold_out)
    parameters = {"second_round": asdict(second), "inputs": raw.inputs, "hold_out": hold_out}
    request = payer.request(raw.sha256, parameters, mechanism.promise, mechanism.cost)
    payer.ledger.bind(charge, request, number=1)
    with payer.noise_store.payment_explained(charge.id):
        if not path.is_file():
            noisy = noise.add_lattice_noise(
                raw.values, second.sigma, source=payer.source(charge), label="second round"
            )
            _store(path, {"values": noisy.tolist()}, PaymentStep.SECOND_ROUND_STORED)
        values = files.read_document(
            path, lambda stored: files.converted(stored["values"], tuple[int, ...]), remedy=_RESTORE
        )
    return np.array(values, dtype=np.float64)


def _store(path: Path, document: dict[str, Any], step: PaymentStep) -> None:
    files.write_atomically(path, files.canonical_json(document))
    announce_step(step)


# ---- People held out -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _HoldOut:
    """Document of a measurement, with the length of the weights of each phenotype."""

    noisy: private_statistics.NoisyHoldOut
    weight_norms: tuple[float, ...]


def measure_once(
    weights: planning.Floats,
    score: Callable[[], private_statistics.ScoredPeople],
    mechanism: Mechanism,
    payer: Payer,
    charge: Charge,
) -> private_statistics.NoisyHoldOut:
    """Return the noisy sums over the people held out, drawn once.

    `score` may be interrupted; the same command continues. The `weights`, shape (d, l), are
    recognised by the length of each phenotype's. An InputError is raised if the key serves other
    sums, or if noisy sums that were drawn are missing, or are of other weights.
    """
    hold_out, noise_store = mechanism.hold_out, payer.noise_store
    if hold_out is None:
        raise ValueError("the mechanism measures nobody")
    path = noise_store.path_of(charge.id, "hold_out.json")
    noise_store.refuse_lost(charge.id, path)
    norms = tuple(np.linalg.norm(weights, axis=0).tolist())
    # The first numbers are those of the statistics and of a second round.
    numbers = itertools.count(1 if mechanism.second_round is None else 2)

    def bind(exact: noise.Integers) -> None:
        digest = hashlib.sha256(np.ascontiguousarray(exact, "<i8").tobytes()).hexdigest()
        parameters = {"query": "hold-out", "hold_out": asdict(hold_out)}
        request = payer.request(digest, parameters, mechanism.promise, mechanism.cost)
        payer.ledger.bind(charge, request, next(numbers))

    with noise_store.payment_explained(charge.id):
        if path.is_file():
            stored = files.read_fields(path, _HoldOut, remedy=_RESTORE)
            measured = stored.weight_norms
            if len(measured) != len(norms) or not np.allclose(measured, norms, _ROUNDING, 0):
                remedy = (
                    "Use the version that measured them, or another --work-dir, which pays again"
                )
                raise resuming.of_other_request(path, value="other weights", remedy=remedy)
            return stored.noisy
        people = score()
        with deferred():
            noisy = private_statistics.noisy_hold_out(people, hold_out, payer.source(charge), bind)
            _store(path, asdict(_HoldOut(noisy, norms)), PaymentStep.HOLD_OUT_STORED)
    return noisy


# Smallest sd of residuals: that of a phenotype whose lattice has 4 steps in an sd.
_LEAST_SD = 4 / LARGEST_VALUE
_DIGITS = 6  # significant, of results whose last digits depend on the processor

Float64 = npt.NDArray[np.float64]


def adjustment_sigma(norm: int, adjacency: sensitivity.Adjacency, cost: Cost) -> float:
    """Return the standard deviation of the noise on the diagonals, rounded up.

    `cost` is that of the release. Source: docs/maths/adjustment.md, Theorem 1.
    """
    mu = math.sqrt(cost.mu_squared * shares.SHARES.adjustment)
    sigma = rounded_up(sensitivity.adjustment(norm, adjacency) / mu)
    noise.check_sigma(
        sigma, where="--epsilon", remedy="Raise it, or release fewer phenotypes together"
    )
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
    exact = hashlib.sha256(np.ascontiguousarray(raw, "<i8").tobytes()).hexdigest()
    parameters = {
        "query": "adjustment",
        "sigma": sigma,
        "privacy": str(promise.unit),
        "adjacency": str(promise.adjacency),
    }
    request = payer.request(exact, parameters, promise, cost)
    found = noise_store.read_adjustment()
    if found is not None and (
        found.sigma != sigma or payer.ledger.stored_charge(request, [found.charge]) is None
    ):
        remedy = "Use another --work-dir, or remove this file and the statistics to pay again"
        raise resuming.of_other_request(noise_store.adjustment_path, remedy=remedy)
    receipt = pay_once(payer, request)
    with noise_store.payment_explained(receipt.charge.id):
        if found is None:
            add = partial(noise.add_symmetric_noise, source=payer.source(receipt.charge))
            noisy = [add(y, sigma, label=f"adjustment, phenotype {k}") for k, y in enumerate(raw)]
            grams = tuple(tuple(map(tuple, gram.tolist())) for gram in noisy)
            found = NoisyAdjustment(grams, sigma, receipt.charge.id)
            _store(noise_store.adjustment_path, asdict(found), PaymentStep.ADJUSTMENT_STORED)
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
    Source: docs/maths/adjustment.md, "The effects".
    """
    noisy, cross, square = gram[:-1, :-1], gram[:-1, -1], float(gram[-1, -1])
    values, vectors = np.linalg.eigh(noisy)
    design = (vectors * np.maximum(values, 0)) @ vectors.T
    people, added = max(float(noisy[0, 0]), sigma, 1.0), sigma**2 / 2 * (1 + variance * len(noisy))
    errors = variance * design + added * np.eye(len(noisy))
    prior = variance * design
    effects = prior @ np.linalg.solve(prior @ design + errors, cross)
    left = (square - 2 * effects @ cross + effects @ noisy @ effects) / people
    error = sigma * (1 + float(effects @ effects)) / people
    known = variance**2 / (variance**2 + error**2)
    return effects, max(known * left + (1 - known) * variance, min(error, variance))
