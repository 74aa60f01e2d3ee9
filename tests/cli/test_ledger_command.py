"""``primo-scale ledger`` as a user runs it."""

import shlex
import sqlite3
from dataclasses import replace

import pytest
from support.ledger_examples import request
from support.small_cohort import command

from primo_scale.cli.commands import ledger as main
from primo_scale.errors import BudgetRefused
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.accounts import Account
from primo_scale.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    """A ledger with one cohort, known by its digest, that has spent epsilon 5 of 5."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        account = Account(ledger.cohort_identifier("genotypes"))
        charge = ledger.reserve(request(account=account)).charge
        ledger.mark_drawn(charge, "noised")
    return path


def identifier(path):
    with Ledger(path, create=False) as ledger:
        return ledger.cohort_identifier("genotypes")


def run(*arguments, code=0):
    result = command(main, *arguments)
    assert result.exit_code == code, result.output
    return result.output


def set_budget(path, *options, code=0):
    return run("set-budget", "--ledger", path, *options, code=code)


def test_show_prints_budget_spent_left_and_charges(path):
    output = run("show", "--ledger", path)
    assert f"cohort {identifier(path)[:12]} (full privacy, replace-one)" in output
    assert "budget  epsilon 5 at delta 1e-08" in output
    assert "spent   epsilon 5 in 1 charges" in output
    assert "left    epsilon 0\n" in output
    assert "drawn" in output
    (key,) = [line.split()[2] for line in output.splitlines() if line.startswith("public key ")]
    with Ledger(path, create=False) as ledger:
        assert key == ledger.public_key


def test_one_of_several_cohorts_has_to_be_named(path):
    assert "budget  epsilon 6 at delta 1e-08" in set_budget(path, "--epsilon", 6)
    set_budget(path, "--cohort", "biobank", "--epsilon", 1, "--delta", 1e-9)
    assert run("show", "--ledger", path, "--cohort", "biobank").count("cohort ") == 1
    unknown = run("show", "--ledger", path, "--cohort", "bio", code=2)
    assert "error: --cohort: no such cohort (got bio; limit known: " in unknown
    assert "name the cohort" in set_budget(path, "--epsilon", 6, code=2)


@pytest.mark.parametrize("cohort", ["biobank", None])
def test_the_command_that_a_refusal_names_opens_the_budget(path, cohort):
    """For another name, and for another unit of the same cohort; E and D filled in."""
    with Ledger(path) as ledger:
        people = ledger.cohort_identifier("others")
        ledger.reserve(
            replace(request("known", 1.0, account=Account("known")), people_digest=people)
        )
        account = Account(cohort or "known", PrivacyUnit.LABEL, Adjacency.ADD_REMOVE)
        asked = replace(request("label", 2.0, 1e-9, account), people_digest=people)
        with pytest.raises(BudgetRefused) as refused:
            ledger.reserve(asked)
    words = shlex.split(str(refused.value).split("primo-scale ledger ")[1])
    filled = {"E": "2", "D": "1e-9"}
    run(*(filled.get(word, word) for word in words))
    with Ledger(path) as ledger:
        assert not ledger.reserve(asked).opened_budget


def test_verify_says_what_is_wrong(path):
    assert "verified" in run("verify", "--ledger", path)
    with sqlite3.connect(path) as database:
        database.execute("DROP TRIGGER events_are_final")
        database.execute("UPDATE events SET time = 'x' WHERE number = 2")
    output = run("verify", "--ledger", path, code=1)
    assert "event 2 (budget): changed after it was written" in output


@pytest.mark.parametrize("name", ["show", "verify"])
def test_no_ledger_is_one_line(tmp_path, name):
    output = run(name, "--ledger", tmp_path / "none.sqlite", code=3)
    assert output.count("\n") == 1
    assert "no ledger here" in output
