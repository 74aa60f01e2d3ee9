"""Paid private statistics: the stated noise, one payment through every crash, and one ledger."""

import shutil
import stat
from dataclasses import replace

import numpy as np
import pytest
from support.crash import KILLED, STEPS, killed_at
from support.noise_checks import has_scale
from support.stores import zero_statistics
from support.tiers import thinned
from support.tiny_release import (
    SUBSAMPLE,
    charges_of,
    key_left,
    mechanism,
    noise_store,
    open_budget,
    pay,
    pay_adjustment,
)

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.noise import off_diagonal_sigma
from primo_scale.ledger.accounts import ChargeState
from primo_scale.ledger.ledger import Ledger
from primo_scale.privacy import payment
from primo_scale.privacy.mechanism import Recipe
from primo_scale.storage.block_matrices import BlockLayout


def test_drawn_noise_has_the_stated_scale(tmp_path):
    layout = BlockLayout((0, 90, 210), n_fixed=0, n_phenotypes=40)
    asked = mechanism(layout=layout, norms=(6_000, 8_000))
    matrices, _ = pay(tmp_path, zero_statistics(tmp_path / "raw", layout), asked)
    for block, sigma in enumerate(asked.scales.gram):
        above = matrices.gram(block)[np.triu_indices(layout.sizes[block], 1)]
        for noise, scale in (
            (above, off_diagonal_sigma(sigma)),
            (matrices.cross(block), asked.scales.phenotype_cross),
        ):
            assert has_scale(noise, scale)
            assert not has_scale(noise, 1.15 * scale)


def charge_for(*arguments):
    return pay(*arguments)[1].charge.id


def test_an_adjustment_that_is_lost_is_paid_again_and_drawn_anew(tmp_path):
    open_budget(tmp_path, 5.0)
    seen, receipt = pay_adjustment(tmp_path)
    (tmp_path / "work").rename(tmp_path / "elsewhere")
    other, again = pay_adjustment(tmp_path)
    assert "1 interrupted draws were charged too" in again.summary
    assert again.charge.id != receipt.charge.id and other.grams != seen.grams
    assert len(charges_of(tmp_path)) == 2


def test_statistics_of_another_draw_are_refused(tmp_path, raw):
    open_budget(tmp_path, 5.0)
    store, charge = noise_store(tmp_path), charge_for(tmp_path, raw)
    (tmp_path / "other").mkdir()
    other = charge_for(tmp_path / "other", raw, mechanism(0.3))
    shutil.rmtree(store.path_of(charge, "zarr"))
    noise_store(tmp_path / "other").path_of(other, "zarr").rename(store.path_of(charge, "zarr"))
    with pytest.raises(InputError, match="are not those that the ledger recorded"):
        pay(tmp_path, raw)


PAID_STEPS = STEPS[: STEPS.index("key removed") + 1]


@pytest.mark.parametrize(
    "recipe", thinned([Recipe(), SUBSAMPLE], every=2), ids=["all people", "subsample"]
)
@pytest.mark.parametrize("label", PAID_STEPS)
def test_a_crash_is_continued_with_the_same_noise_and_one_charge(tmp_path, raw, label, recipe):
    open_budget(tmp_path, 5.0)
    asked, directory = mechanism(recipe=recipe), noise_store(tmp_path).directory
    assert killed_at(label, pay, tmp_path, raw, asked) == KILLED
    half = [path.read_bytes() for path in sorted(directory.glob("*.zarr/gram/0/c/0/0"))]
    charge = charge_for(tmp_path, raw, asked)
    assert charge in noise_store(tmp_path).charges()
    assert key_left(tmp_path) is None, "a key that is kept undoes its noise"
    (known,) = charges_of(tmp_path)
    assert (known.id, known.state) == (charge, ChargeState.DRAWN)
    finished = sorted(directory.glob("*.zarr/gram/0/c/0/0"))
    if half:
        assert [path.read_bytes() for path in finished] == half


def test_a_refused_request_leaves_no_key(tmp_path, raw):
    open_budget(tmp_path, 0.5)
    with pytest.raises(BudgetRefused):
        pay(tmp_path, raw)
    assert not noise_store(tmp_path).directory.exists()


def test_a_key_that_was_never_paid_for_is_removed_by_the_next_charge(tmp_path, raw):
    """A run died between the two. Another ledger may know the key, for another request."""
    assert killed_at("key stored", pay, tmp_path, raw) == KILLED
    unpaid, _ = key_left(tmp_path)
    assert charge_for(tmp_path, raw, mechanism(0.3)) != unpaid
    assert key_left(tmp_path) is None


