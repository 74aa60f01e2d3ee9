"""``primo_scale.ledger``, the ledger for notebooks."""

import stat

import pytest
from support.ledger_examples import request

import primo_scale as ps
from primo_scale.gaussian.calibration import composed_epsilon
from primo_scale.ledger.accounts import Account
from primo_scale.ledger.ledger import Ledger


@pytest.fixture
def spent(path):
    with Ledger(path) as ledger:
        ledger.reserve(request(account=Account("biobank")))
    return path


def test_a_budget_is_set_shown_and_spent(path):
    balance = ps.ledger.set_budget(path=path, cohort="biobank", epsilon=5, delta=1e-8)
    assert (balance.epsilon_spent, balance.epsilon_left) == (0, 5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Ledger(path) as ledger:
        charge = ledger.reserve(request(account=Account("biobank"))).charge
    ps.ledger.set_budget(path=str(path), epsilon=8)  # the only cohort, which keeps its delta
    state = ps.ledger.show(path, cohort="biobank")
    (balance,) = state.balances
    assert balance.epsilon_spent == composed_epsilon(charge.cost, 1e-8)
    assert (balance.budget.epsilon, balance.budget.delta) == (8, 1e-8)
    assert str(state).startswith(f"{path}, head {state.head}\npublic key {state.public_key}\n")
    assert f"  charge {charge.id}" in str(state)
    assert ps.ledger.verify(path) == ()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda p: ps.ledger.show(p.with_name("none")), ps.InputError, "none"),
        (lambda p: ps.ledger.show("~/x"), ps.UsageError, "begins with ~"),
        (lambda p: ps.ledger.show(p, cohort="x"), ps.UsageError, "no such cohort"),
        (lambda p: ps.ledger.set_budget(path=p, cohort="x", epsilon=1), ps.UsageError, "a delta"),
        (
            lambda p: ps.ledger.set_budget(path=p, epsilon=1, unit="phenotypes"),
            ps.UsageError, "unit: not a valid choice",
        ),
        (lambda p: ps.ledger.set_budget(path=p, epsilon=9, delta=1e-9), ps.BudgetRefused, "delta"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_line(call, error, words, spent):
    with pytest.raises(error, match=words):
        call(spent)
