"""The ledger: budgets, costs, replay, crashes, concurrency, tampering, keys."""

from __future__ import annotations

import math
import multiprocessing
import os
import secrets
import shlex
import signal
import sqlite3
import stat
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import mpmath
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_examples import VERSION_1_CHARGE, VERSION_1_MU_SQUARED, write_version_1

from primo_scale.errors import BudgetRefused, InputError, ResourceError, UsageError
from primo_scale.privacy.calibration import Cost, composed_epsilon, mu_for, release_mu
from primo_scale.privacy.event_log import EventLog
from primo_scale.privacy.history import reservation_as_json
from primo_scale.privacy.ledger import Ledger, default_ledger_path
from primo_scale.privacy.sensitivity import Adjacency, PrivacyUnit
from primo_scale.privacy.spending import (
    Account,
    Balance,
    Budget,
    Charge,
    ChargeState,
    ReleaseRequest,
)

DELTA = 1e-8
ACCOUNT = Account("eur343")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.sqlite"


def gaussian(epsilon, delta=DELTA, share=1.0):
    return Cost(share * release_mu(epsilon, delta) ** 2)


def request(digest="first", epsilon=5.0, delta=DELTA, account=ACCOUNT, cost=None):
    return ReleaseRequest(account, digest, epsilon, delta, cost or gaussian(epsilon, delta))


def test_first_release_opens_its_budget_and_is_told_so(path):
    with Ledger(path) as ledger:
        reservation = ledger.reserve(request())
        assert reservation.opened_budget
        assert reservation.charge.state is ChargeState.RESERVED
        balance = ledger.balance(ACCOUNT)
    assert (balance.budget.epsilon, balance.budget.delta) == (5.0, DELTA)
    assert balance.spent == Cost(release_mu(5.0, DELTA) ** 2)
    assert balance.epsilon_spent == pytest.approx(5.0, rel=2e-6)
    assert balance.epsilon_left == 0


def test_a_budget_is_what_a_mechanism_may_use():
    assert Budget(5.0, DELTA).mu_squared == mu_for(5.0 * (1 - 1e-6), DELTA) ** 2


def test_a_reservation_is_in_the_file_before_it_returns(path):
    with Ledger(path) as ledger:
        charge = ledger.reserve(request()).charge
        with Ledger(path, create=False) as other:
            assert other.balance(ACCOUNT).charges[0].id == charge.id


def test_a_reservation_survives_power_loss(path):
    """Which cannot be simulated here; what SQLite documents as enough is in force."""
    with Ledger(path) as ledger:
        database = ledger._log._database
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_double_spend_is_refused_with_what_is_left_and_the_remedy(path):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=6.0, delta=DELTA)
        assert not ledger.reserve(request()).opened_budget
        with pytest.raises(BudgetRefused) as refused:
            ledger.reserve(request("second"))
        left = ledger.balance(ACCOUNT).epsilon_left
        line = str(refused.value)
        assert refused.value.exit_code == 6
        assert "got epsilon 5;" in line
        assert f"limit {left:g} left: 5 spent of 6 at delta 1e-08" in line
        assert f"pipelines.ledger set-budget --ledger {path} --cohort eur343" in line
        assert len(ledger.balance(ACCOUNT).charges) == 1


def test_what_is_left_can_be_spent_and_a_little_more_cannot(path):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=6.0, delta=DELTA)
        ledger.reserve(request())
        left = ledger.balance(ACCOUNT).epsilon_left
        assert 2 < left < 4  # mu^2 adds up, not epsilon
        with pytest.raises(BudgetRefused):
            ledger.reserve(request("second", epsilon=left * (1 + 1e-4)))
        ledger.reserve(request("second", epsilon=left))
        spent = ledger.balance(ACCOUNT)
        assert spent.spent.mu_squared <= spent.budget.mu_squared
        assert spent.epsilon_spent == pytest.approx(6.0, rel=1e-4)
        assert ledger.verify() == []


def test_delta_is_fixed(path):
    with Ledger(path) as ledger:
        ledger.reserve(request())
        for attempt in (
            lambda: ledger.reserve(request("second", epsilon=0.1, delta=1e-9)),
            lambda: ledger.set_budget(ACCOUNT, epsilon=9.0, delta=1e-9),
        ):
            with pytest.raises(BudgetRefused, match="Ask for --delta 1e-08"):
                attempt()
        ledger.set_budget(ACCOUNT, epsilon=9.0)
        assert ledger.balance(ACCOUNT).budget.delta == DELTA


