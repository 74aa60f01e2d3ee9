"""The ledger: budgets, replayed charges, digests and concurrent processes."""

import pytest
from support.ledger_examples import ACCOUNT, DELTA, gaussian, report_public_key, request, together

from primo_scale.errors import BudgetRefused, InputError, UsageError
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.ledger import event_log
from primo_scale.ledger.accounts import Account, ChargeState
from primo_scale.ledger.ledger import Ledger


def test_the_first_release_opens_its_budget(path):
    with Ledger(path) as ledger:
        reservation = ledger.reserve(request())
        assert reservation.opened_budget
        assert reservation.charge.state is ChargeState.RESERVED
        balance = ledger.balance(ACCOUNT)
    assert (balance.budget.epsilon, balance.budget.delta) == (5.0, DELTA)
    assert balance.spent == Cost(release_mu(5.0, DELTA) ** 2)
    assert balance.epsilon_spent == pytest.approx(5.0, rel=2e-6)
    assert balance.epsilon_left == 0


def test_a_reservation_survives_power_loss(ledger):
    """A power loss cannot be simulated here: check the settings that SQLite documents for it."""
    database = ledger._database
    assert database.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_every_directory_made_for_a_ledger_survives_power_loss(tmp_path, monkeypatch):
    """A directory entry is durable once its directory is flushed after the entry was made."""
    durable = set()
    monkeypatch.setattr(
        event_log, "sync_directory", lambda directory: durable.update(directory.iterdir())
    )
    path = tmp_path / "a" / "b" / "c" / "ledger.sqlite"
    with Ledger(path):
        pass
    assert {path, *path.parents} - {tmp_path, *tmp_path.parents} <= durable


def test_a_refusal_states_the_remaining_budget_and_the_remedy(path, ledger):
    ledger.set_budget(ACCOUNT, epsilon=6.0, delta=DELTA)
    assert not ledger.reserve(request()).opened_budget
    with pytest.raises(BudgetRefused) as refused:
        ledger.reserve(request("second"))
    left = ledger.balance(ACCOUNT).epsilon_left
    line = str(refused.value)
    assert refused.value.exit_code == 6
    assert "got epsilon 5;" in line
    assert f"limit {left:g} left: 5 spent of 6 at delta 1e-08" in line
    assert f"primo-scale ledger set-budget --ledger {path} --cohort eur343" in line
    assert len(ledger.balance(ACCOUNT).charges) == 1


@pytest.mark.parametrize(
    ("first", "least", "most"),
    [
        (request(), 2, 4),  # mu^2 adds up, not epsilon
        # Gaussian releases at (4, 3/4 delta), converted to the whole delta: just under 4.
        (request("amplified", epsilon=2.0, cost=Cost(0.0, 2.0, DELTA / 4)), 3.9, 4),
    ],
)
def test_no_more_than_the_remaining_epsilon_can_be_spent(ledger, first, least, most):
    ledger.set_budget(ACCOUNT, epsilon=6.0, delta=DELTA)
    ledger.reserve(first)
    left = ledger.balance(ACCOUNT).epsilon_left
    assert least < left < most
    spent = f"limit {left:g} left: {first.epsilon:g} spent of 6"
    with pytest.raises(BudgetRefused, match=spent):
        ledger.reserve(request("second", epsilon=left * (1 + 1e-4)))
    ledger.reserve(request("second", epsilon=left))
    spent = ledger.balance(ACCOUNT)
    assert spent.budget.covers(spent.spent)
    assert spent.epsilon_spent == pytest.approx(6.0, rel=1e-4)


def test_delta_is_fixed(ledger):
    ledger.reserve(request())
    for attempt in (
        lambda: ledger.reserve(request("second", epsilon=0.1, delta=1e-9)),
        lambda: ledger.set_budget(ACCOUNT, epsilon=9.0, delta=1e-9),
    ):
        with pytest.raises(BudgetRefused, match="Ask for --delta 1e-08"):
            attempt()
    ledger.set_budget(ACCOUNT, epsilon=9.0)
    assert ledger.balance(ACCOUNT).budget.delta == DELTA


def test_a_budget_that_is_not_spent_can_be_lowered(path, ledger):
    ledger.set_budget(ACCOUNT, epsilon=6.0, delta=DELTA)
    assert ledger.set_budget(ACCOUNT, epsilon=2.0).budget.epsilon == 2
    with Ledger(path) as reopened:
        assert reopened.balance(ACCOUNT).epsilon_left == 2
        with pytest.raises(BudgetRefused):
            reopened.reserve(request(epsilon=2.001))
        reopened.reserve(request(epsilon=2.0))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (1.0, 0.5), (1.0, None)])
