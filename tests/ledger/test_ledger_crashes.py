"""A release is killed at every step of the ledger and run again: no charge has two noises.

The release has two charges, as with paid phenotype means, and its statistics are random text.
"""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import sys
from collections import Counter

import pytest
from crash import KILLED, STEPS, UPGRADE_STEPS, killed_at, steps_passed
from ledger_examples import VERSION_1_CHARGE

from primo_scale.errors import InterruptedRun
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.interruption import deferred, signals_noted
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.payment_steps import AUDIT_EVENT, PaymentStep
from primo_scale.ledger.spending import Account, ChargeRequest, ChargeState

DELTA = 1e-8
ACCOUNT = Account("cohort")
PARTS = {"means": 0.05, "main": 0.95}
LEDGER_STEPS = (
    PaymentStep.RESERVATION_WRITTEN,
    PaymentStep.RESERVATION_COMMITTED,
    PaymentStep.DRAW_RECORD_WRITTEN,
    PaymentStep.DRAW_RECORD_COMMITTED,
    PaymentStep.PUBLICATION_RECORD_WRITTEN,
    PaymentStep.PUBLICATION_RECORD_COMMITTED,
)


def request(part):
    cost = Cost(PARTS[part] * release_mu(1.0, DELTA) ** 2)
    return ChargeRequest(ACCOUNT, part, 1.0, DELTA, cost, "people")


def release(folder):
    """Pay both charges, draw and store their noise, then publish one release."""
    with Ledger(folder / "ledger.sqlite") as ledger:
        paid = [(part, pay_and_draw(ledger, part, folder)) for part in PARTS]
        for part, charge in paid:
            ledger.mark_published(charge, f"release of {stored(folder, part)[1]}")


def pay_and_draw(ledger, part, folder):
    drawn = stored(folder, part)[:1]
    charge = ledger.reserve(request(part), stored_noise=drawn).charge
    if charge.id not in drawn:
        assert charge.state is ChargeState.RESERVED
        noise = secrets.token_hex(8)
        with (folder / "noises").open("a") as noises:
            noises.write(f"{charge.id}\n")
        (folder / "partial").write_text(f"{charge.id} {noise}")
        (folder / "partial").replace(folder / part)
    ledger.mark_drawn(charge, stored(folder, part)[1])
    return charge


def stored(folder, part):
    """Return the charge and the noise stored for a part, or an empty list."""
    path = folder / part
    return path.read_text().split() if path.exists() else []


def events(folder, kind):
    with Ledger(folder / "ledger.sqlite", create=False) as ledger:
        assert ledger.verify() == []
        return [body for _, found, body in ledger._log.events() if found == kind]


def open_budget(folder, epsilon):
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(ACCOUNT, epsilon=epsilon, delta=DELTA)


def test_the_steps_of_the_ledger_are_announced_in_order(tmp_path):
    once, twice = steps_passed(release, tmp_path), steps_passed(release, tmp_path)
    assert once == [*LEDGER_STEPS[:4] * 2, *LEDGER_STEPS[4:] * 2]
    assert twice == once, "a retry passes the same steps"
    assert len(events(tmp_path, "reserved")) == 2
    assert [label for label in STEPS if label in LEDGER_STEPS] == list(LEDGER_STEPS)


