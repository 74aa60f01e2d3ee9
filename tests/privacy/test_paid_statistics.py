"""Paid private statistics: the stated noise, and one payment through every crash."""

from __future__ import annotations

import dataclasses
import shutil
import stat

import numpy as np
import pytest
from crash import KILLED, STEPS, killed_at, steps_passed
from scipy.stats import norm
from small_pieces import pieces_of
from tiny_release import (
    MECHANISM,
    SUBSAMPLE,
    charges_of,
    key_left,
    mechanism,
    noise_store,
    open_budget,
    pay,
    raw_statistics,
)

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.lattice_noise import off_diagonal_sigma
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.ledger.spending import ChargeState
from primo_scale.privacy import noise_store as noise_store_module
from primo_scale.privacy.mechanism import Recipe
from primo_scale.privacy.private_statistics import privatise
from primo_scale.storage.block_matrices import BlockLayout

LAYOUT = BlockLayout((0, 90, 210), n_fixed=3, n_phenotypes=40)


def parts_of(matrices, scales):
    """Return every statistic, which consists of noise alone, with its scale."""
    upper = [np.triu_indices(size, 1) for size in LAYOUT.sizes]
    f, gram = LAYOUT.n_fixed, matrices.outcome_gram()
    parts = {}
    for block, sigma in enumerate(scales.gram):
        for copy in range(matrices.gram_copies):
            noisy = matrices.gram(block, copy)
            np.testing.assert_array_equal(noisy, noisy.T)
            parts[f"diagonal of X'X {block} {copy}"] = (noisy.diagonal(), sigma)
            parts[f"X'X {block} {copy}"] = (noisy[upper[block]], off_diagonal_sigma(sigma))
        cross = matrices.cross(block)
        parts[f"X'C {block}"] = (cross[:, :f].ravel(), scales.fixed_cross)
        parts[f"X'Y {block}"] = (cross[:, f:].ravel(), scales.phenotype_cross)
    np.testing.assert_array_equal(gram, gram.T)
    fixed, phenotypes = gram[:f, :f], gram[f:, f:]
    for name, square, sigma in (("C'C", fixed, scales.fixed_gram),
                                ("Y'Y", phenotypes, scales.phenotype_gram)):  # fmt: skip
        off = square[np.triu_indices(len(square), 1)]
        parts[name] = (off, off_diagonal_sigma(sigma))
        parts[f"diagonal of {name}"] = (square.diagonal(), sigma)
    parts["C'Y"] = (gram[:f, f:].ravel(), scales.fixed_phenotype)
    parts["observed"] = (matrices.observed(), scales.observed)
    return parts


CASES = {
    "full": {},
    "by block": {"norms": (6_000, 8_000)},
    "label": {"privacy": PrivacyUnit.LABEL},
    "feature": {"privacy": PrivacyUnit.FEATURE},
    "eigenvalue": {"recipe": Recipe(eigenvalue_share=1 / 3)},
    "naive": {"recipe": Recipe(gram_copies=3)},
    "subsample": {"recipe": SUBSAMPLE},
}


@pytest.mark.parametrize(
    ("case", "tile"), [*((case, 1024) for case in CASES), ("full", 50), ("naive", 50)]
)
def test_every_statistic_gets_its_own_noise_of_the_stated_scale(tmp_path, case, tile):
    asked = mechanism(layout=LAYOUT, **CASES[case])
    with pieces_of(tile, tile * tile):
        matrices, _ = pay(tmp_path, raw_statistics(tmp_path / "raw", LAYOUT), asked)
        parts = parts_of(matrices, asked.scales)
    assert (matrices.smallest_eigenvalue() is not None) is (case == "eigenvalue")
    for name, (part, sigma) in parts.items():
        if sigma < 1e-300:
            assert not part.any(), f"{name} is public and gets no noise"
            continue
        # Two-sided at a false alarm of 1e-8 for each statistic; the sd of an sd is sigma/sqrt(2m).
        margin = norm.isf(5e-9) / np.sqrt(2 * part.size)
        sd = np.sqrt(np.mean((part / sigma) ** 2))
        assert abs(sd - 1) < margin * 1.2, name
        if part.size > 7000:
            assert margin * 1.2 < 0.06, "a scale off by 6% would be found"
    # No two statistics share their noise.
    large = [part[:900] for part, sigma in parts.values() if part.size >= 900 and sigma > 1e-300]
    correlations = np.corrcoef(large) - np.eye(len(large))
    assert np.abs(correlations).max() < norm.isf(5e-9) / np.sqrt(900)


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


def test_lost_noise_is_paid_again_and_reported(tmp_path, raw):
    open_budget(tmp_path, 5.0)
    first, receipt = pay(tmp_path, raw)
    first_content = first.sha256()
    noise_store(tmp_path).directory.rename(tmp_path / "elsewhere")
    second, receipt_again = pay(tmp_path, raw)
    assert receipt_again.charge.id != receipt.charge.id
    assert "lost" in receipt_again.summary
    assert second.sha256() != first_content


def test_statistics_of_another_draw_are_refused(tmp_path, raw):
    open_budget(tmp_path, 5.0)
    store, charge = noise_store(tmp_path), charge_for(tmp_path, raw)
    other = charge_for(tmp_path, raw, mechanism(0.3))
    shutil.rmtree(store.statistics_path(charge))
    store.statistics_path(other).rename(store.statistics_path(charge))
    with pytest.raises(InputError, match="are not those that the ledger recorded"):
        pay(tmp_path, raw)


PAID_STEPS = STEPS[: STEPS.index("key removed") + 1]


@pytest.mark.parametrize("recipe", [Recipe(), SUBSAMPLE], ids=["all people", "subsample"])
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


def test_other_statistics_are_another_charge(tmp_path, raw):
    """With the same mechanism and at the same cost."""
    open_budget(tmp_path, 5.0)
    first = charge_for(tmp_path, raw)
    assert charge_for(tmp_path, dataclasses.replace(raw, sha256="another digest")) != first
    assert charge_for(tmp_path, raw) == first


@pytest.mark.parametrize(
    "changes",
    [
        {"split": 1.4},
        {"scales": dataclasses.replace(MECHANISM.scales, observed=MECHANISM.scales.observed * 2)},
        {"recipe": Recipe(gram_copies=2)},
        {"bounds": dataclasses.replace(MECHANISM.bounds, row_norm=10_001)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_mechanism_is_another_charge(tmp_path, raw, changes):
    """Of the same statistics, at the same cost."""
    open_budget(tmp_path, 5.0)
    first = charge_for(tmp_path, raw)
    assert charge_for(tmp_path, raw, dataclasses.replace(MECHANISM, **changes)) != first
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
    noise_store(tmp_path).subsample_use_path.unlink()  # the ledger still knows the first release
    with pytest.raises(InputError, match="served a release already"):
        pay(tmp_path, raw, first)
    assert len(charges_of(tmp_path)) == 1
