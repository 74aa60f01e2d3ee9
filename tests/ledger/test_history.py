"""What a sequence of events adds up to: each rule, broken by an event of somebody with the keys."""

import pytest

from primo_scale.gaussian.calibration import release_mu
from primo_scale.ledger.accounts import replay

ACCOUNT = {"cohort": "c", "unit": "full", "adjacency": "replace-one"}
CREATED = ("created", {"format_version": 2})
BUDGET = ("budget", {**ACCOUNT, "epsilon": 4.0, "delta": 1e-8})
BOUND = ("bound", {"charge": "first", "request": "statistics"})
BOUND_AGAIN = ("bound", {"charge": "first", "request": "second round", "number": 1})
DRAWN = ("drawn", {"charge": "first", "digest": "noise"})
PUBLISHED = ("published", {"charge": "first", "digest": "release"})


def reserved(charge="first", *, epsilon=1.0, delta=1e-8):
    cost = {
        "mu_squared": release_mu(epsilon, delta) ** 2,
        "approximate_epsilon": 0.0,
        "approximate_delta": 0.0,
    }
    asked = {"request": f"request of {charge}", "epsilon": epsilon, "delta": delta}
    return "reserved", {**ACCOUNT, "charge": charge, **asked, **cost, "people": ""}


def problems_of(*events):
    return replay([("2026-11-22T12:00:00+00:00", *event) for event in (CREATED, *events)]).problems


def test_events_of_a_release_have_no_problem():
    assert problems_of(BUDGET, reserved(), DRAWN, PUBLISHED, reserved("second")) == []
    assert problems_of(BUDGET, reserved(), BOUND, DRAWN, PUBLISHED) == []
    assert problems_of(BUDGET, reserved(), BOUND, BOUND_AGAIN, DRAWN, PUBLISHED) == []


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ((BUDGET, reserved(), reserved(epsilon=0.5)), "event 4 (reserved): reserves charge first "),
        ((BUDGET, reserved(delta=1e-9)), "event 3 (reserved): has another delta than cohort c"),
        ((reserved(),), "event 2 (reserved): spends from cohort c, which has no budget"),
        ((BUDGET, reserved(epsilon=5.0)), "event 3 (reserved): overspends the budget of cohort c"),
        ((BUDGET, reserved(), DRAWN, DRAWN), "event 5 (drawn): records a second noise"),
        ((BUDGET, reserved(), BOUND, BOUND), "event 5 (bound): the key of charge first serves two"),
        ((BUDGET, reserved(), DRAWN, BOUND), "event 5 (bound): the key of charge first serves two"),
        ((BUDGET, reserved(), BOUND_AGAIN), "event 4 (bound): the key of charge first serves two"),
        ((BUDGET, reserved(), PUBLISHED), "event 4 (published): charge first was published before"),
        ((BUDGET, DRAWN), "event 3 (drawn): charge first was never reserved"),
        ((BUDGET, ("budget", {**BUDGET[1], "delta": 1e-9})), "event 3 (budget): changes the delta"),
        ((("gift", {}),), "event 2 (gift): is of an unknown kind"),
        ((("drawn", {}),), "event 2 (drawn): cannot be read"),
    ],
)
def test_an_event_that_no_payment_appends_is_reported(events, problem):
    (found,) = problems_of(*events)
    assert found.startswith(problem)
