"""Paid private statistics: the stated noise, and one payment through every crash."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from crash import KILLED, STEPS, killed_at, steps_passed
from scipy.stats import norm
from small_pieces import pieces_of
from whole_matrices import zero_statistics

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.lattice_noise import off_diagonal_sigma
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Account, ChargeState, PayingCohort
from primo_scale.privacy import noise_store as noise_store_module
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.privacy.paid_statistics import pay_and_draw
from primo_scale.privacy.private_statistics import privatise
from primo_scale.privacy.scales import calibrate
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices

LAYOUT = BlockLayout((0, 90, 210), n_fixed=3, n_phenotypes=40)
N_SAMPLES = 1000
ACCOUNT = Account("cohort")
PLAIN = Recipe()


def raw_statistics(path):
    return zero_statistics(path, LAYOUT, n_samples=N_SAMPLES)


def mechanism(epsilon=1.0, *, privacy=PrivacyUnit.FULL, recipe=PLAIN, block_norms=None):
    bounds = PublicBounds(
        10_000, block_norms, 1_000_000, 2_000_000, LAYOUT.sizes, N_SAMPLES, LAYOUT.n_phenotypes
    )
    return calibrate(bounds, Promise(epsilon, 1e-6, privacy), recipe, split=1.3)


def pay(folder, raw, *, asked=None, on_block=lambda done, total: None):
    asked = asked or mechanism()
    account = Account("cohort", asked.promise.privacy, asked.promise.adjacency)
    with Ledger(folder / "ledger.sqlite") as ledger:
        return pay_and_draw(
            raw,
            asked,
            NoiseStore(folder / "noise"),
            ledger=ledger,
            paying_cohort=PayingCohort(account, "people"),
            on_block=on_block,
        )


def content(matrices: BlockMatrices):
    return matrices.sha256()


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
    "full": mechanism(),
    "by block": mechanism(block_norms=(6_000, 8_000)),
    "label": mechanism(privacy=PrivacyUnit.LABEL),
    "feature": mechanism(privacy=PrivacyUnit.FEATURE),
    "eigenvalue": mechanism(recipe=Recipe(eigenvalue_share=1 / 3)),
    "naive": mechanism(recipe=Recipe(gram_copies=3)),
    "subsample": mechanism(recipe=Recipe(subsample=100)),
}


@pytest.mark.parametrize(
    ("case", "tile"), [*((case, 1024) for case in CASES), ("full", 50), ("naive", 50)]
)
def test_every_statistic_gets_its_own_noise_of_the_stated_scale(tmp_path, case, tile):
    asked = CASES[case]
    with pieces_of(tile, tile * tile):
        matrices = pay(tmp_path, raw_statistics(tmp_path / "raw"), asked=asked).private.matrices
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


def test_exact_statistics_have_no_mechanism(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    assert privatise(raw, None).mechanism is None


def test_the_same_request_is_paid_once_and_another_anew(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=1.2, delta=1e-6)
    first, again = pay(tmp_path, raw), pay(tmp_path, raw)
    assert again.receipt.charge.id == first.receipt.charge.id
    assert content(again.private.matrices) == content(first.private.matrices)
    with pytest.raises(BudgetRefused):
        pay(tmp_path, raw, asked=mechanism(0.9))
    third = pay(tmp_path, raw, asked=mechanism(0.3))
    assert content(third.private.matrices) != content(first.private.matrices)
    # Another release in between does not affect the noise of the first one.
    assert content(pay(tmp_path, raw).private.matrices) == content(first.private.matrices)


def test_lost_noise_is_paid_again_and_reported(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    first = pay(tmp_path, raw)
    first_content = content(first.private.matrices)
    (tmp_path / "noise").rename(tmp_path / "elsewhere")
    second = pay(tmp_path, raw)
    assert second.receipt.charge.id != first.receipt.charge.id
    assert "lost" in second.receipt.summary
    assert content(second.private.matrices) != first_content


PAID_STEPS = STEPS[: STEPS.index("key removed") + 1]


@pytest.mark.parametrize("label", PAID_STEPS)
def test_a_crash_is_continued_with_the_same_noise_and_one_charge(tmp_path, label):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    assert killed_at(label, pay, tmp_path, raw) == KILLED
    half = [path.read_bytes() for path in sorted((tmp_path / "noise").glob("*.zarr/gram/0/c/0/0"))]
    done = pay(tmp_path, raw)
    assert done.receipt.charge.id in NoiseStore(tmp_path / "noise").charges()
    assert not list((tmp_path / "noise").glob("*.key")), "a key that is kept undoes its noise"
    assert not list((tmp_path / "noise").glob("*.unused"))
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        (known,) = ledger.balance(ACCOUNT).charges
        assert ledger.verify() == []
    assert known.state is ChargeState.DRAWN
    finished = sorted((tmp_path / "noise").glob("*.zarr/gram/0/c/0/0"))
    if half:
        assert [path.read_bytes() for path in finished] == half


def test_the_steps_are_passed_in_their_order(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    assert list(dict.fromkeys(steps_passed(pay, tmp_path, raw))) == list(PAID_STEPS)


def test_a_refused_request_leaves_no_key(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=0.5, delta=1e-6)
    with pytest.raises(BudgetRefused):
        pay(tmp_path, raw)
    assert not (tmp_path / "noise").exists()


def test_a_key_that_was_never_paid_for_is_removed_by_the_next_charge(tmp_path):
    """A run died between the two. Another ledger may know the key, for another request."""
    raw = raw_statistics(tmp_path / "raw")
    assert killed_at("key stored", pay, tmp_path, raw) == KILLED
    (unpaid,) = NoiseStore(tmp_path / "noise").unused_charges()
    assert pay(tmp_path, raw, asked=mechanism(0.3)).receipt.charge.id != unpaid
    assert NoiseStore(tmp_path / "noise").unused_charges() == frozenset()


def test_a_paid_key_waits_for_its_own_request(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    assert killed_at("reservation committed", pay, tmp_path, raw) == KILLED
    (paid,) = NoiseStore(tmp_path / "noise").unused_charges()
    assert pay(tmp_path, raw, asked=mechanism(0.3)).receipt.charge.id != paid
    assert pay(tmp_path, raw).receipt.charge.id == paid


# --- what a charge is for -------------------------------------------------------------------------


def charge_for(folder, **asked):
    return pay(folder, **asked).receipt.charge.id


def test_other_statistics_are_another_charge(tmp_path):
    """With the same mechanism and at the same cost."""
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    first = charge_for(tmp_path, raw=raw)
    other = charge_for(tmp_path, raw=dataclasses.replace(raw, sha256="another digest"))
    assert first != other
    assert charge_for(tmp_path, raw=raw) == first


@pytest.mark.parametrize(
    "other",
    [
        lambda asked: dataclasses.replace(asked, split=1.4),
        lambda asked: dataclasses.replace(
            asked, scales=dataclasses.replace(asked.scales, observed=asked.scales.observed * 2)
        ),
        lambda asked: dataclasses.replace(asked, recipe=Recipe(gram_copies=2)),
        lambda asked: dataclasses.replace(
            asked, bounds=dataclasses.replace(asked.bounds, row_norm=10_001)
        ),
    ],
    ids=["split", "scales", "recipe", "bounds"],
)
def test_another_mechanism_is_another_charge(tmp_path, other):
    """Of the same statistics, at the same cost."""
    raw, asked = raw_statistics(tmp_path / "raw"), mechanism()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    first = charge_for(tmp_path, raw=raw, asked=asked)
    assert other(asked).cost == asked.cost
    assert charge_for(tmp_path, raw=raw, asked=other(asked)) != first
    assert charge_for(tmp_path, raw=raw, asked=asked) == first


def test_a_removed_key_stays_removed_after_power_loss(tmp_path, monkeypatch):
    """Also where an earlier run removed it and got no further."""
    noise_store = NoiseStore(tmp_path)
    durable = []
    monkeypatch.setattr(
        noise_store_module, "sync_directory", lambda path: durable.append(sorted(path.iterdir()))
    )
    charge = noise_store.create_key(())
    noise_store.open_key(charge)
    noise_store.remove_key(charge)
    noise_store.remove_key(charge)
    assert durable == [[tmp_path / f"{charge}.key"], [], []]


def test_a_subsample_serves_one_release(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=9.0, delta=1e-6)
    first, other = (mechanism(e, recipe=Recipe(subsample=100)) for e in (1.0, 2.0))
    paid = pay(tmp_path, raw, asked=first)
    with pytest.raises(InputError, match="served a release already"):
        pay(tmp_path, raw, asked=other)
    assert pay(tmp_path, raw, asked=first).receipt.charge.id == paid.receipt.charge.id
    (tmp_path / "noise").rename(tmp_path / "elsewhere")  # its noise is lost, or hidden
    for asked in (first, other):
        with pytest.raises(InputError, match="served a release already"):
            pay(tmp_path, raw, asked=asked)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert len(ledger.balance(ACCOUNT).charges) == 1


@pytest.mark.parametrize("label", PAID_STEPS)
def test_an_interrupted_subsampled_release_is_continued(tmp_path, label):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=9.0, delta=1e-6)
    asked = mechanism(recipe=Recipe(subsample=100))

    def release():
        pay(tmp_path, raw, asked=asked)

    assert killed_at(label, release) == KILLED
    release()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert len(ledger.balance(ACCOUNT).charges) == 1


def test_each_privacy_unit_has_its_own_budget(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    pay(tmp_path, raw)
    label = mechanism(privacy=PrivacyUnit.LABEL)
    with pytest.raises(BudgetRefused, match="no budget for this kind of privacy"):
        pay(tmp_path, raw, asked=label)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(Account("cohort", PrivacyUnit.LABEL), epsilon=1.0, delta=1e-6)
    pay(tmp_path, raw, asked=label)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        accounts = [balance.account for balance in ledger.balances()]
    assert [a.unit for a in accounts] == [PrivacyUnit.FULL, PrivacyUnit.LABEL]
    assert all(a.adjacency is Adjacency.REPLACE_ONE for a in accounts)
