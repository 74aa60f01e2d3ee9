"""``primo-scale ledger`` as a user runs it."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from primo_scale.cli.ledger import main
from primo_scale.errors import BudgetRefused
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Account, ChargeRequest

ROOT = Path(__file__).resolve().parents[2]


def request(account, digest, epsilon, delta):
    return ChargeRequest(account, digest, epsilon, delta, Cost(release_mu(epsilon, delta) ** 2))


@pytest.fixture
def path(tmp_path):
    """A ledger with one cohort, known by its digest, that has spent epsilon 5 of 5."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        account = Account(ledger.cohort_identifier("genotypes"))
        charge = ledger.reserve(request(account, "request", 5.0, 1e-8)).charge
        ledger.mark_drawn(charge, "noised")
    return path


def identifier(path):
    with Ledger(path, create=False) as ledger:
        return ledger.cohort_identifier("genotypes")


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_show_prints_budget_spent_left_and_charges(path):
    code, output = run("show", "--ledger", path)
    assert code == 0
    assert f"cohort {identifier(path)[:12]} (full privacy, replace-one)" in output
    assert "budget  epsilon 5 at delta 1e-08" in output
    assert "spent   epsilon 5 in 1 charges" in output
    assert "left    epsilon 0\n" in output
    assert "drawn" in output
    (key,) = [line.split()[2] for line in output.splitlines() if line.startswith("public key ")]
    with Ledger(path, create=False) as ledger:
        assert key == ledger.public_key


def test_show_says_what_a_subsampled_charge_takes(path):
    cost = Cost(release_mu(1.0, 5e-9) ** 2, 1.0, 5e-9)
    with Ledger(path) as ledger:
        account = ledger.balances()[0].account
        ledger.set_budget(account, epsilon=20.0)
        ledger.reserve(ChargeRequest(account, "subsampled", 2.0, 1e-8, cost))
    code, output = run("show", "--ledger", path)
    assert code == 0
    assert output.count("epsilon 2  mu^2 ") == 1
    assert output.count(" and (epsilon 1, delta 5e-09)") == 1


def test_each_unit_and_adjacency_has_a_budget_of_its_own(path):
    short = identifier(path)[:12]
    common = ("set-budget", "--ledger", path, "--cohort", short)
    code, output = run(*common, "--epsilon", 3, "--privacy", "label")
    assert code == 2
    assert f"a new budget needs a delta (got {short} (label privacy, replace-one))" in output
    code, output = run(*common, "--epsilon", 3, "--privacy", "label", "--delta", 1e-9)
    assert code == 0
    assert "new cohort" not in output
    assert f"cohort {short} (label privacy, replace-one)" in output
    assert "left    epsilon 3\n" in output
    code, _ = run(*common, "--epsilon", 2, "--adjacency", "add-remove", "--delta", 1e-7)
    assert code == 0
    code, output = run("show", "--ledger", path, "--cohort", short)
    assert code == 0
    titles = [line for line in output.splitlines() if line.startswith("cohort ")]
    assert titles == [
        f"cohort {short} (full privacy, replace-one)",
        f"cohort {short} (label privacy, replace-one)",
        f"cohort {short} (full privacy, add-remove)",
    ]
    # Three accounts, one cohort: it need not be named.
    code, output = run("set-budget", "--ledger", path, "--epsilon", 4, "--privacy", "label")
    assert code == 0
    with Ledger(path, create=False) as ledger:
        epsilons = {balance.account: balance.budget.epsilon for balance in ledger.balances()}
    cohort = identifier(path)
    assert epsilons == {
        Account(cohort): 5.0,
        Account(cohort, PrivacyUnit.LABEL): 4.0,
        Account(cohort, adjacency=Adjacency.ADD_REMOVE): 2.0,
    }


@pytest.mark.parametrize("option", ["--privacy", "--adjacency"])
def test_other_units_and_adjacencies_are_usage_errors(path, option):
    code, output = run("set-budget", "--ledger", path, "--epsilon", 6, option, "none")
    assert code == 2
    assert option in output


def test_show_can_be_limited_to_a_cohort(path):
    run("set-budget", "--ledger", path, "--cohort", "biobank", "--epsilon", 1, "--delta", 1e-9)
    _, output = run("show", "--ledger", path, "--cohort", "biobank")
    assert output.count("cohort ") == 1
    code, output = run("show", "--ledger", path, "--cohort", "bio")
    assert code == 2
    assert "error: --cohort: no such cohort (got bio; limit known: " in output