def test_a_paid_key_waits_for_its_own_request(tmp_path, raw):
    open_budget(tmp_path, 5.0)
    assert killed_at("reservation committed", pay, tmp_path, raw) == KILLED
    paid, _ = key_left(tmp_path)
    other, _ = pay_adjustment(tmp_path, epsilon=0.3)
    assert other.charge != paid
    noise_store(tmp_path).adjustment_path.unlink()
    assert charge_for(tmp_path, raw) == paid


def test_a_removed_key_stays_removed_after_power_loss(tmp_path, raw, monkeypatch):
    """Also where an earlier run removed it and got no further."""
    store, durable = noise_store(tmp_path), []
    charge = store.create_key(())
    monkeypatch.setattr(
        payment.files, "sync_directory", lambda path: durable.append(sorted(path.iterdir()))
    )
    store.open_key(charge)
    store.remove_key(charge)
    store.remove_key(charge)
    assert durable == [[store.directory / f"{charge}.key"], [], []]


def test_nobody_else_can_enter_the_directory_of_the_keys(tmp_path):
    noise_store(tmp_path).create_key(())
    assert stat.S_IMODE(noise_store(tmp_path).directory.stat().st_mode) == 0o700


def test_a_subsample_serves_one_release(tmp_path, raw):
    """Amplification is proved for one noise on a subsample, in a copied work directory too."""
    open_budget(tmp_path, 9.0)
    asked = mechanism(recipe=SUBSAMPLE)
    pay(tmp_path, raw, asked)
    for other in (replace(asked, split=0.5), replace(raw, sha256="of another subsample")):
        wanted = (raw, other) if other.__class__ is asked.__class__ else (other, asked)
        with pytest.raises(InputError, match="for other statistics or another method"):
            pay(tmp_path, *wanted)
    with pytest.raises(InputError, match="json: is not the result of this request"):
        pay(tmp_path, raw, mechanism(2.0, recipe=SUBSAMPLE))
    noise_store(tmp_path).directory.rename(tmp_path / "elsewhere")  # its noise is lost, or hidden
    with pytest.raises(InputError, match="is lost, and its key too"):
        pay(tmp_path, raw, asked)
    assert len(charges_of(tmp_path)) == 1


def replace_ledger(folder):
    path = folder / "ledger.sqlite"
    path.rename(folder / "backup.sqlite")
    Ledger(path).__exit__(None, None, None)
    return path


def refused(folder, raw, file):
    with pytest.raises(InputError, match="does not know a charge") as found:
        pay(folder, raw)
    line = str(found.value)
    assert str(folder / "ledger.sqlite") in line
    assert str(file) in line
    assert "from a backup" in line
    assert charges_of(folder) == []


def test_noise_of_another_ledger_is_refused(tmp_path, raw):
    charge = pay(tmp_path, raw)[1].charge.id
    ledger = replace_ledger(tmp_path)
    refused(tmp_path, raw, noise_store(tmp_path).path_of(charge, "zarr"))
    (tmp_path / "backup.sqlite").replace(ledger)
    assert pay(tmp_path, raw)[1].charge.id == charge
    assert len(charges_of(tmp_path)) == 1


@pytest.mark.parametrize("label", ["draw started", "block written", "statistics stored"])
def test_noise_of_a_draw_that_started_is_refused(tmp_path, raw, label):
    assert killed_at(label, pay, tmp_path, raw) == KILLED
    charge, _ = key_left(tmp_path)
    replace_ledger(tmp_path)
    refused(tmp_path, raw, noise_store(tmp_path).directory / f"{charge}.key")


@pytest.mark.parametrize("label", ["key stored", "reservation committed"])
def test_an_unused_key_is_not_refused(tmp_path, raw, label):
    """No noise exists that could be drawn a second time."""
    assert killed_at(label, pay, tmp_path, raw) == KILLED
    charge, _ = key_left(tmp_path)
    ledger = replace_ledger(tmp_path)
    assert pay(tmp_path, raw)[1].charge.id != charge, (
        "the key may be another request's in the ledger that was replaced"
    )
    (tmp_path / "backup.sqlite").replace(ledger)
    with pytest.raises(InputError, match="does not know a charge"):
        pay(tmp_path, raw)