def test_units_and_adjacencies_never_mix(path):
    label = Account("eur343", PrivacyUnit.LABEL)
    add_remove = Account("eur343", adjacency=Adjacency.ADD_REMOVE)
    with Ledger(path) as ledger:
        for account in (label, add_remove):
            ledger.set_budget(account, epsilon=5.0, delta=DELTA)
        for account in (label, add_remove, Account("other")):
            ledger.reserve(request(account=account))
        with pytest.raises(BudgetRefused, match="no budget for this kind of privacy"):
            ledger.reserve(request())
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=DELTA)
        ledger.reserve(request())
        assert [len(balance.charges) for balance in ledger.balances()] == [1, 1, 1, 1]


def test_lowering_a_budget_below_what_is_spent_leaves_nothing(path):
    with Ledger(path) as ledger:
        ledger.reserve(request())
        assert ledger.set_budget(ACCOUNT, epsilon=1.0).epsilon_left == 0
        with pytest.raises(BudgetRefused):
            ledger.reserve(request("second", epsilon=0.01))
        assert ledger.verify() == []


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (1.0, 0.5), (1.0, None)])
def test_impossible_budgets_are_usage_errors_and_leave_no_trace(path, epsilon, delta):
    with Ledger(path) as ledger:
        head = ledger.head()
        with pytest.raises(UsageError):
            ledger.set_budget(ACCOUNT, epsilon=epsilon, delta=delta)
        assert ledger.head() == head


def test_a_drawn_charge_is_replayed_and_never_charged_again(path):
    with Ledger(path) as ledger:
        charge = ledger.reserve(request()).charge
        ledger.mark_drawn(charge, "noised")
        drawn = ledger.reserve(request())
        assert (drawn.charge.id, drawn.charge.state) == (charge.id, ChargeState.DRAWN)
        assert drawn.charge.statistics_digest == "noised"
        assert not drawn.opened_budget
        ledger.mark_published(charge, "release one")
        ledger.mark_published(charge, "release two")
        published = ledger.reserve(request()).charge
        assert published.state is ChargeState.PUBLISHED
        assert published.release_digests == ("release one", "release two")
        assert len(ledger.balance(ACCOUNT).charges) == 1
        assert ledger.verify() == []


@pytest.mark.parametrize(
    "changed", [request("other"), request(epsilon=4.0), request(account=Account("other"))]
)
def test_only_the_same_request_is_replayed(path, changed):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=20.0, delta=DELTA)
        charge = ledger.reserve(request()).charge
        ledger.mark_drawn(charge, "noised")
        assert ledger.reserve(changed).charge.id != charge.id


def test_noise_that_was_not_recorded_is_paid_for_again_unless_it_is_at_hand(path):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=20.0, delta=DELTA)
        first = ledger.reserve(request()).charge
        second = ledger.reserve(request()).charge
        assert second.id != first.id
        at_hand = ledger.reserve(request(), noise_at_hand=first.id).charge
        assert at_hand.id == first.id
        unrelated = ledger.reserve(request("other"), noise_at_hand=first.id).charge
        assert unrelated.id not in (first.id, second.id)
        assert len(ledger.balance(ACCOUNT).charges) == 3


def test_lost_statistics_are_paid_for_again_on_demand(path):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=7.5, delta=DELTA)
        first = ledger.reserve(request()).charge
        ledger.mark_drawn(first, "noised")
        second = ledger.reserve_again(request()).charge
        assert second.id != first.id
        ledger.mark_drawn(second, "noised anew")
        assert ledger.reserve(request()).charge.id == second.id
        assert ledger.reserve(request(), noise_at_hand=first.id).charge.id == first.id
        with pytest.raises(BudgetRefused, match="does not cover this release"):
            ledger.reserve_again(request())


def test_a_refusal_says_what_interrupted_runs_have_cost(path):
    with Ledger(path) as ledger:
        ledger.reserve(request())
        with pytest.raises(BudgetRefused, match="Charged for interrupted runs of this release: 1"):
            ledger.reserve(request())


