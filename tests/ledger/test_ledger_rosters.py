"""The ledger: people are identified by their IIDs in different sample lists."""

import sqlite3
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.ledger_examples import DELTA, gaussian, refused_command

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger.accounts import Account, Charge, ChargeRequest, reservation_as_json
from primo_scale.ledger.ledger import Ledger

EVERYBODY = range(100)


def of(ledger, people, cohort=None, *, fid="", epsilon=0.1, digest=None):
    """Return a request for people with these IIDs; another `fid` makes another sample list."""
    individuals = [f"P{number}" for number in people]
    account, *people_of = ledger.paying_cohort(
        f"{fid}: {individuals}", individuals, cohort,
        unit=PrivacyUnit.FULL, adjacency=Adjacency.REPLACE_ONE,
    )  # fmt: skip
    digest = digest or f"{fid}{individuals}{cohort}"
    return ChargeRequest(account, digest, epsilon, DELTA, gaussian(epsilon), *people_of)


OTHER_LISTS = {
    "the same IIDs under other FIDs": EVERYBODY,
    "a part": range(30),
    "more people": range(130),
    "an overlap": range(90, 200),
    "one person": range(99, 300),
}


@pytest.mark.parametrize("name", OTHER_LISTS)
def test_no_second_budget_for_any_of_the_same_people(ledger, name):
    people = OTHER_LISTS[name]
    ledger.set_budget(Account("first"), epsilon=5.0, delta=DELTA)
    ledger.reserve(of(ledger, EVERYBODY, "first"))
    for cohort in (None, "second"):
        asked = of(ledger, people, cohort, fid="0")
        line, command = refused_command(ledger, asked)
        assert "Give --cohort first; or, for other people with the same IDs" in line
        assert command["--cohort"] == asked.account.cohort
        shared = len(set(people) & set(EVERYBODY))
        assert "people of this release have a budget under another name" in line
        assert f"expected first: {shared} of {len(people)})" in line
    # Under their own name they are charged to their own budget.
    assert not ledger.reserve(of(ledger, people, "first", fid="0")).opened_budget
    # The custodian may declare that they are other people.
    ledger.set_budget(Account("second"), epsilon=5.0, delta=DELTA)
    ledger.reserve(of(ledger, people, "second", fid="0"))


def test_a_second_cohort_serves_only_its_own_people(ledger):
    """And parts of them, but no other people of the first cohort."""
    ledger.set_budget(Account("first"), epsilon=5.0, delta=DELTA)
    ledger.reserve(of(ledger, EVERYBODY, "first"))
    ledger.set_budget(Account("second"), epsilon=5.0, delta=DELTA)
    ledger.reserve(of(ledger, range(50), "second"))
    ledger.reserve(of(ledger, range(20), "second", fid="1"))
    ledger.reserve(of(ledger, [*range(20), *range(500, 600)], "second", fid="2"))
    line, command = refused_command(ledger, of(ledger, range(60), "second", fid="3"))
    assert "expected first: 10 of 60)" in line
    assert command["--cohort"] == "NAME"


def test_a_list_of_people_of_two_cohorts_is_charged_to_neither(ledger):
    ledger.reserve(of(ledger, range(10), "first"))
    ledger.reserve(of(ledger, range(10, 30), "second"))
    line, _ = refused_command(ledger, of(ledger, range(40), "third"))
    assert "expected first: 10 of 40, second: 20 of 40)" in line
    assert "Give --cohort" not in line
    for cohort in ("first", "second"):
        refused_command(ledger, of(ledger, range(40), cohort))


def test_a_roster_is_the_keyed_set_of_iids(ledger, tmp_path):
    names = [f"{number:07d}" for number in range(20_000)]
    with Ledger(tmp_path / "other.sqlite") as other:
        roster = ledger.roster(names)
        assert len(roster) == 8 * 20_000
        assert ledger.roster([*reversed(names), *names[:5]]) == roster
        assert ledger.roster(names[1:]) != roster
        assert other.roster(names) != roster
        assert roster[:8] not in other.roster(names)


