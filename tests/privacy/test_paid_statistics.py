"""The door and the ledger together: noise of the stated scale, paid once, through every crash."""

from __future__ import annotations

import multiprocessing
import os
import signal

import numpy as np
import pytest
from scipy.stats import norm

from primo_scale.accumulate.statistics import RawStatistics
from primo_scale.errors import BudgetRefused
from primo_scale.privacy import noise
from primo_scale.privacy.ledger import Ledger
from primo_scale.privacy.mechanism import PublicBounds, calibrate
from primo_scale.privacy.noise_at_hand import NoiseAtHand
from primo_scale.privacy.paid_statistics import Payer, pay_and_draw
from primo_scale.privacy.private_statistics import count_draws, privatise
from primo_scale.privacy.spending import Account, ChargeState
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices, BlockMatricesWriter

LAYOUT = BlockLayout((0, 90, 210), n_fixed=3, n_phenotypes=40)
N_SAMPLES = 1000
ACCOUNT = Account("cohort")
PROCESSES = multiprocessing.get_context("fork")


def raw_statistics(path):
    """Statistics of nobody: all zero, so that what comes out of the door is the noise."""
    writer = BlockMatricesWriter(path, "statistics", LAYOUT)
    for block, size in enumerate(LAYOUT.sizes):
        writer.write_gram(block, np.zeros((size, size), np.int64))
        writer.write_cross(block, np.zeros((size, LAYOUT.n_outcomes), np.int64))
    writer.write_outcome_gram(np.zeros((LAYOUT.n_outcomes,) * 2, np.int64))
    writer.write_observed(np.zeros(LAYOUT.n_phenotypes, np.int64))
    return RawStatistics(writer.finish({}), N_SAMPLES, "digest", {})


def mechanism(epsilon=1.0):
    bounds = PublicBounds(10_000, 3_000_000, N_SAMPLES, LAYOUT.n_phenotypes)
    return calibrate(bounds, epsilon=epsilon, delta=1e-6, split=1.3)


def pay(folder, raw, *, epsilon=1.0, on_block=lambda done, total: None):
    with Ledger(folder / "ledger.sqlite") as ledger:
        return pay_and_draw(
            raw,
            mechanism(epsilon),
            NoiseAtHand(folder / "noise"),
            ledger=ledger,
            payer=Payer(ACCOUNT, "people"),
            on_block=on_block,
        )


def content(matrices: BlockMatrices):
    return matrices.sha256()


@pytest.fixture(params=["keystream", "opendp"])
def sampler(request, monkeypatch):
    threshold = 0 if request.param == "keystream" else 10**9
    monkeypatch.setattr(noise, "KEYSTREAM_FROM_DRAWS", threshold)
    return request.param


def test_every_statistic_gets_its_own_noise_of_the_stated_scale(tmp_path, sampler):
    raw, scales = raw_statistics(tmp_path / "raw"), mechanism()
    matrices = pay(tmp_path, raw).private.matrices
    upper = [np.triu_indices(size, 1) for size in LAYOUT.sizes]
    grams = [matrices.gram(block) for block in range(2)]
    outcome_gram = matrices.outcome_gram()
    for gram in (*grams, outcome_gram):
        np.testing.assert_array_equal(gram, gram.T)
    parts = {
        "diagonal of X'X": (np.concatenate([g.diagonal() for g in grams]), scales.gram_sigma),
        "X'X": (
            np.concatenate([g[u] for g, u in zip(grams, upper, strict=True)]),
            scales.gram_off_diagonal_sigma,
        ),
        "X'Z": (
            np.concatenate([matrices.cross(block).ravel() for block in range(2)]),
            scales.cross_sigma,
        ),
        "Z'Z": (
            outcome_gram[np.triu_indices(LAYOUT.n_outcomes, 1)],
            scales.outcome_off_diagonal_sigma,
        ),
        "diagonal of Z'Z": (outcome_gram.diagonal(), scales.outcome_sigma),
        "observed": (matrices.observed(), scales.counts_sigma),
    }
    assert sum(part.size for part, _ in parts.values()) == count_draws(LAYOUT)
    for name, (part, sigma) in parts.items():
        # Two-sided at a false alarm of 1e-7 for each statistic; the sd of an sd is sigma/sqrt(2m).
        margin = norm.isf(5e-8) / np.sqrt(2 * part.size)
        sd = np.sqrt(np.mean((part / sigma) ** 2))
        assert abs(sd - 1) < max(margin, 1e-9) * 1.2, name
        if part.size > 5000:
            assert margin * 1.2 < 0.06, "a scale off by 6% would be found"
    # The sum over everything says that no two statistics share their noise.
    first, second = parts["X'X"][0][:5000], parts["X'Z"][0][:5000]
    assert abs(np.corrcoef(first, second)[0, 1]) < norm.isf(5e-8) / np.sqrt(5000)