def test_one_charge_has_one_noise(path):
    with Ledger(path) as ledger:
        charge = ledger.reserve(request()).charge
        with pytest.raises(InputError, match="was not recorded"):
            ledger.mark_published(charge, "release")
        ledger.mark_drawn(charge, "noised")
        ledger.mark_drawn(charge, "noised")
        with pytest.raises(InputError, match="other noise was already drawn"):
            ledger.mark_drawn(charge, "noised again")
        assert ledger.verify() == []


def test_a_charge_of_another_ledger_is_unknown(path, tmp_path):
    with Ledger(path) as ledger, Ledger(tmp_path / "other.sqlite") as other:
        charge = ledger.reserve(request()).charge
        with pytest.raises(InputError, match="no such charge"):
            other.mark_drawn(charge, "noised")


def test_digests_are_keyed_and_have_a_purpose(path, tmp_path):
    with Ledger(path) as ledger, Ledger(tmp_path / "other.sqlite") as other:
        assert ledger.keyed_digest("a", b"data") == ledger.keyed_digest("a", b"data")
        digests = {
            ledger.keyed_digest("a", b"data"),
            ledger.keyed_digest("b", b"data"),
            ledger.keyed_digest("a", b"other"),
            other.keyed_digest("a", b"data"),
        }
        assert len(digests) == 4
        assert ledger.cohort_identifier("x") != other.cohort_identifier("x")
        one = ledger.request_digest("x", {"epsilon": 1.0, "columns": ["a"]})
        assert one == ledger.request_digest("x", {"columns": ["a"], "epsilon": 1.0})
        assert one != ledger.request_digest("x", {"columns": ["b"], "epsilon": 1.0})
    with Ledger(path) as again:
        assert again.request_digest("x", {"epsilon": 1.0, "columns": ["a"]}) == one


