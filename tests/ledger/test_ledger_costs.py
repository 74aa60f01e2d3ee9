"""The ledger: composition of Gaussian and approximate costs."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger_examples import ACCOUNT, DELTA, request
from support.noise_checks import exact_delta

from primo_scale.errors import BudgetRefused
from primo_scale.gaussian.calibration import Cost, composed_epsilon, release_mu
from primo_scale.ledger.accounts import (
    AccountBudget,
    Balance,
    Charge,
    ChargeRequest,
    reservation_as_json,
    total_cost,
)
from primo_scale.ledger.ledger import Ledger


def subsampled(epsilon, delta=DELTA):
    """Half of (epsilon, delta) for an amplified X'X, half for the Gaussian remainder."""
    return Cost(release_mu(epsilon / 2, delta / 2) ** 2, epsilon / 2, delta / 2)


@given(
    epsilon=st.floats(1e-3, 100.0),
    delta=st.floats(-30, -3).map(lambda exponent: min(10.0**exponent, 1e-3)),
    share=st.floats(1e-3, 0.999),
)
def test_a_budget_of_one_release_covers_exactly_its_parts(epsilon, delta, share):
    """For any shares and their rounding errors, but not a relative 1e-6 of mu^2 more."""
    budget, whole = AccountBudget(epsilon, delta), release_mu(epsilon, delta) ** 2
    parts = [Cost((math.sqrt(share) * math.sqrt(whole)) ** 2), Cost((1 - share) * whole)]
    charges = [
        Charge(str(k), ChargeRequest(ACCOUNT, str(k), epsilon, delta, part))
        for k, part in enumerate(parts)
    ]
    assert Balance(ACCOUNT, budget, ()).affords(Cost(whole))
    assert Balance(ACCOUNT, budget, (charges[0],)).affords(parts[1])
    assert not Balance(ACCOUNT, budget, (charges[0],)).affords(
        total_cost([parts[1], Cost(1e-6 * whole)])
    )
    assert not Balance(ACCOUNT, budget, tuple(charges)).affords(Cost(1e-6 * whole))
    assert all(charge.request.problem() is None for charge in charges)


@given(
    epsilon=st.floats(0.02, 20.0),  # at least a tenth remains, above SMALLEST_EPSILON
    delta=st.floats(-20, -3).map(lambda exponent: 10.0**exponent),
    epsilon_share=st.floats(0.0, 0.9),
    delta_share=st.floats(0.0, 0.9),
)
@settings(max_examples=50, deadline=None)
def test_a_budget_covers_exactly_the_costs_that_compose_to_it(
    epsilon, delta, epsilon_share, delta_share
):
    """eps(mu, delta - sum delta_j) + sum eps_j <= epsilon, with mpmath as the oracle."""
    budget = AccountBudget(epsilon, delta)
    parts = Cost(0.0, epsilon_share * epsilon, delta_share * delta)
    limit = budget.mu_squared_beside(parts)
    left_epsilon, left_delta = epsilon - parts.epsilon, delta - parts.delta
    assert exact_delta(left_epsilon, math.sqrt(limit)) <= left_delta
    assert exact_delta(left_epsilon, math.sqrt(limit * (1 + 5e-6))) > left_delta, (
        "the limit is too small"
    )
    assert budget.covers(total_cost([parts, Cost(limit)]))
    assert not budget.covers(total_cost([parts, Cost(limit * (1 + 5e-6))]))
    assert composed_epsilon(total_cost([parts, Cost(limit)]), delta) == pytest.approx(
        epsilon, rel=3e-6
    )


def test_approximate_costs_alone_stay_below_epsilon_and_delta():
    budget = AccountBudget(1.0, DELTA)
    assert budget.covers(Cost(0.0, 1.0, DELTA / 2))
    assert not budget.covers(Cost(0.0, math.nextafter(1.0, 2), DELTA / 2))
    assert not budget.covers(Cost(0.0, 0.5, DELTA))


def test_the_delta_of_an_account_is_never_exhausted(ledger):
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


IMPOSSIBLE = [
    (Cost(-0.1), "not positive and finite"),
    (Cost(math.nan), "not positive and finite"),
    (Cost(math.inf), "not positive and finite"),
    (Cost(0.1, -0.1, 0.0), "not positive and finite"),
    (Cost(0.1, 0.1, -1e-12), "not positive and finite"),
    (Cost(0.0), "not positive and finite"),
    (Cost(1.0001 * release_mu(5.0, DELTA) ** 2), "costs more"),
    (Cost(release_mu(5.0, DELTA) ** 2, 0.001, DELTA / 1000), "costs more"),
    (Cost(0.0, 5.001, DELTA / 2), "costs more"),
    (Cost(0.01, 0.1, DELTA), "costs more"),
    (Cost(1e300), "costs more"),
    (Cost(0.01, 1e308, DELTA / 2), "costs more"),
]


@pytest.mark.parametrize(("cost", "problem"), IMPOSSIBLE)
def test_an_invalid_cost_is_never_charged(ledger, cost, problem):
    ledger.set_budget(ACCOUNT, epsilon=50.0, delta=DELTA)
    with pytest.raises(ValueError, match=problem):
        ledger.reserve(request(cost=cost))
    assert ledger.balance(ACCOUNT).charges == ()


@pytest.mark.parametrize(
    ("cost", "problem"), [case for case in IMPOSSIBLE if math.isfinite(case[0].mu_squared)]
)
def test_a_recorded_invalid_cost_is_reported(path, cost, problem):
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=50.0, delta=DELTA)
        body = reservation_as_json(Charge("charge", request(cost=cost)))
        with ledger.exclusively():
            ledger.append("reserved", body)
        assert [problem in line for line in ledger.verify()] == [True]
