"""The ledger: whose budget a release is charged to."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_examples import (
    DELTA,
    gaussian,
)

from primo_scale.errors import BudgetRefused, UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.history import reservation_as_json
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import (
    Account,
    Charge,
    ReleaseRequest,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.sqlite"


# --- whose budget -----------------------------------------------------------------------------


def of(people, account, epsilon=1.0, digest=""):
    """A request whose digest is its own, unless given."""
    digest = digest or secrets.token_hex(8)
    return ReleaseRequest(account, digest, epsilon, DELTA, gaussian(epsilon), people)


FIRST, SECOND = Account("first"), Account("second")


def refused_command(ledger, asked):
    """The arguments of the `set-budget` that a refusal names; the ledger stays as it was."""
    head = ledger.head()
    for attempt in (ledger.reserve, ledger.reserve_again):
        with pytest.raises(BudgetRefused) as refused:
            attempt(asked)
        assert ledger.head() == head
    assert refused.value.exit_code == 6
    line = str(refused.value)
    assert "\n" not in line
    words = shlex.split(line[line.index("set-budget ") :])
    assert words[:3] == ["set-budget", "--ledger", str(ledger.path)]
    assert words[-4:] == ["--epsilon", "E", "--delta", "D"]
    return line, dict(zip(words[3:-4:2], words[4:-4:2], strict=True))


def test_the_same_people_get_no_second_budget_unasked(path):
    with Ledger(path) as ledger:
        ledger.set_budget(FIRST, epsilon=5.0, delta=DELTA)
        ledger.reserve(of("everybody", FIRST))
        line, command = refused_command(ledger, of("everybody", SECOND))
        assert "under another name (got second; limit first)" in line
        assert command == {
            "--cohort": "second", "--privacy": "full", "--adjacency": "replace-one",
        }  # fmt: skip
        assert ledger.reserve(of("others", Account("third"))).opened_budget
        # The custodian may say that these are other people with the same IDs.
        ledger.set_budget(SECOND, epsilon=5.0, delta=DELTA)
        for account in (SECOND, FIRST, SECOND):
            ledger.reserve(of("everybody", account))
        assert ledger.verify() == []


@pytest.mark.parametrize("charged", [SECOND, replace(SECOND, unit=PrivacyUnit.LABEL)])
def test_nobody_spends_the_budget_of_others_to_spare_their_own(path, charged):
    """Their own is spent; that of another cohort, which was charged for its people, is not."""
    with Ledger(path) as ledger:
        ledger.reserve(of("everybody", FIRST))
        for account in {SECOND, charged}:
            ledger.set_budget(account, epsilon=9.0, delta=DELTA)
        ledger.reserve(of("others", charged))
        line, command = refused_command(ledger, of("everybody", SECOND))
        assert "under another name (got second; limit first)" in line
        assert command["--cohort"] == "NAME"
        assert ledger.balance(FIRST).epsilon_left == 0
        # The remedy is good for other people with the same IDs.
        ledger.set_budget(Account("name"), epsilon=1.0, delta=DELTA)
        ledger.reserve(of("everybody", Account("name")))
        # New people may join any cohort that has a budget.
        ledger.reserve(of("new", SECOND))
        assert ledger.verify() == []


def test_a_charge_that_was_paid_stays_good_whatever_was_charged_since(path):
    """A ledger of the old rule: these people were charged under both names, others too."""
    with Ledger(path) as ledger:
        ledger.set_budget(SECOND, epsilon=9.0, delta=DELTA)
        paid = of("everybody", SECOND)
        charge = ledger.reserve(paid).charge
        ledger.mark_drawn(charge, "noised")
        old_rule = [of("others", SECOND), of("others", FIRST), of("everybody", FIRST)]
        with ledger._log.exclusively():
            ledger._append_budget(FIRST, 9.0, DELTA)
            for k, asked in enumerate(old_rule):
                ledger._log.append("reserved", reservation_as_json(Charge(str(k), asked)))
        assert ledger.verify() == []
        assert ledger.reserve(paid).charge.id == charge.id
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
def test_another_kind_of_privacy_is_opened_by_the_custodian_alone(path, asked):
    """By whatever name, for people who were charged in any account."""
    charged = Account("first", PrivacyUnit.FEATURE, Adjacency.ADD_REMOVE)
    cohort = asked.cohort
    with Ledger(path) as ledger:
        assert ledger.reserve(of("everybody", charged)).opened_budget
        line, command = refused_command(ledger, of("everybody", asked))
        assert ("under another name" in line) == (cohort == "second")
        assert command == {
            "--cohort": cohort, "--privacy": asked.unit, "--adjacency": asked.adjacency,
        }  # fmt: skip
        ledger.set_budget(asked, epsilon=1.0, delta=DELTA)
        assert not ledger.reserve(of("everybody", asked)).opened_budget
        assert ledger.verify() == []


def test_no_kind_of_privacy_is_opened_for_a_known_cohort_by_new_people(path):
    """Else they could open it for the people who were refused."""
    label = replace(FIRST, unit=PrivacyUnit.LABEL)
    with Ledger(path) as ledger:
        ledger.set_budget(FIRST, epsilon=0.5, delta=DELTA)
        line, command = refused_command(ledger, of("everybody", label))
        assert "no budget for this kind of privacy, but one for another" in line
        assert command["--privacy"] == "label"
        ledger.reserve(of("everybody", FIRST, epsilon=0.5))
        refused_command(ledger, of("others", label))


def test_a_budget_under_an_identifier_is_that_of_its_people(path):
    """Set before anything was charged to it, and by no other name is there a second."""
    with Ledger(path) as ledger:
        people = ledger.cohort_identifier("sample list")
        ledger.set_budget(Account(people), epsilon=0.5, delta=DELTA)
        line, command = refused_command(ledger, of(people, FIRST))
        assert f"got first; limit {people[:12]}" in line
        assert command["--cohort"] == "first"
        ledger.reserve(of(people, Account(people), epsilon=0.5))


def test_the_remedy_names_an_unknown_identifier_whole(path):
    """An abbreviation of it would be the name of another cohort."""
    with Ledger(path) as ledger:
        people = ledger.cohort_identifier("sample list")
        ledger.reserve(of(people, FIRST))
        _, command = refused_command(ledger, of(people, Account(people)))
        kind = {"unit": PrivacyUnit.FULL, "adjacency": Adjacency.REPLACE_ONE}
        account = ledger.account_named(command["--cohort"], **kind)
        ledger.set_budget(account, epsilon=1.0, delta=DELTA)
        ledger.reserve(of(people, Account(people)))


_STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["P", "Q"]),
        st.sampled_from(["first", "second"]),
        st.sampled_from([PrivacyUnit.FULL, PrivacyUnit.LABEL]),
    ),
    max_size=8,
)


@given(steps=_STEPS)
@settings(max_examples=60, deadline=None)
def test_what_people_may_spend_is_what_the_custodian_set(steps):
    """Whatever is tried: at most one budget is opened unasked for the same people, and a cohort's
    charges of people who have another name begin with the first charge to it."""
    asked_for, opened = set(), Counter()
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        charged = []
        for is_release, people, cohort, unit in steps:
            account = Account(cohort, unit)
            if not is_release:
                ledger.set_budget(account, epsilon=50.0, delta=DELTA)
                asked_for.add(account)
                continue
            try:
                reservation = ledger.reserve(of(people, account))
            except BudgetRefused:
                continue
            if reservation.opened_budget:
                assert not asked_for & {Account(cohort, u) for u in PrivacyUnit}
                assert people not in [p for p, _ in charged]
                opened[people] += 1
            elif {c for p, c in charged if p == people} - {cohort} and charged.count(
                (people, cohort)
            ) == 0:
                assert cohort not in [c for _, c in charged]
                assert account in asked_for
            charged.append((people, cohort))
        assert ledger.verify() == []
    assert all(count == 1 for count in opened.values())


@pytest.mark.parametrize("unit", PrivacyUnit)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_an_abbreviated_identifier_is_its_account_everywhere(path, unit, adjacency):
    with Ledger(path) as ledger:
        identifier = ledger.cohort_identifier("people")
        ledger.set_budget(Account(identifier), epsilon=5.0, delta=DELTA)
        for length in (8, 12, 64):
            named = ledger.account_named(identifier[:length], unit=unit, adjacency=adjacency)
            assert named == Account(identifier, unit, adjacency)
        # The last: no digit is "g", so it begins no identifier.
        for name in ("", identifier[0], identifier[:7], "biobank", identifier[:8] + "g"):
            named = ledger.account_named(name, unit=unit, adjacency=adjacency)
            assert named == Account(name, unit, adjacency)


def test_an_abbreviation_of_two_identifiers_is_of_neither(path):
    with Ledger(path) as ledger:
        for last in "01":
            ledger.set_budget(
                Account("0123456789abcde" * 4 + "012" + last), epsilon=1.0, delta=DELTA
            )
        kind = {"unit": PrivacyUnit.FULL, "adjacency": Adjacency.REPLACE_ONE}
        with pytest.raises(UsageError, match="matches several cohorts"):
            ledger.account_named("01234567", **kind)


def test_a_long_name_is_a_name():
    assert Account("n" * 64).given_name == "n" * 64
    assert Account("0" * 64).given_name is None