def test_the_file_is_the_owners_alone(path):
    Ledger(path).__exit__(None, None, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_ledger_path() == tmp_path / "primo_scale" / "ledger.sqlite"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".local" / "state" / "primo_scale" / "ledger.sqlite"
    assert default_ledger_path() == expected


# --- crashes ----------------------------------------------------------------------------------

# Children start from a process that has only imported the ledger: fast, and no state is inherited.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["primo_scale.privacy.ledger"])
COHORT = Account("cohort")


def release(folder, crash_at):
    """The steps of a release in the order the finalizer takes them, killed at a labelled point."""

    def reached(point):
        if point == crash_at:
            os.kill(os.getpid(), signal.SIGKILL)

    append = EventLog.append

    def append_then_crash(log, kind, body):
        append(log, kind, body)
        reached(f"inside {kind}")

    EventLog.append = append_then_crash  # this process is about to die
    statistics = folder / "private"
    with Ledger(folder / "ledger.sqlite") as ledger:
        reached("opened")
        at_hand = statistics.read_text().split()[:1] if statistics.exists() else []
        asked = request(epsilon=1.0, account=COHORT)
        charge = ledger.reserve(asked, noise_at_hand=at_hand).charge
        reached("reserved")
        if charge.id not in at_hand:
            assert charge.state is ChargeState.RESERVED
            with (folder / "noises").open("a") as noises:
                noises.write(f"{charge.id}\n")
            reached("noise drawn")
            (folder / "partial").write_text(f"{charge.id} {secrets.token_hex(8)}")
            (folder / "partial").replace(statistics)
            reached("noise stored")
        ledger.mark_drawn(charge, statistics.read_text())
        reached("drawn")
        (folder / "release").write_text(statistics.read_text())
        reached("release written")
        ledger.mark_published(charge, statistics.read_text())
        reached("published")


# What a crash at each point costs: the number of charges after the command has been run again.
CRASHES = {
    "opened": 1,
    "inside budget": 1,
    "inside reserved": 1,
    "reserved": 2,
    "noise drawn": 2,
    "noise stored": 1,
    "inside drawn": 1,
    "drawn": 1,
    "release written": 1,
    "inside published": 1,
    "published": 1,
}


def run(folder, crash_at="nowhere"):
    process = PROCESSES.Process(target=release, args=(folder, crash_at))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize("point", CRASHES)
def test_a_crash_never_leads_to_two_noises_for_one_charge(tmp_path, point):
    if point != "inside budget":
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            ledger.set_budget(COHORT, epsilon=10.0, delta=DELTA)
    assert run(tmp_path, point) == -signal.SIGKILL
    assert run(tmp_path) == 0
    released = (tmp_path / "release").read_text()
    assert run(tmp_path) == 0
    assert (tmp_path / "release").read_text() == released

    with Ledger(tmp_path / "ledger.sqlite", create=False) as ledger:
        charges = ledger.balance(COHORT).charges
        assert ledger.verify() == []
    noises = Counter((tmp_path / "noises").read_text().split())
    assert max(noises.values()) == 1
    assert set(noises) <= {charge.id for charge in charges}
    assert len(charges) == CRASHES[point]
    assert charges[-1].state is ChargeState.PUBLISHED
    assert charges[-1].statistics_digest == released


# --- concurrency ------------------------------------------------------------------------------


def spend(path, name, paid):
    for k in range(12):
        with Ledger(path) as ledger:
            try:
                asked = request(f"{name} {k}", epsilon=1.0, account=COHORT)
                ledger.mark_drawn(ledger.reserve(asked).charge, "noised")
                paid.put(name)
            except BudgetRefused:
                pass


def report_key(path, keys):
    with Ledger(path) as ledger:
        keys.put(ledger.keyed_digest("a", b""))


def report_public_key(path, keys):
    with Ledger(path) as ledger:
        keys.put(ledger.public_key)


def together(function, path, names):
    """Run `function(path, *name, results)` in one process per name; return what they put."""
    results = PROCESSES.Manager().Queue()
    processes = [PROCESSES.Process(target=function, args=(path, *name, results)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [results.get() for _ in range(results.qsize())]


def test_two_processes_cannot_overspend(path):
    with Ledger(path) as ledger:
        budget = ledger.set_budget(COHORT, epsilon=4.0, delta=DELTA).budget
    affordable = int(budget.mu_squared / gaussian(1.0).mu_squared)
    assert 5 < affordable < 20
    paid = together(spend, path, [("one",), ("two",)])
    assert len(paid) == affordable
    with Ledger(path, create=False) as ledger:
        assert len(ledger.balance(COHORT).charges) == affordable
        assert ledger.verify() == []


def test_processes_that_start_together_create_one_ledger(path):
    keys = together(report_key, path, [(), (), ()])
    assert len(keys) == 3
    with Ledger(path, create=False) as ledger:
        assert set(keys) == {ledger.keyed_digest("a", b"")}


# --- damage -----------------------------------------------------------------------------------


@pytest.fixture
def used(path):
    with Ledger(path) as ledger:
        charge = ledger.reserve(request()).charge
        ledger.mark_drawn(charge, "noised")
        ledger.mark_published(charge, "release")
    return path


def tamper(path, *statements):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("DROP TRIGGER events_stay")
    database.execute("DROP TRIGGER events_are_final")
    for statement in statements:
        database.execute(statement)
    database.close()


def test_events_cannot_be_changed_by_accident(used):
    database = sqlite3.connect(used, isolation_level=None)
    for statement in ("DELETE FROM events", "UPDATE events SET time = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE events SET time = 'x' WHERE number = 3", "event 3 (reserved): changed"),
        ("UPDATE events SET digest = 'x' WHERE number = 5", "event 5 (published): changed"),
        ("UPDATE events SET body = replace(body, '5.0', '0.1') WHERE kind = 'reserved'",
         "costs more than its epsilon and delta"),
        ("UPDATE events SET body = replace(body, '5.0', '4.0') WHERE kind = 'budget'",
         "overspends the budget"),
        ("UPDATE events SET body = '{}' WHERE kind = 'drawn'", "event 4 (drawn): cannot be read"),
        ("UPDATE events SET body = 'x' WHERE kind = 'drawn'", "event 4 (drawn): cannot be read"),
        ("UPDATE events SET kind = 'gift' WHERE kind = 'budget'", "unknown kind"),
        ("DELETE FROM events WHERE kind = 'drawn'", "event 4: missing"),
        ("DELETE FROM events WHERE kind = 'drawn'", "published before its noise was recorded"),
        ("DELETE FROM events WHERE kind = 'published'", "event 5: missing at the end"),
        ("DELETE FROM events WHERE kind = 'reserved'", "was never reserved"),
        ("DELETE FROM events WHERE kind = 'budget'", "which has no budget"),
        ("UPDATE secret SET key = x'00'", "event 1 (created): changed"),
        ("UPDATE signing SET key = randomblob(32)", "signing key is not the one that was recorded"),
        ("UPDATE signing SET key = 'text'", "signing key is not the one that was recorded"),
        ("DELETE FROM signing", "signing key is not the one that was recorded"),
        ("INSERT INTO signing VALUES (randomblob(32))", "signing key is not the one that was"),
        ("DROP TABLE signing", "signing key is not the one that was recorded"),
    ],
)  # fmt: skip
def test_tampering_is_found_and_nothing_is_spent_from_it(used, statement, problem):
    tamper(used, statement)
    with Ledger(used, create=False) as ledger:
        assert any(problem in line for line in ledger.verify())
        with pytest.raises(InputError, match="the ledger is damaged"):
            ledger.reserve(request())


def test_events_no_ledger_writes_are_found_even_with_a_good_chain(path):
    with Ledger(path) as ledger:
        charge = ledger.reserve(request()).charge
        log = ledger._log
        with log.exclusively():
            log.append("drawn", {"charge": charge.id, "digest": "one"})
            log.append("drawn", {"charge": charge.id, "digest": "two"})
        problems = ledger.verify()
    assert problems == [f"event 5 (drawn): a second noise for charge {charge.id}"]


@pytest.mark.parametrize("content", [b"not a database" * 100, b""])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a privacy ledger"):
        Ledger(path, create=False)


def test_another_database_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
    for create in (True, False):
        with pytest.raises(InputError, match="is not a privacy ledger"):
            Ledger(path, create=create)


def test_no_ledger_is_an_error_where_none_is_to_be_made(tmp_path):
    with pytest.raises(InputError, match="no ledger here"):
        Ledger(tmp_path / "ledger.sqlite", create=False)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_newer_format_is_refused(path, monkeypatch):
    monkeypatch.setattr("primo_scale.privacy.event_log.FORMAT_VERSION", 3)
    Ledger(path).__exit__(None, None, None)
    monkeypatch.undo()
    with pytest.raises(InputError, match="unknown format version"):
        Ledger(path)


def test_a_full_disk_is_said_and_nothing_is_half_written(used):
    """SQLite's own page limit gives the error a full disk gives."""
    with Ledger(used) as ledger:
        database = ledger._log._database
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        ledger_head = ledger.head()
        with pytest.raises(ResourceError, match="the disk is full"):
            ledger.reserve(request("long", account=Account("x" * 100_000)))
        assert ledger.head() == ledger_head
        assert ledger.verify() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_place_is_one_line(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        Ledger(tmp_path / "state" / "ledger.sqlite")


def test_a_busy_ledger_is_said(path, monkeypatch):
    monkeypatch.setattr("primo_scale.privacy.event_log._LOCK_SECONDS", 0.05)
    with (
        Ledger(path) as ledger,
        Ledger(path) as other,
        ledger._log.exclusively(),
        pytest.raises(InputError, match="another process has held the ledger"),
    ):
        other.reserve(request())


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
        with pytest.raises(UsageError, match="stands for several cohorts"):
            ledger.account_named("01234567", **kind)


def test_a_long_name_is_a_name():
    assert Account("n" * 64).given_name == "n" * 64
    assert Account("0" * 64).given_name is None


# --- costs ------------------------------------------------------------------------------------


def subsampled(epsilon, delta=DELTA):
    """Half of (epsilon, delta) for an amplified Gram, half for Gaussian rest."""
    return Cost(release_mu(epsilon / 2, delta / 2) ** 2, epsilon / 2, delta / 2)


@given(
    epsilon=st.floats(1e-3, 100.0),
    delta=st.floats(-30, -3).map(lambda exponent: min(10.0**exponent, 1e-3)),
    share=st.floats(1e-3, 0.999),
)
def test_a_budget_of_one_release_is_exactly_its_parts(epsilon, delta, share):
    """In any shares and with any rounding of them, and not a millionth of mu^2 more."""
    budget, whole = Budget(epsilon, delta), release_mu(epsilon, delta) ** 2
    parts = [Cost((math.sqrt(share) * math.sqrt(whole)) ** 2), Cost((1 - share) * whole)]
    charges = [
        Charge(str(k), ReleaseRequest(ACCOUNT, str(k), epsilon, delta, part))
        for k, part in enumerate(parts)
    ]
    assert Balance(ACCOUNT, budget, ()).affords(Cost(whole))
    assert Balance(ACCOUNT, budget, (charges[0],)).affords(parts[1])
    assert not Balance(ACCOUNT, budget, (charges[0],)).affords(parts[1] + Cost(1e-6 * whole))
    assert not Balance(ACCOUNT, budget, tuple(charges)).affords(Cost(1e-6 * whole))
    assert all(charge.request.problem() is None for charge in charges)


def profile(epsilon, mu):
    """The analytic Gaussian profile, from its definition, in 60 digits."""
    with mpmath.workdps(60):
        x, half = mpmath.mpf(epsilon) / mpmath.mpf(mu), mpmath.mpf(mu) / 2
        return mpmath.ncdf(half - x) - mpmath.exp(epsilon) * mpmath.ncdf(-half - x)


@given(
    epsilon=st.floats(0.01, 20.0),
    delta=st.floats(-20, -3).map(lambda exponent: 10.0**exponent),
    epsilon_share=st.floats(0.0, 0.9),
    delta_share=st.floats(0.0, 0.9),
)
@settings(max_examples=50, deadline=None)
def test_a_budget_covers_what_composes_to_it(epsilon, delta, epsilon_share, delta_share):
    """eps(mu, delta - sum delta_j) + sum eps_j <= epsilon, by the profile itself."""
    budget = Budget(epsilon, delta)
    parts = Cost(0.0, epsilon_share * epsilon, delta_share * delta)
    limit = budget.mu_squared_beside(parts)
    left_epsilon, left_delta = epsilon - parts.epsilon, delta - parts.delta
    assert profile(left_epsilon, math.sqrt(limit)) <= left_delta
    assert profile(left_epsilon, math.sqrt(limit * (1 + 5e-6))) > left_delta, "needlessly little"
    assert budget.covers(parts + Cost(limit))
    assert not budget.covers(parts + Cost(limit * (1 + 5e-6)))
    assert composed_epsilon(parts + Cost(limit), delta) == pytest.approx(epsilon, rel=3e-6)


def test_a_budget_of_one_subsampled_release_admits_exactly_that(path):
    with Ledger(path) as ledger:
        asked = request("sub", cost=subsampled(5.0))
        assert ledger.reserve(asked).opened_budget
        balance = ledger.balance(ACCOUNT)
        assert balance.spent == subsampled(5.0)
        assert balance.epsilon_spent == pytest.approx(5.0, rel=3e-6)
        assert balance.epsilon_left == 0
        with pytest.raises(BudgetRefused, match="does not cover"):
            ledger.reserve(request("more", epsilon=0.01))
        assert ledger.verify() == []


def test_approximate_parts_take_epsilon_and_delta_from_what_is_left(path):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=6.0, delta=DELTA)
        part = Cost(0.0, 2.0, DELTA / 4)
        ledger.reserve(request("amplified", epsilon=2.0, cost=part))
        left = ledger.balance(ACCOUNT).epsilon_left
        # Gaussian releases at (4, 3/4 delta), said at the account's whole delta: just under 4.
        assert 3.9 < left < 4.0
        with pytest.raises(BudgetRefused, match=f"limit {left:g} left: 2 spent of 6"):
            ledger.reserve(request("rest", epsilon=left * (1 + 1e-4)))
        ledger.reserve(request("rest", epsilon=left))
        assert ledger.balance(ACCOUNT).epsilon_spent == pytest.approx(6.0, rel=1e-4)
        assert ledger.verify() == []


def test_the_one_delta_of_an_account_is_never_exhausted(path):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=50.0, delta=DELTA)
        ledger.reserve(request("one", cost=subsampled(5.0)))
        head = ledger.head()
        with pytest.raises(BudgetRefused, match="would use up the cohort's delta") as refused:
            ledger.reserve(request("two", cost=subsampled(5.0)))
        line = str(refused.value)
        assert refused.value.exit_code == 6
        assert "\n" not in line
        assert "got delta 5e-09 on top of 5e-09" in line
        assert "less than delta 1e-08" in line
        assert ledger.head() == head
        ledger.reserve(request("two", cost=subsampled(5.0, delta=0.9 * DELTA)))
        ledger.reserve(request("Gaussian"))
        assert ledger.verify() == []


