"""Errors between processes and with longer remedies, and budgets in words."""

import errno
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from primo_scale.errors import (
    InputError,
    InterruptedRun,
    ResourceError,
    anticipated,
    remedy_extended,
)
from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.humanize import spent_in_words
from primo_scale.ledger.accounts import AccountBudget


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("has the wrong size", value=1, expected=2, remedy="Restore it"),
         "noise: has the wrong size (found 1, expected 2). Restore it. Budget was spent"),
        (InterruptedRun("interrupted"), "interrupted"),
    ],
    ids=["extended", "an interruption is not changed"],
)  # fmt: skip
def test_a_sentence_is_added_to_the_remedy(error, line):
    extended = remedy_extended(lambda: "Budget was spent", where=Path("noise"))
    with pytest.raises(type(error)) as raised, extended:
        raise error
    assert str(raised.value) == line


def test_an_error_with_an_expected_value_survives_between_processes():
    error = InputError("has another size", where="x.bed", value=3, expected=4, remedy="Look")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "x.bed: has another size (found 3, expected 4). Look"
    assert isinstance(again, InputError)


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (errno.EFBIG, ResourceError, "ulimit -f"),
        (errno.ENAMETOOLONG, InputError, "shorter path"),
        (errno.EACCES, InputError, "Check the permissions"),
    ],
)
def test_an_error_of_the_system_names_the_file_and_what_to_do(code, kind, remedy):
    found = anticipated(OSError(code, os.strerror(code), "a"))
    assert type(found) is kind
    assert str(found).startswith("a: ") and remedy in str(found)


AMOUNTS = st.floats(1e-6, 1e6)


def printed(spent, limit):
    return float(spent_in_words(spent, limit)), float(spent_in_words(limit))


@given(limit=AMOUNTS, share=st.floats(0, 1))
def test_an_amount_within_its_limit_is_printed_within_it(limit, share):
    spent, bound = printed(limit * share, limit)
    assert spent <= bound
    assert spent == pytest.approx(limit * share, rel=5.1e-5)


@given(limit=AMOUNTS, excess=st.floats(1.001e-4, 10))
def test_an_amount_above_its_limit_is_printed_above_it(limit, excess):
    spent, bound = printed(limit * (1 + excess), limit)
    assert spent > bound


@given(epsilon=st.floats(1e-3, 100), digits_of_delta=st.floats(-20, -3.5), parts=st.integers(1, 5))
@example(epsilon=8.0, digits_of_delta=-6, parts=1)  # 8.00001 in a report
def test_a_completely_spent_budget_is_not_printed_as_overdrawn(epsilon, digits_of_delta, parts):
    """The composed epsilon exceeds the budget slightly."""
    budget = AccountBudget(epsilon, 10**digits_of_delta)
    cost = Cost(parts * (budget.mu_squared / parts))
    assert budget.covers(cost)
    spent, bound = printed(composed_epsilon(cost, budget.delta), budget.epsilon)
    assert spent == bound