def test_a_request_is_replayed_with_or_without_its_roster(ledger):
    asked = of(ledger, EVERYBODY)
    charge = ledger.reserve(asked).charge
    ledger.mark_drawn(charge, "noised")
    for again in (asked, replace(asked, roster=b"")):
        assert ledger.reserve(again, stored_noise=[charge.id]).charge.id == charge.id


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM attachments",
        "DROP TABLE attachments",
        "UPDATE attachments SET data = x'0011223344556677'",
        "UPDATE attachments SET data = 'text'",
        "UPDATE attachments SET data = data || x'0011223344556677'",
    ],
)
def test_a_missing_or_changed_roster_is_detected(path, change):
    with Ledger(path) as ledger:
        ledger.reserve(of(ledger, EVERYBODY, "first"))
    with sqlite3.connect(path) as database:
        database.execute(change)
    with Ledger(path) as ledger:
        assert any("a list of people is missing or was changed" in p for p in ledger.verify())
        with pytest.raises(InputError, match=r"list of people.*Restore the ledger from a backup"):
            ledger.reserve(of(ledger, range(30), "second"))


def charge_without_roster(ledger, asked):
    """Record a charge as version 0.1 did, which knew the sample list and not the people."""
    with ledger.exclusively():
        ledger._append_budget(asked.account, 5.0, DELTA)
        body = dict(reservation_as_json(Charge("0", asked)))
        del body["roster"]
        ledger.append("reserved", body)


def test_a_charge_without_a_roster_is_matched_by_its_sample_list(ledger):
    """From the first charge of this version on, the people are known."""
    charge_without_roster(ledger, of(ledger, EVERYBODY, "first", digest="old"))
    line, _ = refused_command(ledger, of(ledger, EVERYBODY, "second"))
    assert "have a budget under another name (found second, expected first" in line
    assert ledger.reserve(of(ledger, range(50), "part")).opened_budget, (
        "the people are not known yet"
    )
    ledger.reserve(of(ledger, EVERYBODY, "first"))
    refused_command(ledger, of(ledger, range(60, 100), "another part"))


def test_a_charge_without_roster_vouches_for_its_own_sample_list_alone(ledger):
    """Nobody knows the people of such a charge, but for a request with the same list."""
    old = of(ledger, EVERYBODY, "first")
    charge_without_roster(ledger, old)
    ledger.reserve(of(ledger, range(30), "second"))
    asked = of(ledger, range(29, 60), "first")
    line, _ = refused_command(ledger, asked)
    assert "people of this release have a budget" in line
    ledger.reserve(replace(asked, people_digest=old.people_digest))


_STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.sets(st.integers(0, 5), min_size=1),
        st.sampled_from(["first", "second", "third", None]),
        st.sampled_from("01"),
    ),
    max_size=8,
)


@given(steps=_STEPS)
# The sample list (IID 0, FID 0) belongs to the second cohort, although the first has its IID.
@example(
    steps=[
        (False, {0}, "second", "0"),
        (True, {0}, "first", "1"),
        (True, {0}, "second", "0"),
        (True, {0}, "first", "0"),
    ]
)
@settings(max_examples=60, deadline=None)
def test_nobody_is_charged_to_two_cohorts_unless_the_custodian_opened_the_second(steps):
    """A refusal changes nothing, and has a reason: a person or a list of another cohort."""
    cohorts_of, opened, charged = defaultdict(set), set(), set()
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        for number, (is_release, people, cohort, fid) in enumerate(steps):
            if not is_release:
                if cohort is not None:
                    ledger.set_budget(Account(cohort), epsilon=50.0, delta=DELTA)
                    if cohort not in charged:
                        opened.add(cohort)
                continue
            asked = of(ledger, sorted(people), cohort, fid=fid, epsilon=0.01, digest=str(number))
            name = asked.account.cohort
            identities = [*people, (fid, frozenset(people))]
            shared = any(cohorts_of[i] and name not in cohorts_of[i] for i in identities)
            head = ledger.head()
            try:
                ledger.reserve(asked)
            except BudgetRefused as error:
                assert ledger.head() == head
                full = "does not cover" in str(error)
                assert full or shared
                assert full or name in charged or name not in opened
            else:
                assert not shared or (name in opened and name not in charged)
                charged.add(name)
                for identity in identities:
                    cohorts_of[identity].add(name)
        assert ledger.verify() == []
