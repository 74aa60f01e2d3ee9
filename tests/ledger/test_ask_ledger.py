"""`Ledger.check_request`: the error that `reserve` raises later; an unchanged file."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from support.ledger_examples import ACCOUNT, DELTA, request

from primo_scale.errors import BudgetRefused, InputError
from primo_scale.ledger.accounts import Account
from primo_scale.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger that has spent epsilon 3 of 4 for people called 'everybody'."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=4.0, delta=DELTA)
        charge = ledger.reserve(replace(request("first", 3.0), people_digest="everybody")).charge
        ledger.mark_drawn(charge, "noised")
    return path


def check(path: Path, asked, stored_noise=()):
    before = path.read_bytes()
    try:
        with Ledger(path, read_only=True) as ledger:
            ledger.check_request(asked, stored_noise=stored_noise)
    finally:
        assert path.read_bytes() == before


def reserve_in_a_copy(path: Path, asked):
    copy = path.with_name("copy.sqlite")
    copy.write_bytes(path.read_bytes())
    with Ledger(copy) as ledger:
        return ledger.reserve(asked)


@pytest.mark.parametrize(
    "asked",
    [
        replace(request("other", 3.0), people_digest="everybody"),  # over the budget
        replace(request("other", 1.0), people_digest="everybody", delta=1e-7),  # another delta
        replace(request("other", 1.0), people_digest="everybody", account=Account("new name")),
    ],
)
def test_the_check_raises_the_error_that_reserve_raises(path: Path, asked) -> None:
    with pytest.raises(BudgetRefused) as early:
        check(path, asked)
    with pytest.raises(BudgetRefused) as late:
        reserve_in_a_copy(path, asked)
    assert str(early.value).replace("ledger.sqlite", "copy.sqlite") == str(late.value)


def test_the_check_allows_what_reserve_allows(path: Path) -> None:
    for asked in (
        replace(request("other", 0.5), people_digest="everybody"),
        replace(request("other", 9.0), people_digest="others", account=Account("others")),
    ):
        check(path, asked)
        reserve_in_a_copy(path, asked)


def test_the_check_allows_a_request_that_stored_noise_may_pay(path: Path) -> None:
    with Ledger(path) as ledger:
        (charge,) = ledger.balance(ACCOUNT).charges
    again = replace(request("not known yet", 3.0), people_digest="everybody")
    check(path, again, [charge.id])
    for stored_noise in ([], ["another charge"]):
        with pytest.raises(BudgetRefused):
            check(path, again, stored_noise)
    with pytest.raises(BudgetRefused):
        check(path, replace(request("x", 2.5), people_digest="everybody"), [charge.id])


def test_a_read_only_ledger_reserves_nothing(path: Path) -> None:
    with (
        Ledger(path, read_only=True) as ledger,
        pytest.raises((InputError, sqlite3.Error), match="readonly"),
    ):
        ledger.reserve(request("other", 0.5))
    with pytest.raises(InputError, match="no ledger here"):
        Ledger(path.with_name("none.sqlite"), read_only=True)