def test_parts_without_a_gaussian_one_exhaust_a_budget_too(path):
    """Where no mu^2 is spent, the sums of epsilon_j and delta_j alone decide."""
    budget = Budget(5.0, DELTA)
    assert budget.covers(Cost(0.0, 5.0, 0.999 * DELTA))
    assert not budget.covers(Cost(0.0, 5.001, 0.5 * DELTA))
    assert not budget.covers(Cost(0.0, 2.5, DELTA))
    part = request(epsilon=2.0, cost=Cost(0.0, 2.0, 0.5 * DELTA))
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=5.0, delta=DELTA)
        ledger.reserve(part)
        with pytest.raises(BudgetRefused, match="would use up the cohort's delta"):
            ledger.reserve(replace(part, digest="second"))
        with pytest.raises(BudgetRefused, match="does not cover"):
            ledger.reserve(request("second", epsilon=3.1, cost=Cost(0.0, 3.1, 0.1 * DELTA)))
        ledger.reserve(request("second", epsilon=2.0, cost=Cost(0.0, 2.0, 0.1 * DELTA)))
        assert ledger.verify() == []


def test_two_charges_of_one_release_share_its_budget(path):
    moments = request("moments", cost=gaussian(5.0, share=0.05))
    main = request("main", cost=gaussian(5.0, share=0.95))
    with Ledger(path) as ledger:
        first = ledger.reserve(moments, to_follow=main.cost)
        assert first.opened_budget
        second = ledger.reserve(main)
        assert not second.opened_budget
        assert ledger.balance(ACCOUNT).epsilon_spent == pytest.approx(5.0, rel=3e-6)
        assert ledger.reserve(moments, noise_at_hand=[first.charge.id]).charge.id == first.charge.id
        with pytest.raises(BudgetRefused):
            ledger.reserve(moments)
        assert ledger.verify() == []


