"""Verification of a release with the ledger that paid for it, and with other ledgers."""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.documents import put, read_document
from support.release_edits import forge, problems_in
from support.release_examples import (
    EXPECTED,
    example_costs,
    example_design,
    example_mechanism,
    example_solved,
    example_weights,
    state,
)
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import verify as main
from primo_scale.errors import InputError
from primo_scale.gaussian.calibration import Cost
from primo_scale.ledger.accounts import Charge, ChargeRequest
from primo_scale.ledger.ledger import Ledger
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.publication.publish import publish_release
from primo_scale.run.publishing import Payment
from primo_scale.storage.files import sha256_of_file
from primo_scale.verify.files import Signer
from primo_scale.verify.ledger import ledger_findings


@dataclass(frozen=True)
class Paid:
    directory: Path
    ledger: Path
    charge: Charge

    def problems(self, ledger: Path | None = None) -> list[str]:
        return problems_in(ledger_findings(self.directory, ledger or self.ledger))

    def forge(self, document) -> None:
        """Restate the release under the ledger's own key, and record that it was published."""
        with Ledger(self.ledger) as ledger:
            forge(self.directory, document, Signer(ledger.public_key, ledger.sign))
            self.publish(ledger)

    def publish(self, ledger: Ledger) -> None:
        ledger.mark_published(self.charge, sha256_of_file(self.directory / "release.json"))


def pay(ledger: Ledger, mechanism: Mechanism) -> Payment:
    promise = mechanism.promise
    account = ledger.account_named("biobank", unit=promise.unit, adjacency=promise.adjacency)
    ledger.set_budget(account, epsilon=3 * promise.epsilon, delta=promise.delta)
    for number, cost in enumerate(example_costs(mechanism)):
        request = ChargeRequest(account, f"{number}", promise.epsilon, promise.delta, cost)
        charge = ledger.reserve(request).charge
        ledger.mark_drawn(charge, f"statistics {charge.id}")
    (balance,) = ledger.balances()
    return Payment(mechanism, balance.charges[1], balance, EXPECTED)


def make(root: Path, mode: str) -> Paid:
    weights, design = example_weights(), example_design(mode)
    with Ledger(root / "ledger.sqlite") as ledger:
        payment = pay(ledger, example_mechanism(mode, design))
        statement = state(design, example_solved(mode, design), payment)
        signer = Signer(ledger.public_key, ledger.sign)
        publish_release(root / "out", weights, statement, signer=signer)
        paid = Paid(root / "out", root / "ledger.sqlite", payment.charge)
        paid.publish(ledger)
    return paid


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Paid:
    return make(tmp_path_factory.mktemp("paid"), "full")


@pytest.fixture
def paid(made: Paid, tmp_path: Path) -> Paid:
    shutil.copytree(made.directory, tmp_path / "out")
    shutil.copy(made.ledger, tmp_path / "ledger.sqlite")
    return Paid(tmp_path / "out", tmp_path / "ledger.sqlite", made.charge)


@pytest.mark.parametrize("mode", ["full", "label-add-remove", "subsampled"])
def test_the_ledger_that_paid_agrees(mode, tmp_path):
    paid = make(tmp_path, mode)
    assert paid.problems() == []


def test_the_command_line(paid):
    arguments = [paid.directory, "--ledger", paid.ledger]
    assert "ok       charge" in succeeded(command(main, *arguments)).output
    refused(command(main, *arguments[:2], f"{paid.ledger}.absent"), 3, "no ledger here")
    paid.ledger.write_text("no ledger")
    with pytest.raises(InputError, match="is not a privacy ledger"):
        paid.problems()


def test_another_ledger_does_not_have_the_charges(paid, tmp_path):
    with Ledger(tmp_path / "other.sqlite") as other:
        key = other.public_key
    found = paid.problems(tmp_path / "other.sqlite")
    assert [problem.split(":")[0] for problem in found] == ["signer", "charge", "account"]
    assert key in found[0]


def test_another_release_on_the_same_charge_is_found(paid):
    document = put(read_document(paid.directory), "accuracy.definition", "a wish")
    with Ledger(paid.ledger) as ledger:
        forge(paid.directory, document, Signer(ledger.public_key, ledger.sign))
    (problem,) = paid.problems()
    assert "was published with another release.json" in problem


def test_a_charge_that_was_never_published_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(Paid, "publish", lambda *arguments: None)
    (problem,) = make(tmp_path, "full").problems()
    assert "was not published" in problem


@pytest.mark.parametrize(
    "path, value, what",
    [
        ("guarantee.epsilon", 4.0, "is for epsilon 5.0, stated is 4.0"),
        ("guarantee.delta", 1e-6, "is for delta 1e-07, stated is 1e-06"),
        ("guarantee.privacy", "label", "is for privacy unit full, stated is label"),
        ("guarantee.adjacency", "add-remove", "is for adjacency replace-one"),
        ("ledger.cohort", "other", "is for cohort biobank, stated is other"),
        ("ledger.charge", "0" * 16, "is not in the ledger"),
        ("guarantee.cost.mu_squared", 0.5, "cost "),
        ("guarantee.cost.delta", 1e-9, "cost "),
        ("ledger.before.mu_squared", 0.5, "is stated as spent before"),
        ("ledger.before.mu_squared", 0.0, "the earlier charges cost"),
        ("ledger.before.epsilon", 0.01, "is stated as spent before"),
        ("ledger.before.delta", 0.01, "is stated as spent before"),
        ("guarantee.delta", 1e-8, "the account's delta is 1e-07"),
    ],
)
def test_a_statement_that_the_ledger_contradicts_is_found(path, value, what, paid):
    """The ledger records it as published, but it is not what was paid for."""
    paid.forge(put(read_document(paid.directory), path, value))
    assert any(what in problem for problem in paid.problems()), paid.problems()


def test_later_charges_do_not_matter(paid):
    with Ledger(paid.ledger) as ledger:
        account = paid.charge.request.account
        ledger.set_budget(account, epsilon=40)
        ledger.reserve(ChargeRequest(account, "later", 5.0, 1e-7, Cost(0.5)))
    assert paid.problems() == []


def test_a_damaged_ledger_is_found(paid):
    with sqlite3.connect(paid.ledger) as database:
        database.execute("DROP TRIGGER events_are_final")
        database.execute("UPDATE events SET time = '2020-01-01' WHERE number = 3")
    assert any(p.startswith("ledger file: event 3") for p in paid.problems())


def test_a_release_without_noise_has_no_ledger(pristine, paid):
    (finding,) = ledger_findings(pristine[False], paid.ledger)
    assert not finding.ok
