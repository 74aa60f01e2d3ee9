"""The ledger: the account that a release is charged to, by sample list and cohort name."""

import secrets
from dataclasses import replace

import pytest
from support.ledger_examples import DELTA, gaussian, refused_command

from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.accounts import Account, Charge, ChargeRequest, reservation_as_json


def of(people, account, epsilon=1.0, digest=""):
    """A request with a unique digest, unless one is given."""
    digest = digest or secrets.token_hex(8)
    return ChargeRequest(account, digest, epsilon, DELTA, gaussian(epsilon), people)


FIRST, SECOND = Account("first"), Account("second")


def test_the_same_people_get_no_second_budget_automatically(ledger):
    ledger.set_budget(FIRST, epsilon=5.0, delta=DELTA)
    ledger.reserve(of("everybody", FIRST))
    line, command = refused_command(ledger, of("everybody", SECOND))
    assert "under another name (found second, expected first)" in line
    assert command == {
        "--cohort": "second", "--privacy": "full", "--adjacency": "replace-one",
    }  # fmt: skip
    assert ledger.reserve(of("others", Account("third"))).opened_budget
    # The custodian may declare that these are other people with the same IDs.
    ledger.set_budget(SECOND, epsilon=5.0, delta=DELTA)
    for account in (SECOND, FIRST, SECOND):
        ledger.reserve(of("everybody", account))


@pytest.mark.parametrize("charged", [SECOND, replace(SECOND, unit=PrivacyUnit.LABEL)])
def test_people_cannot_be_charged_to_a_cohort_of_other_people(ledger, charged):
    """Their own budget is spent, and another cohort with a budget was charged for other people."""
    ledger.reserve(of("everybody", FIRST))
    for account in {SECOND, charged}:
        ledger.set_budget(account, epsilon=9.0, delta=DELTA)
    ledger.reserve(of("others", charged))
    line, command = refused_command(ledger, of("everybody", SECOND))
    assert "under another name (found second, expected first)" in line
    assert command["--cohort"] == "NAME"
    assert ledger.balance(FIRST).epsilon_left == 0
    # The proposed remedy works for other people with the same IDs.
    ledger.set_budget(Account("name"), epsilon=1.0, delta=DELTA)
    ledger.reserve(of("everybody", Account("name")))
    # New people may join any cohort that has a budget.
    ledger.reserve(of("new", SECOND))


def test_a_paid_charge_stays_valid_after_charges_of_the_old_rule(ledger):
    """An earlier rule let two sample lists be charged under both names."""
    ledger.set_budget(SECOND, epsilon=9.0, delta=DELTA)
    paid = of("everybody", SECOND)
    charge = ledger.reserve(paid).charge
    ledger.mark_drawn(charge, "noised")
    old_rule = [of("others", SECOND), of("others", FIRST), of("everybody", FIRST)]
    with ledger.exclusively():
        ledger._append_budget(FIRST, 9.0, DELTA)
        for k, asked in enumerate(old_rule):
            ledger.append("reserved", reservation_as_json(Charge(str(k), asked)))
    assert ledger.reserve(paid, stored_noise=[charge.id]).charge.id == charge.id
    for people in ("everybody", "others"):
        for account in (FIRST, SECOND):
            ledger.reserve(of(people, account))


@pytest.mark.parametrize(
    "asked",
    [
        Account(cohort, unit, adjacency)
        for cohort in ("first", "second")
        for unit in PrivacyUnit
        for adjacency in Adjacency
        if (cohort, unit, adjacency) != ("first", PrivacyUnit.FEATURE, Adjacency.ADD_REMOVE)
    ],
    ids=lambda account: account.description,
)
def test_only_the_custodian_opens_another_kind_of_privacy(ledger, asked):
    """For people who were charged in any account, under any name."""
    charged = Account("first", PrivacyUnit.FEATURE, Adjacency.ADD_REMOVE)
    cohort = asked.cohort
    assert ledger.reserve(of("everybody", charged)).opened_budget
    line, command = refused_command(ledger, of("everybody", asked))
    assert ("under another name" in line) == (cohort == "second")
    assert command == {
        "--cohort": cohort, "--privacy": asked.unit, "--adjacency": asked.adjacency,
    }  # fmt: skip
    ledger.set_budget(asked, epsilon=1.0, delta=DELTA)
    assert not ledger.reserve(of("everybody", asked)).opened_budget


def test_new_people_do_not_open_another_kind_of_privacy_for_a_known_cohort(ledger):
    """Otherwise they could open it for the people who were refused."""
    label = replace(FIRST, unit=PrivacyUnit.LABEL)
    ledger.set_budget(FIRST, epsilon=0.5, delta=DELTA)
    line, command = refused_command(ledger, of("everybody", label))
    assert "no budget for this kind of privacy, but one for another" in line
    assert command["--privacy"] == "label"
    ledger.reserve(of("everybody", FIRST, epsilon=0.5))
    refused_command(ledger, of("others", label))


def test_a_budget_under_an_identifier_belongs_to_that_sample_list(ledger):
    """The budget was set before any charge, and another name gets no second budget."""
    people = ledger.cohort_identifier("sample list")
    ledger.set_budget(Account(people), epsilon=0.5, delta=DELTA)
    line, command = refused_command(ledger, of(people, FIRST))
    assert f"found first, expected {people[:12]}" in line
    assert command["--cohort"] == "first"
    ledger.reserve(of(people, Account(people), epsilon=0.5))


@pytest.mark.parametrize("unit", PrivacyUnit)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_an_abbreviated_identifier_names_its_account(ledger, unit, adjacency):
    identifier = ledger.cohort_identifier("people")
    ledger.set_budget(Account(identifier), epsilon=5.0, delta=DELTA)
    for length in (8, 12, 64):
        named = ledger.account_named(identifier[:length], unit=unit, adjacency=adjacency)
        assert named == Account(identifier, unit, adjacency)
    # The last one contains "g", which is no hexadecimal digit, so it abbreviates no identifier.
    for name in ("", identifier[0], identifier[:7], "biobank", identifier[:8] + "g"):
        named = ledger.account_named(name, unit=unit, adjacency=adjacency)
        assert named == Account(name, unit, adjacency)
