"""Paid phenotype moments: the stated noise, and one payment through every crash."""

import itertools
import math

import numpy as np
import pytest
from crash import KILLED, MOMENTS_STEPS, killed_at, steps_passed
from noise_checks import has_scale
from tiny_release import (
    ACCOUNT,
    NO_MOMENTS,
    PROMISE,
    charges_of,
    noise_store,
    open_budget,
    pay_moments,
)

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.keystream_noise import KeystreamNoise
from primo_scale.gaussian.lattice_noise import lattice_noise
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import PayingCohort
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import BOUNDED_UNIT as UNIT
from primo_scale.outcomes.coding import code_outcomes
from primo_scale.outcomes.moments import RawMoments
from primo_scale.privacy import phenotype_moments
from primo_scale.privacy.mechanism import Promise
from primo_scale.privacy.noise_store import NoisyMoments
from primo_scale.privacy.payment import Payer
from primo_scale.privacy.phenotype_moments import (
    MOMENTS_SHARE,
    are_paid,
    are_too_wide,
    moments_sigma,
    with_moments,
)

OTHER = RawMoments(np.ones((3, 5), dtype=np.int64))


def pay(folder, **asked):
    return pay_moments(folder, **asked)[0]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_noise_is_that_of_a_twentieth_of_the_release(adjacency) -> None:
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else math.sqrt(3)
    mu = release_mu(1.0, 1e-6) * math.sqrt(0.05)
    found = moments_sigma(7, Promise(1.0, 1e-6, adjacency=adjacency))
    assert found == pytest.approx(UNIT * factor * math.sqrt(7) / mu, rel=1e-12)
    assert MOMENTS_SHARE == 0.05


def test_drawn_noise_has_the_stated_scale(tmp_path) -> None:
    raw = RawMoments(np.full((3, 2_000), 12_345, dtype=np.int64))
    bought = pay(tmp_path, moments=raw)
    noise = np.array(bought.sums) - 12_345
    assert has_scale(noise, bought.sigma)
    assert not has_scale(noise, 1.15 * bought.sigma)


def test_paid_once_and_replayed(tmp_path) -> None:
    first, again = pay(tmp_path), pay(tmp_path)
    assert again == first == noise_store(tmp_path).read_moments()
    (charge,) = charges_of(tmp_path)
    assert charge.cost.mu_squared == pytest.approx(0.05 * release_mu(1.0, 1e-6) ** 2)


@pytest.mark.parametrize("other", [{"promise": Promise(0.5, 1e-6)}, {"moments": OTHER}])
def test_moments_of_another_request_are_refused_and_remain(tmp_path, other) -> None:
    open_budget(tmp_path, 9.0)
    first = pay(tmp_path)
    with pytest.raises(InputError, match="moments of another request"):
        pay(tmp_path, **other)
    assert pay(tmp_path) == first
    assert len(charges_of(tmp_path)) == 1
    noise_store(tmp_path).moments_path.unlink()
    assert pay(tmp_path, **other).charge != first.charge


def test_moments_at_another_scale_are_refused(tmp_path, monkeypatch) -> None:
    """As a version with another sensitivity would draw them, for the same cost."""
    pay(tmp_path)
    monkeypatch.setattr(phenotype_moments, "moments_sigma", lambda *_: 2.0**40)
    with pytest.raises(InputError, match="moments of another request"):
        pay(tmp_path)


def test_the_receipt_states_draws_that_were_interrupted(tmp_path) -> None:
    """Such a draw is charged again if its key is lost."""
    open_budget(tmp_path, 9.0)
    assert killed_at("draw started", lambda: pay(tmp_path)) == KILLED
    for key in noise_store(tmp_path).directory.glob("*.key"):
        key.unlink()
    assert "1 interrupted draws were charged too" in pay_moments(tmp_path)[1].summary


def test_a_charge_is_continued_only_for_its_request_and_with_its_noise(tmp_path) -> None:
    open_budget(tmp_path, 9.0)
    assert killed_at("draw started", pay, tmp_path) == KILLED
    assert paid(tmp_path)
    assert not paid(tmp_path, moments=OTHER)
    assert not paid(tmp_path, promise=Promise(0.5, 1e-6))
    pay(tmp_path)
    assert paid(tmp_path)
    noise_store(tmp_path).moments_path.unlink()
    assert not paid(tmp_path), "its key was removed"


def paid(folder, moments=NO_MOMENTS, promise=PROMISE):
    with Ledger(folder / "ledger.sqlite", read_only=True) as ledger:
        payer = Payer(ledger, PayingCohort(ACCOUNT, "people"), noise_store(folder))
        return are_paid(moments, promise, payer)