def test_no_noise_is_said_to_be_none(tmp_path):
    raw = raw_statistics(tmp_path / "raw")
    assert privatise(raw, None).mechanism is None


def test_the_same_request_is_paid_once_and_another_anew(tmp_path, sampler):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=1.2, delta=1e-6)
    first, again = pay(tmp_path, raw), pay(tmp_path, raw)
    assert again.charge.id == first.charge.id
    assert content(again.private.matrices) == content(first.private.matrices)
    with pytest.raises(BudgetRefused):
        pay(tmp_path, raw, epsilon=0.9)
    third = pay(tmp_path, raw, epsilon=0.3)
    assert content(third.private.matrices) != content(first.private.matrices)
    # Another release in between does not take the first one's noise away.
    assert content(pay(tmp_path, raw).private.matrices) == content(first.private.matrices)


def test_lost_noise_is_paid_again_and_said(tmp_path, sampler):
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    first = pay(tmp_path, raw)
    first_content = content(first.private.matrices)
    (tmp_path / "noise").rename(tmp_path / "elsewhere")
    second = pay(tmp_path, raw)
    assert second.charge.id != first.charge.id
    assert "lost" in second.history
    assert content(second.private.matrices) != first_content


def crash_at(point, folder, raw):
    """Run a release in a child that kills itself at a labelled point."""

    def kill(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def child():
        if point == "after reserving":
            NoiseAtHand.key = kill
            NoiseAtHand.store = kill
        if point == "before recording":
            Ledger.mark_drawn = kill
        if point == "after recording":
            NoiseAtHand.forget_key = kill
        pay(folder, raw, on_block=kill if point == "while drawing" else lambda *_: None)

    process = PROCESSES.Process(target=child)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "charges"),
    [
        ("after reserving", 2),  # nothing was drawn, but the ledger cannot know
        ("while drawing", 1),
        ("before recording", 1),
        ("after recording", 1),
    ],
)
def test_a_crash_is_continued_with_the_very_same_noise(tmp_path, monkeypatch, point, charges):
    monkeypatch.setattr(noise, "KEYSTREAM_FROM_DRAWS", 0)
    raw = raw_statistics(tmp_path / "raw")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=1e-6)
    crash_at(point, tmp_path, raw)
    half = [path.read_bytes() for path in sorted((tmp_path / "noise").glob("*.zarr/gram/0/c/0/0"))]
    done = pay(tmp_path, raw)
    assert done.charge.id in NoiseAtHand(tmp_path / "noise").charges()
    assert not list((tmp_path / "noise").glob("*.key")), "a key that is kept undoes its noise"
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        known = ledger.balance(ACCOUNT).charges
        assert ledger.verify() == []
    assert len(known) == charges
    assert known[-1].state is ChargeState.DRAWN
    if point == "while drawing":
        finished = sorted((tmp_path / "noise").glob("*.zarr/gram/0/c/0/0"))
        assert [path.read_bytes() for path in finished] == half != []
