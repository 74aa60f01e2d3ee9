"""Paid private statistics: the stated noise, and one payment through every crash."""

import shutil
import stat
from dataclasses import replace

import numpy as np
import pytest
from crash import KILLED, STEPS, killed_at, steps_passed
from noise_checks import has_scale
from tiers import thinned
from tiny_release import (
    MECHANISM,
    SUBSAMPLE,
    charges_of,
    key_left,
    mechanism,
    noise_store,
    open_budget,
    pay,
)
from whole_matrices import zero_statistics

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.lattice_noise import off_diagonal_sigma
from primo_scale.ledger import ledger
from primo_scale.ledger.history import reservation_as_json
from primo_scale.ledger.spending import Account, ChargeState
from primo_scale.privacy import noise_store as noise_store_module
from primo_scale.privacy.mechanism import Recipe
from primo_scale.privacy.private_statistics import privatise
from primo_scale.storage.block_matrices import BlockLayout


def test_drawn_noise_has_the_stated_scale(tmp_path):
    layout = BlockLayout((0, 90, 210), n_fixed=3, n_phenotypes=40)
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


def test_exact_statistics_have_no_mechanism(raw):
    assert privatise(raw, None).mechanism is None


def charge_for(*arguments):
    return pay(*arguments)[1].charge.id


def test_the_same_request_is_paid_once_and_another_anew(tmp_path, raw):
    open_budget(tmp_path, 1.2)
    (first, receipt), (again, receipt_again) = pay(tmp_path, raw), pay(tmp_path, raw)
    assert receipt_again.charge.id == receipt.charge.id
    assert again.sha256() == first.sha256()
    with pytest.raises(BudgetRefused):
        pay(tmp_path, raw, mechanism(0.9))
    third, _ = pay(tmp_path, raw, mechanism(0.3))
    assert third.sha256() != first.sha256()
    # Another release in between does not affect the noise of the first one.
    assert pay(tmp_path, raw)[0].sha256() == first.sha256()


def test_noise_that_is_lost_is_paid_again_and_drawn_anew(tmp_path, raw):
    """What was drawn may have been seen; the same key cannot come back."""
    open_budget(tmp_path, 5.0)
    seen, receipt = pay(tmp_path, raw)
    digest = seen.sha256()
    noise_store(tmp_path).directory.rename(tmp_path / "elsewhere")
    other, again = pay(tmp_path, raw)
    assert "is lost: paid again" in again.summary
    assert again.charge.id != receipt.charge.id and other.sha256() != digest
    assert len(charges_of(tmp_path)) == 2


def test_statistics_of_another_draw_are_refused(tmp_path, raw):
    open_budget(tmp_path, 5.0)
    store, charge = noise_store(tmp_path), charge_for(tmp_path, raw)
    other = charge_for(tmp_path, raw, mechanism(0.3))
    shutil.rmtree(store.statistics_path(charge))
    store.statistics_path(other).rename(store.statistics_path(charge))
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


def test_the_steps_are_passed_in_their_order(tmp_path, raw):
    assert list(dict.fromkeys(steps_passed(pay, tmp_path, raw))) == list(PAID_STEPS)


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
    assert charge_for(tmp_path, raw, mechanism(0.3)) != paid
    assert charge_for(tmp_path, raw) == paid


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        ("statistics", {"sha256": "another digest"}),
        ("mechanism", {"split": 1.4}),
        ("mechanism", {"scales": replace(MECHANISM.scales, observed=9.0)}),
        ("mechanism", {"recipe": Recipe(gram_copies=2)}),
        ("mechanism", {"bounds": replace(MECHANISM.bounds, row_norm=10_001)}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_other_statistics_or_another_mechanism_is_another_charge(tmp_path, raw, other, changes):
    """At the same cost."""
    open_budget(tmp_path, 5.0)
    asked = {"statistics": raw, "mechanism": MECHANISM}
    first = charge_for(tmp_path, *asked.values())
    asked[other] = replace(asked[other], **changes)
    assert charge_for(tmp_path, *asked.values()) != first
    assert charge_for(tmp_path, raw) == first


def test_a_removed_key_stays_removed_after_power_loss(tmp_path, raw, monkeypatch):
    """Also where an earlier run removed it and got no further."""
    store, durable = noise_store(tmp_path), []
    monkeypatch.setattr(
        noise_store_module, "sync_directory", lambda path: durable.append(sorted(path.iterdir()))
    )
    charge = store.create_key(())
    store.open_key(charge)
    store.remove_key(charge)
    store.remove_key(charge)
    assert durable == [[store.directory / f"{charge}.key"], [], []]


def test_nobody_else_can_enter_the_directory_of_the_keys(tmp_path):
    noise_store(tmp_path).create_key(())
    assert stat.S_IMODE(noise_store(tmp_path).directory.stat().st_mode) == 0o700


def test_a_subsample_serves_one_release(tmp_path, raw):
    open_budget(tmp_path, 9.0)
    first, other = (mechanism(epsilon, recipe=SUBSAMPLE) for epsilon in (1.0, 2.0))
    charge = charge_for(tmp_path, raw, first)
    with pytest.raises(InputError, match="served a release already"):
        pay(tmp_path, raw, other)
    assert charge_for(tmp_path, raw, first) == charge
    noise_store(tmp_path).directory.rename(tmp_path / "elsewhere")  # its noise is lost, or hidden
    for asked in (first, other):
        with pytest.raises(InputError, match="served a release already"):
            pay(tmp_path, raw, asked)
    noise_store(tmp_path).subsample_use_path.unlink()  # as in a copy made before the release
    open_budget(tmp_path, 9.0, Account("the same people"))
    for asked in (first, other):
        for cohort in ("cohort", "the same people"):
            with pytest.raises(InputError, match="served a release already"):
                pay(tmp_path, raw, asked, cohort)
    assert len(charges_of(tmp_path)) == 1
    fresh = replace(raw, sha256="of another subsample")
    assert charge_for(tmp_path, fresh, other, "the same people") != charge


def test_a_work_directory_knows_that_version_0_3_released_its_subsample(tmp_path, raw, monkeypatch):
    """Its ledger did not record whose subsample it was."""
    with monkeypatch.context() as earlier:
        earlier.setattr(
            ledger,
            "reservation_as_json",
            lambda charge: {**reservation_as_json(charge), "subsample": ""},
        )
        pay(tmp_path, raw, mechanism(recipe=SUBSAMPLE))
    open_budget(tmp_path, 9.0, Account("the same people"))
    with pytest.raises(InputError, match="served a release already"):
        pay(tmp_path, raw, mechanism(2.0, recipe=SUBSAMPLE), "the same people")


def test_a_subsample_whose_noise_was_lost_before_it_was_recorded_serves_no_other(tmp_path, raw):
    """As from a backup of the work directory: the ledger alone knows that there was a noise."""
    open_budget(tmp_path, 9.0)
    asked, store = mechanism(recipe=SUBSAMPLE), noise_store(tmp_path)
    assert killed_at("draw record written", pay, tmp_path, raw, asked) == KILLED
    shutil.rmtree(store.directory)
    store.subsample_use_path.unlink()
    with pytest.raises(InputError, match="served a release already"):
        pay(tmp_path, raw, asked)
    assert [charge.state for charge in charges_of(tmp_path)] == [ChargeState.RESERVED]