def test_moments_are_refused_if_the_rest_of_the_release_is_not_covered(tmp_path) -> None:
    open_budget(tmp_path, 0.9)
    with pytest.raises(BudgetRefused):
        pay(tmp_path)
    assert charges_of(tmp_path) == []
    assert not noise_store(tmp_path).moments_path.exists()


@pytest.mark.parametrize("label", MOMENTS_STEPS)
def test_a_crash_is_continued_with_the_same_noise_and_one_charge(tmp_path, label) -> None:
    assert list(dict.fromkeys(steps_passed(pay, tmp_path / "whole"))) == list(MOMENTS_STEPS)
    open_budget(tmp_path, 9.0)
    assert killed_at(label, pay, tmp_path) == KILLED
    stored, keys = noise_store(tmp_path).read_moments(), keys_of(tmp_path)
    done = pay(tmp_path)
    if MOMENTS_STEPS.index(label) >= MOMENTS_STEPS.index("reservation committed"):
        assert done == stored or done == expected_from(keys)
    else:
        assert done.charge not in keys, "an unpaid key is not used"
    assert pay(tmp_path) == done
    assert keys_of(tmp_path) == {}, "a key that remains reveals its noise"
    (charge,) = charges_of(tmp_path)
    assert charge.id == done.charge


def keys_of(folder):
    """Return the stored key of every charge, used or not."""
    directory = noise_store(folder).directory
    return {path.stem: path.read_bytes() for path in directory.glob("*.*")}


def expected_from(keys):
    """Return the moments that the test draws from the stored key."""
    ((charge, key),) = keys.items()
    sigma = moments_sigma(5, PROMISE)
    noise = lattice_noise(15, sigma, source=KeystreamNoise(key), label="phenotype moments")
    return NoisyMoments(tuple(map(tuple, noise.reshape(3, 5).tolist())), sigma, charge)


def test_exact_sums_give_the_means_and_standard_deviations() -> None:
    generator = np.random.default_rng(5)
    values = np.clip(generator.normal(170, 12, 4_000), 120, 220)
    units = np.trunc(UNIT * (values - 170) / 50).astype(np.int64)
    sums = (int(units.sum()),), (int((units**2 // UNIT).sum()),), (UNIT * len(values),)
    bounds = PhenotypeBounds("height", 120, 220, 170, 50, "quantitative")
    (found,) = with_moments([bounds], NoisyMoments(sums, 1.0, "charge"))
    assert found.mean == pytest.approx(values.mean(), abs=1e-3)
    assert found.sd == pytest.approx(values.std(), rel=1e-3)
    assert (found.lower, found.upper, found.name) == (120, 220, "height")
    assert not are_too_wide(found, 1.0, len(values))


def test_bounds_too_wide_for_the_sd_are_told() -> None:
    """The sd of 10 is less than a thirtieth of the distance of 500 between mean and bound."""
    half, people = 500, 1000
    squares = int(UNIT * people * (10 / half) ** 2)
    bounds = PhenotypeBounds("height", -half, half, 0, 10, "quantitative")
    (found,) = with_moments([bounds], NoisyMoments(((0,), (squares,), (UNIT * people,)), 1.0, "c"))
    assert found.sd > 15
    assert are_too_wide(found, 1.0, people)


@pytest.mark.parametrize("mean", [0, 400])
def test_an_sd_that_the_noise_hides_is_told(mean) -> None:
    """Noisy sds spread by more than a tenth exactly where the bounds count as too wide."""
    generator, half, people, sd = np.random.default_rng(2), 500, 10_000, 40
    bounds = PhenotypeBounds("height", -half, half, mean, sd, "quantitative")
    exact = np.array([mean / half, (mean**2 + sd**2) / half**2, 1]) * UNIT * people
    for sigma in (UNIT, 100 * UNIT):
        noise = generator.normal(0, sigma, (500, 3))
        draws = [
            with_moments([bounds], NoisyMoments(tuple((int(v),) for v in exact + e), sigma, "c"))
            for e in noise
        ]
        spread = np.std([found.sd for (found,) in draws]) / sd
        assert are_too_wide(bounds, sigma, people) == (spread > 0.1)


def test_any_noise_gives_a_phenotype_that_can_be_coded() -> None:
    bounds = PhenotypeBounds("trait", -1.0, 3.0, 1.0, 2.0, "quantitative")
    for sums in itertools.product(*[(-(10**12), 0, 10**12)] * 2, (-(10**12), 0, 10**7)):
        moments = NoisyMoments(tuple((value,) for value in sums), 1.0, "c")
        (found,) = with_moments([bounds], moments)
        assert -1 <= found.mean <= 3, sums
        assert code_outcomes([found], (), weight=1.0).unit >= 1024, sums
