"""Noise of a second round and of people held out: one key, and no other sums for that key."""

import math
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.crash import KILLED, killed_at
from support.noise_checks import has_scale
from support.tiny_release import ACCOUNT, MECHANISM, NOBODY, charges_of, key_left, noise_store

from primo_scale.accumulation.statistics import RawOwnSums
from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.ledger.ledger import Ledger
from primo_scale.privacy import payment
from primo_scale.privacy.mechanism import Promise, release_cost, second_round
from primo_scale.privacy.private_statistics import ScoredPeople, hold_out_noise
from primo_scale.privacy.shares import SHARES
from primo_scale.verify.held_out_accuracy import N_COUNTS

SHARE = (1 - SHARES.adjustment) * SHARES.first_round
SUMS = RawOwnSums(np.arange(4000) * 1000, "a" * 64, {})
NOISE = second_round(Promise(1.0, 1e-6, share=SHARE), 4000, 10_000, 900_000)


@contextmanager
def statistics_drawn(folder, raw, asked):
    """Pay for a release and draw its statistics; give the payer, the charge and these."""
    with Ledger(folder / "ledger.sqlite") as ledger:
        payer = payment.Payer(ledger, noise_store(folder), ACCOUNT, "people")
        cost = release_cost(asked.promise, None)
        found, _ = payment.pay_for_adjustment(NOBODY, 100, asked.promise, cost, payer)
        charge = payer.charge(found.charge)
        yield payer, charge, payment.draw_statistics(raw, asked, payer, charge, lambda *_: None)


def pay_twice(folder, raw, sums=SUMS, noise=NOISE):
    with statistics_drawn(folder, raw, MECHANISM) as (payer, charge, private):
        drawn = payment.draw_second_round(sums, noise, MECHANISM, payer, charge)
        payment.record_statistics(payer, private, charge)
    return drawn


@pytest.mark.parametrize("adjacency", Adjacency)
def test_noise_is_that_of_what_the_first_round_leaves(adjacency):
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    promise = Promise(1.0, 1e-6, adjacency=adjacency, share=SHARE)
    mu = release_mu(1.0, 1e-6) * math.sqrt(1 - SHARES.adjustment - SHARE)
    found = second_round(promise, 3, 10_000, 900_000)
    assert found.sigma == pytest.approx(factor * math.sqrt(10_000 * 900_000) / mu, rel=1e-12)


def test_one_key_draws_both_rounds_once(tmp_path, raw):
    drawn = pay_twice(tmp_path, raw)
    noise = drawn - SUMS.values
    assert has_scale(noise, NOISE.sigma) and not has_scale(noise, 1.15 * NOISE.sigma)
    (charge,) = charges_of(tmp_path)
    assert len(charge.bound_to) == 2 and key_left(tmp_path) is None
    np.testing.assert_array_equal(pay_twice(tmp_path, raw), drawn)
    noise_store(tmp_path).path_of(charge.id, "second_round.json").unlink()
    with pytest.raises(InputError, match="is lost, and its key too"):
        pay_twice(tmp_path, raw)


@pytest.mark.parametrize("step", ["draw started", "second round stored"])
@pytest.mark.parametrize(
    ("sums", "noise"),
    [(replace(SUMS, sha256="b" * 64), NOISE), (SUMS, replace(NOISE, row_norm=10_001))],
    ids=["other sums", "other bounds"],
)
def test_the_key_serves_no_other_second_round(tmp_path, raw, step, sums, noise):
    """The difference of two sums with one noise would show them exactly."""
    assert killed_at("statistics stored", pay_twice, tmp_path, raw) == KILLED
    assert killed_at(step, pay_twice, tmp_path, raw) == KILLED
    (charge,) = charges_of(tmp_path)
    noise_store(tmp_path).path_of(charge.id, "second_round.json").unlink(missing_ok=True)
    with pytest.raises(InputError, match="for other statistics or another method"):
        pay_twice(tmp_path, raw, sums, noise)
    assert not noise_store(tmp_path).path_of(charge.id, "second_round.json").exists()
    pay_twice(tmp_path, raw)
    assert len(charges_of(tmp_path)) == 1


@dataclass(frozen=True, eq=False)
class People(ScoredPeople):
    """People with given exact counts and sums."""

    exact: int = 0

    def counts(self):
        return np.full((1, N_COUNTS), self.exact)

    def sums(self, *_range):
        return np.full((2, 1, 1, 3), self.exact)


def measure(folder, raw, exact=100):
    """Draw the statistics, and then measure people held out, whose sums are `exact`."""
    asked = replace(MECHANISM, hold_out=hold_out_noise(1, 100, 1.0, "fit"))
    people = People(np.ones(1), np.ones(1), lambda: (), exact=exact)
    with statistics_drawn(folder, raw, asked) as (payer, charge, private):
        noisy = payment.measure_once(np.ones((3, 1)), lambda: people, asked, payer, charge)
        payment.record_statistics(payer, private, charge, noisy)
    return noisy


@pytest.mark.parametrize("step", ["draw started", "hold-out stored", "draw record committed"])
def test_a_copied_work_directory_measures_no_other_people(tmp_path, raw, step):
    """Its key would add the noise of the first measurement to other sums."""
    assert killed_at("statistics stored", measure, tmp_path, raw) == KILLED
    work = noise_store(tmp_path).directory.parent
    shutil.copytree(work, tmp_path / "copy")
    assert killed_at(step, measure, tmp_path, raw) == KILLED
    if step == "draw started":  # nothing was bound: the first who measures decides
        measure(tmp_path, raw)
    shutil.move(work, tmp_path / "first")
    (tmp_path / "copy").rename(work)
    with pytest.raises(InputError, match="for other statistics or another method"):
        measure(tmp_path, raw, exact=101)
    assert not list(noise_store(tmp_path).directory.glob("*.hold_out.json"))
    measure(tmp_path, raw)
    (charge,) = charges_of(tmp_path)
    assert len(charge.bound_to) == 3 and key_left(tmp_path) is None


def test_a_measurement_is_replayed_and_not_repeated_for_other_weights(tmp_path, raw):
    noisy = measure(tmp_path, raw)
    assert measure(tmp_path, raw, exact=101) == noisy  # stored: nobody is scored again
    (charge,) = charges_of(tmp_path)
    noise_store(tmp_path).path_of(charge.id, "hold_out.json").unlink()
    with pytest.raises(InputError, match="is lost, and its key too"):
        measure(tmp_path, raw)
