"""Noise of a second round: its scale, one key for both rounds, and no other sums for that key."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.crash import KILLED, killed_at
from support.noise_checks import has_scale
from support.tiny_release import ACCOUNT, MECHANISM, NOBODY, charges_of, key_left, noise_store

from primo_scale.accumulation.own_sums import RawOwnSums
from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import PayingCohort
from primo_scale.privacy.mechanism import SHARES, Promise
from primo_scale.privacy.paid_second_round import draw_second_round
from primo_scale.privacy.paid_statistics import draw_once
from primo_scale.privacy.payment import Payer
from primo_scale.privacy.phenotype_adjustment import pay_for_adjustment
from primo_scale.privacy.scales import release_cost, second_round

SHARE = (1 - SHARES.adjustment) * SHARES.first_round
SUMS = RawOwnSums(np.arange(4000) * 1000, "a" * 64, {})
NOISE = second_round(Promise(1.0, 1e-6, share=SHARE), 4000, 10_000, 900_000)


def pay_twice(folder, raw, sums=SUMS, noise=NOISE):
    promise, cost = MECHANISM.promise, release_cost(MECHANISM.promise, None)
    with Ledger(folder / "ledger.sqlite") as ledger:
        payer = Payer(ledger, PayingCohort(ACCOUNT, "people"), noise_store(folder))
        found, _ = pay_for_adjustment(NOBODY, 100, promise, cost, payer)
        paid = draw_once(
            raw, MECHANISM, payer, found.charge, on_block=lambda *_: None, is_last=False
        )
        return draw_second_round(sums, noise, MECHANISM, paid, payer)


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
    noise_store(tmp_path).second_round_path(charge.id).unlink()
    with pytest.raises(InputError, match="sums of the second round are missing"):
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
    noise_store(tmp_path).second_round_path(charge.id).unlink(missing_ok=True)
    with pytest.raises(InputError, match="for other statistics or another method"):
        pay_twice(tmp_path, raw, sums, noise)
    assert not noise_store(tmp_path).second_round_path(charge.id).exists()
    pay_twice(tmp_path, raw)
    assert len(charges_of(tmp_path)) == 1
