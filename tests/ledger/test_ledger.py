"""The ledger: budgets, replay, crashes, concurrency."""

from __future__ import annotations

import os
import secrets
import signal
import stat
from collections import Counter

import pytest
from ledger_examples import (
    ACCOUNT,
    DELTA,
    PROCESSES,
    gaussian,
    request,
    together,
)

from primo_scale.errors import BudgetRefused, InputError, UsageError
from primo_scale.gaussian.calibration import Cost, mu_for, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.ledger import event_log
from primo_scale.ledger.event_log import EventLog
from primo_scale.ledger.ledger import Ledger, default_ledger_path
from primo_scale.ledger.spending import (
    Account,
    AccountBudget,
    ChargeState,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.sqlite"


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
    assert AccountBudget(5.0, DELTA).mu_squared == mu_for(5.0 * (1 - 1e-6), DELTA) ** 2


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


def test_every_directory_made_for_a_ledger_survives_power_loss(tmp_path, monkeypatch):
    """An entry is durable once the directory that it is in is flushed, after it was made."""
    durable = set()
    monkeypatch.setattr(
        event_log, "sync_directory", lambda directory: durable.update(directory.iterdir())
    )
    path = tmp_path / "a" / "b" / "c" / "ledger.sqlite"
    with Ledger(path):
        pass
    assert {path, *path.parents} - {tmp_path, *tmp_path.parents} <= durable


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
        replayed = ledger.reserve(request(), stored_noise=first.id).charge
        assert replayed.id == first.id
        unrelated = ledger.reserve(request("other"), stored_noise=first.id).charge
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
        assert ledger.reserve(request(), stored_noise=first.id).charge.id == first.id
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
        stored = statistics.read_text().split()[:1] if statistics.exists() else []
        asked = request(epsilon=1.0, account=COHORT)
        charge = ledger.reserve(asked, stored_noise=stored).charge
        reached("reserved")
        if charge.id not in stored:
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