def test_what_was_spent_before_a_charge_is_told_by_order(path):
    costs = [gaussian(1.0), Cost(0.1, 0.5, DELTA / 4), gaussian(2.0)]
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=9.0, delta=DELTA)
        charges = []
        for k, cost in enumerate(costs):
            charges.append(ledger.reserve(request(str(k), cost=cost)).charge.id)
            ledger.reserve(request(account=Account(f"other {k}")))  # spends from none but its own
        balance = ledger.balance(ACCOUNT)
    assert balance.spent_before(charges[0]) == Cost(0.0)
    assert balance.spent_before(charges[1]) == costs[0]
    assert balance.spent_before(charges[2]) == costs[0] + costs[1]
    with pytest.raises(ValueError, match="not in list"):
        balance.spent_before("another")


def test_what_cannot_be_finished_is_not_begun(path):
    moments = request("moments", cost=gaussian(5.0, share=0.05))
    rest = gaussian(5.0, share=0.95)
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=4.9, delta=DELTA)
        for attempt in (ledger.reserve, ledger.reserve_again):
            with pytest.raises(BudgetRefused, match=r"got epsilon 5; limit 4\.9 left"):
                attempt(moments, to_follow=rest)
        assert ledger.balance(ACCOUNT).charges == ()
        ledger.reserve(moments)
        assert len(ledger.balance(ACCOUNT).charges) == 1