def test_invalid_budgets_are_usage_errors_and_record_no_event(ledger, epsilon, delta):
    head = ledger.head()
    with pytest.raises(UsageError):
        ledger.set_budget(ACCOUNT, epsilon=epsilon, delta=delta)
    assert ledger.head() == head


def test_a_drawn_charge_is_replayed_and_never_charged_again(ledger):
    charge = ledger.reserve(request()).charge
    ledger.mark_drawn(charge, "noised")
    drawn = ledger.reserve(request(), stored_noise=[charge.id])
    assert (drawn.charge.id, drawn.charge.state) == (charge.id, ChargeState.DRAWN)
    assert drawn.charge.statistics_digest == "noised"
    assert not drawn.opened_budget
    ledger.mark_published(charge, "release one")
    ledger.mark_published(charge, "release two")
    published = ledger.reserve(request(), stored_noise=[charge.id]).charge
    assert published.state is ChargeState.PUBLISHED
    assert published.release_digests == ("release one", "release two")
    assert len(ledger.balance(ACCOUNT).charges) == 1


@pytest.mark.parametrize(
    "changed", [request("other"), request(epsilon=4.0), request(account=Account("other"))]
)
def test_only_the_same_request_is_replayed(ledger, changed):
    ledger.set_budget(ACCOUNT, epsilon=20.0, delta=DELTA)
    charge = ledger.reserve(request()).charge
    ledger.mark_drawn(charge, "noised")
    assert ledger.reserve(changed, stored_noise=[charge.id]).charge.id != charge.id


@pytest.mark.parametrize("is_drawn", [False, True])
def test_noise_that_is_not_stored_is_paid_for_again(ledger, is_drawn):
    ledger.set_budget(ACCOUNT, epsilon=7.5, delta=DELTA)
    first = ledger.reserve(request()).charge
    if is_drawn:
        ledger.mark_drawn(first, "noised")
    second = ledger.reserve(request())
    assert [lost.id for lost in second.lost] == [first.id]
    assert ("is lost: paid again" in second.summary) == is_drawn
    assert ("1 interrupted draws" in second.summary) != is_drawn
    for paid in (first, second.charge):
        assert ledger.reserve(request(), stored_noise=[paid.id]).charge.id == paid.id
    with pytest.raises(BudgetRefused, match="does not cover this release"):
        ledger.reserve(request())
    assert len(ledger.balance(ACCOUNT).charges) == 2


def test_one_charge_has_one_noise(ledger):
    charge = ledger.reserve(request()).charge
    with pytest.raises(InputError, match="was not recorded"):
        ledger.mark_published(charge, "release")
    ledger.mark_drawn(charge, "noised")
    ledger.mark_drawn(charge, "noised")
    with pytest.raises(InputError, match="other noise was already drawn"):
        ledger.mark_drawn(charge, "noised again")


def test_a_charge_of_another_ledger_is_unknown(ledger, tmp_path):
    with Ledger(tmp_path / "other.sqlite") as other:
        charge = ledger.reserve(request()).charge
        with pytest.raises(InputError, match="no such charge"):
            other.mark_drawn(charge, "noised")


def test_digests_depend_on_the_key_and_the_purpose(path, tmp_path):
    with Ledger(path) as ledger, Ledger(tmp_path / "other.sqlite") as other:
        assert ledger.keyed_digest("a", b"data") == ledger.keyed_digest("a", b"data")
        digests = {
            ledger.keyed_digest("a", b"data"),
            ledger.keyed_digest("b", b"data"),
            ledger.keyed_digest("a", b"other"),
            other.keyed_digest("a", b"data"),
        }
        assert len(digests) == 4
        assert ledger.keyed_digest("people", b"1") != ledger.keyed_digest("peopl", b"e1")
        assert ledger.cohort_identifier("x") != other.cohort_identifier("x")
        one = ledger.request_digest("x", {"epsilon": 1.0, "columns": ["a"]})
        assert one == ledger.request_digest("x", {"columns": ["a"], "epsilon": 1.0})
        assert one != ledger.request_digest("x", {"columns": ["b"], "epsilon": 1.0})
    with Ledger(path) as again:
        assert again.request_digest("x", {"epsilon": 1.0, "columns": ["a"]}) == one


COHORT = Account("cohort")


def spend(path, name, paid):
    for k in range(12):
        with Ledger(path) as ledger:
            try:
                asked = request(f"{name} {k}", epsilon=1.0, account=COHORT)
                ledger.mark_drawn(ledger.reserve(asked).charge, "noised")
                paid.put(name)
            except BudgetRefused:
                pass


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
    keys = together(report_public_key, path, [(), (), ()])
    assert len(keys) == 3
    with Ledger(path, create=False) as ledger:
        assert set(keys) == {ledger.public_key}