def test_set_budget_raises_the_only_cohort(path):
    code, output = run("set-budget", "--ledger", path, "--epsilon", 6)
    assert code == 0
    assert "budget  epsilon 6 at delta 1e-08" in output


def test_set_budget_finds_a_cohort_by_the_beginning_of_its_identifier(path):
    short = identifier(path)[:12]
    code, _ = run("set-budget", "--ledger", path, "--cohort", short, "--epsilon", 6)
    assert code == 0
    with Ledger(path, create=False) as ledger:
        assert [balance.budget.epsilon for balance in ledger.balances()] == [6.0]


def test_fewer_than_8_digits_are_the_name_of_another_cohort(path):
    for length, code in ((7, 2), (8, 0)):
        short = identifier(path)[:length]
        assert run("show", "--ledger", path, "--cohort", short)[0] == code
        assert run("set-budget", "--ledger", path, "--cohort", short, "--epsilon", 6)[0] == code
    arguments = ("--cohort", identifier(path)[:7], "--epsilon", 1, "--delta", 1e-9)
    code, output = run("set-budget", "--ledger", path, *arguments)
    assert code == 0
    assert f"new cohort: {identifier(path)[:7]}\n" in output


@pytest.mark.parametrize("cohort", ["biobank", None])
def test_the_command_that_a_refusal_names_opens_the_budget(path, cohort):
    """For another name, and for another unit of the same cohort; E and D filled in."""
    with Ledger(path) as ledger:
        people = ledger.cohort_identifier("others")
        ledger.reserve(replace(request(Account("known"), "known", 1.0, 1e-8), people_digest=people))
        account = Account(cohort or "known", PrivacyUnit.LABEL, Adjacency.ADD_REMOVE)
        asked = replace(request(account, "label", 2.0, 1e-9), people_digest=people)
        with pytest.raises(BudgetRefused) as refused:
            ledger.reserve(asked)
    words = shlex.split(str(refused.value).split("primo-scale ledger ")[1])
    filled = {"E": "2", "D": "1e-9"}
    assert run(*(filled.get(word, word) for word in words))[0] == 0
    with Ledger(path) as ledger:
        assert not ledger.reserve(asked).opened_budget


def test_set_budget_opens_a_named_cohort_in_a_new_ledger(tmp_path):
    path = tmp_path / "new.sqlite"
    arguments = ("set-budget", "--ledger", path, "--cohort", "biobank", "--epsilon", 3)
    code, output = run(*arguments)
    assert code == 2
    assert "error: --delta: a new budget needs a delta" in output
    assert "new cohort" not in output
    code, output = run(*arguments, "--delta", 1e-10)
    assert code == 0
    assert "new cohort: biobank" in output
    with Ledger(path) as ledger:
        assert not ledger.reserve(request(Account("biobank"), "r", 3.0, 1e-10)).opened_budget


def test_set_budget_needs_a_cohort_when_there_are_several(path):
    run("set-budget", "--ledger", path, "--cohort", "biobank", "--epsilon", 1, "--delta", 1e-9)
    code, output = run("set-budget", "--ledger", path, "--epsilon", 6)
    assert code == 2
    assert "name the cohort" in output


def test_another_delta_is_a_refused_budget(path):
    code, output = run("set-budget", "--ledger", path, "--epsilon", 6, "--delta", 1e-9)
    assert code == 6
    assert "delta was fixed" in output


def test_verify_says_what_is_wrong(path):
    code, output = run("verify", "--ledger", path)
    assert code == 0
    assert "verified" in output
    with sqlite3.connect(path) as database:
        database.execute("DROP TRIGGER events_are_final")
        database.execute("UPDATE events SET time = 'x' WHERE number = 2")
    code, output = run("verify", "--ledger", path)
    assert code == 1
    assert "event 2 (budget): changed after it was written" in output


@pytest.mark.parametrize("command", ["show", "verify"])
def test_no_ledger_is_one_line(tmp_path, command):
    code, output = run(command, "--ledger", tmp_path / "none.sqlite")
    assert code == 3
    assert output.count("\n") == 1
    assert "no ledger here" in output


def test_default_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run("set-budget", "--cohort", "biobank", "--epsilon", 1, "--delta", 1e-9)
    assert (tmp_path / "primo_scale" / "ledger.sqlite").is_file()
    assert run("show")[0] == 0


def test_help_is_quick():
    """For it imports none of what takes long."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pipelines.ledger", "--help"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "click" in imported
    assert imported.isdisjoint({"numpy", "cryptography", "zarr", "distributed"})