IMPOSSIBLE = [
    (Cost(-0.1), "no cost"),
    (Cost(math.nan), "no cost"),
    (Cost(math.inf), "no cost"),
    (Cost(0.1, -0.1, 0.0), "no cost"),
    (Cost(0.1, 0.1, -1e-12), "no cost"),
    (Cost(0.0), "no cost"),
    (Cost(1.0001 * release_mu(5.0, DELTA) ** 2), "costs more"),
    (Cost(release_mu(5.0, DELTA) ** 2, 0.001, DELTA / 1000), "costs more"),
    (Cost(0.0, 5.001, DELTA / 2), "costs more"),
    (Cost(0.01, 0.1, DELTA), "costs more"),
    (Cost(1e300), "costs more"),
    (Cost(0.01, 1e308, DELTA / 2), "costs more"),
]


@pytest.mark.parametrize(("cost", "problem"), IMPOSSIBLE)
def test_a_cost_that_breaks_the_promise_is_never_charged(path, cost, problem):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=50.0, delta=DELTA)
        with pytest.raises(ValueError, match=problem):
            ledger.reserve(request(cost=cost))
        assert ledger.balance(ACCOUNT).charges == ()


@pytest.mark.parametrize(
    ("cost", "problem"), [case for case in IMPOSSIBLE if math.isfinite(case[0].mu_squared)]
)
def test_a_recorded_cost_that_breaks_the_promise_is_found(path, cost, problem):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=50.0, delta=DELTA)
        body = reservation_as_json(Charge("charge", request(cost=cost)))
        with ledger._log.exclusively():
            ledger._log.append("reserved", body)
        assert [problem in line for line in ledger.verify()] == [True]


