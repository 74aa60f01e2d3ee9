"""A process dies at each step of the ledger: every transaction is recorded whole, or not at all."""

import os
import signal
import sys

import pytest
from support.crash import KILLED, STEPS, killed_at, steps_passed
from support.ledger_examples import publish

from primo_scale.errors import InterruptedRun
from primo_scale.interruption import deferred, signals_noted
from primo_scale.ledger.ledger import AUDIT_EVENT, Ledger, PaymentStep

LEDGER_STEPS = (
    PaymentStep.RESERVATION_WRITTEN,
    PaymentStep.RESERVATION_COMMITTED,
    PaymentStep.DRAW_RECORD_WRITTEN,
    PaymentStep.DRAW_RECORD_COMMITTED,
    PaymentStep.PUBLICATION_RECORD_WRITTEN,
    PaymentStep.PUBLICATION_RECORD_COMMITTED,
)


def release(path):
    with Ledger(path) as ledger:
        publish(ledger)


def kinds_of_events(path):
    with Ledger(path, create=False) as ledger:
        assert ledger.verify() == []
        return [kind for _, kind, _ in ledger.events()]


def test_the_steps_of_the_ledger_are_announced_in_order(path):
    assert steps_passed(release, path) == list(LEDGER_STEPS)
    assert [label for label in STEPS if label in LEDGER_STEPS] == list(LEDGER_STEPS)


@pytest.mark.parametrize("label", LEDGER_STEPS)
def test_a_transaction_is_durable_from_its_second_step(path, label):
    """A budget and the charge that opens it are one transaction."""
    assert killed_at(label, release, path) == KILLED
    n_events = {0: 1, 1: 3, 2: 4, 3: 5}[(LEDGER_STEPS.index(label) + 1) // 2]
    kinds = ["created", "budget", "reserved", "drawn", "published"]
    assert kinds_of_events(path) == kinds[:n_events]


def test_a_signal_before_the_charge_is_durable_spends_nothing(path, monkeypatch):
    """Also while interruptions wait for the end of the payment: nothing is paid yet."""

    def strike(event, label):
        if (event, label) == (AUDIT_EVENT, PaymentStep.RESERVATION_WRITTEN):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(sys, "audit", strike)
    with signals_noted(lambda: None), pytest.raises(InterruptedRun), deferred():
        release(path)
    assert kinds_of_events(path) == ["created"]