@pytest.mark.parametrize("occurrence", [1, 2])
@pytest.mark.parametrize("label", LEDGER_STEPS)
def test_a_crash_never_leads_to_two_noises_for_one_charge(tmp_path, label, occurrence):
    open_budget(tmp_path, 10.0)
    assert killed_at(label, release, tmp_path, occurrence=occurrence) == KILLED
    with Ledger(tmp_path / "ledger.sqlite", create=False) as ledger:
        assert ledger.verify() == []
        before = {charge.id for charge in ledger.balance(ACCOUNT).charges}
    release(tmp_path)

    drawn = Counter(body["charge"] for body in events(tmp_path, "drawn"))
    noises = Counter((tmp_path / "noises").read_text().split())
    assert set(drawn.values()) == {1}, "one digest for one charge"
    assert set(noises.values()) == {1}, "one noise for one charge"
    assert set(drawn) == set(noises)
    with Ledger(tmp_path / "ledger.sqlite", create=False) as ledger:
        charges = ledger.balance(ACCOUNT).charges
    assert before <= {charge.id for charge in charges}, "durable charges remain"
    # A charge is lost only between its reservation and the stored noise; it stays paid.
    lost = [charge for charge in charges if charge.state is ChargeState.RESERVED]
    assert len(lost) == (label is PaymentStep.RESERVATION_COMMITTED)
    assert len(charges) == len(PARTS) + len(lost)
    for part in PARTS:
        charge, noise = stored(tmp_path, part)
        (known,) = [c for c in charges if c.id == charge]
        assert known.state is ChargeState.PUBLISHED
        assert (known.statistics_digest, known.release_digests) == (noise, (f"release of {noise}",))


@pytest.mark.parametrize("label", LEDGER_STEPS)
def test_a_transaction_is_durable_from_its_second_step(tmp_path, label):
    open_budget(tmp_path, 10.0)
    assert killed_at(label, release, tmp_path) == KILLED
    done = LEDGER_STEPS.index(label) + 1
    assert bool(events(tmp_path, "reserved")) == (done >= 2)
    assert bool(events(tmp_path, "drawn")) == (done >= 4)
    assert bool(events(tmp_path, "published")) == (done >= 6)


def test_a_budget_and_the_charge_that_opens_it_are_one_transaction(tmp_path):
    assert killed_at(PaymentStep.RESERVATION_WRITTEN, release, tmp_path) == KILLED
    assert events(tmp_path, "budget") == []
    assert killed_at(PaymentStep.RESERVATION_COMMITTED, release, tmp_path) == KILLED
    assert len(events(tmp_path, "budget")) == len(events(tmp_path, "reserved")) == 1


def test_a_signal_before_the_charge_is_durable_spends_nothing(tmp_path, monkeypatch):
    """Also while interruptions wait for the end of the payment: nothing is paid yet."""
    open_budget(tmp_path, 10.0)

    def strike(event, label):
        if (event, label) == (AUDIT_EVENT, PaymentStep.RESERVATION_WRITTEN):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(sys, "audit", strike)
    with signals_noted(lambda: None), pytest.raises(InterruptedRun), deferred():
        release(tmp_path)
    assert events(tmp_path, "reserved") == []


def test_a_retry_that_the_budget_does_not_cover_is_refused(tmp_path):
    assert killed_at(PaymentStep.RESERVATION_COMMITTED, release, tmp_path, occurrence=2) == KILLED
    assert killed_at("no such step", release, tmp_path) == 1  # BudgetRefused, in the child
    assert len(events(tmp_path, "reserved")) == 2
    assert stored(tmp_path, "main") == []


@pytest.mark.parametrize("label", UPGRADE_STEPS)
def test_an_upgrade_is_one_transaction(tmp_path, version_1, label):
    assert steps_passed(lambda: None) == []
    assert killed_at(label, Ledger, version_1) == KILLED
    with sqlite3.connect(version_1) as database:
        kinds = [kind for (kind,) in database.execute("SELECT kind FROM events ORDER BY number")]
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    assert (
        ("upgraded" in kinds) == ("signing" in tables) == (label is PaymentStep.UPGRADE_COMMITTED)
    )
    assert steps_passed(Ledger, version_1) == list(
        UPGRADE_STEPS if label is PaymentStep.UPGRADE_WRITTEN else ()
    )
    with Ledger(version_1) as ledger:
        assert ledger.verify() == []
        assert [charge.id for charge in ledger.balances()[0].charges] == [VERSION_1_CHARGE]
    assert len(events(tmp_path, "upgraded")) == 1