# --- keys and format versions -----------------------------------------------------------------


def checked(public_key, signature, data):
    """By the library alone: raises if the signature is not good."""
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, data)


def test_a_ledger_signs_with_one_key_of_its_own(path, tmp_path):
    with Ledger(path) as ledger, Ledger(tmp_path / "other.sqlite") as other:
        key, signature = ledger.public_key, ledger.sign(b"release")
        checked(key, signature, b"release")
        assert other.public_key != key
        with pytest.raises(InvalidSignature):
            checked(key, other.sign(b"release"), b"release")
    with Ledger(path, create=False) as again:
        assert again.public_key == key
        assert again.sign(b"release") == signature


@pytest.mark.parametrize(
    "statement",
    ["UPDATE signing SET key = randomblob(32)", "DELETE FROM signing", "DROP TABLE signing"],
)
def test_nothing_is_signed_with_a_key_that_was_not_recorded(used, statement):
    tamper(used, statement)
    with Ledger(used, create=False) as ledger:
        assert ledger.public_key
        with pytest.raises(InputError, match="signing key is not the one that was recorded"):
            ledger.sign(b"release")


@pytest.mark.parametrize("create", [True, False])
def test_version_1_is_upgraded_on_opening(tmp_path, create):
    path = tmp_path / "ledger.sqlite"
    write_version_1(path)
    with Ledger(path, create=create) as ledger:
        assert ledger.verify() == []
        kinds = [kind for _, kind, _ in ledger._log.events()]
        assert kinds == ["created", "budget", "reserved", "drawn", "published", "upgraded"]
        upgrade = ledger._log.events()[-1][2]
        assert upgrade == {"format_version": 2, "public_key": ledger.public_key}
        checked(ledger.public_key, ledger.sign(b"release"), b"release")
        (charge,) = ledger.balance(ACCOUNT).charges
        assert (charge.id, charge.cost) == (VERSION_1_CHARGE, Cost(VERSION_1_MU_SQUARED))
        assert charge.state is ChargeState.PUBLISHED
        asked = ReleaseRequest(ACCOUNT, "first", 5.0, DELTA, charge.cost, "everybody")
        assert ledger.reserve(asked).charge.id == VERSION_1_CHARGE
        ledger.reserve(request("second", epsilon=ledger.balance(ACCOUNT).epsilon_left))
        key, head = ledger.public_key, ledger.head()
    with Ledger(path, create=create) as again:
        assert (again.public_key, again.head()) == (key, head)
        assert again.verify() == []


def test_who_comes_second_to_an_upgrade_does_nothing(tmp_path, monkeypatch):
    """Both saw version 1; the other one was faster."""
    path, upgrade = tmp_path / "ledger.sqlite", EventLog._upgrade
    write_version_1(path)

    def upgrade_second(log):
        monkeypatch.setattr(EventLog, "_upgrade", upgrade)
        Ledger(path).__exit__(None, None, None)
        upgrade(log)

    monkeypatch.setattr(EventLog, "_upgrade", upgrade_second)
    with Ledger(path) as ledger:
        assert ledger.verify() == []
        assert [kind for _, kind, _ in ledger._log.events()].count("upgraded") == 1


def test_processes_that_upgrade_together_make_one_key(tmp_path):
    path = tmp_path / "ledger.sqlite"
    write_version_1(path)
    keys = together(report_public_key, path, [(), (), ()])
    assert len(keys) == 3
    with Ledger(path, create=False) as ledger:
        assert set(keys) == {ledger.public_key}
        assert [kind for _, kind, _ in ledger._log.events()].count("upgraded") == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM events WHERE kind = 'published'", "event 5: missing"),
        ("UPDATE events SET body = replace(body, '8.0', '9.0') WHERE kind = 'budget'",
         "event 2 (budget): changed"),
        ("UPDATE secret SET key = x'00'", "event 5 (published): changed"),
    ],
)  # fmt: skip
def test_an_upgrade_hides_no_damage(tmp_path, statement, problem):
    path = tmp_path / "ledger.sqlite"
    write_version_1(path)
    tamper(path, statement)
    with Ledger(path) as ledger:
        assert any(problem in line for line in ledger.verify())
        with pytest.raises(InputError, match="the ledger is damaged"):
            ledger.reserve(request())
