"""The rate and the time left, against runs whose speed is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.accumulation.task_weights import Amount
from primo_scale.run.eta import Pace, duration

WEIGHTS = st.lists(st.integers(1, 10**6), min_size=25, max_size=60)


def run_at(rate: float, weights: list[int], *, before: Amount, start: float) -> tuple[Pace, float]:
    """A run that does `weights` one after the other at `rate`, and the time when it has."""
    pace, now, done = Pace(), start, before
    pace.note(now, done)
    for weight in weights:
        now += weight / rate
        done += Amount(1, weight)
        pace.note(now, done)
    return pace, now


@given(
    weights=WEIGHTS,
    left=st.integers(1, 10**8),
    before=st.integers(0, 10**12),
    rate=st.floats(1.0, 1e6),
    start=st.floats(-1e6, 1e9),
)
def test_work_that_was_there_before_is_not_taken_for_this_runs(
    weights, left, before, rate, start
) -> None:
    """At a constant rate in work the time left is exact, however unlike the tasks are."""
    committed = Amount(1000, before)
    pace, now = run_at(rate, weights, before=committed, start=start)
    whole = Amount(10**6, before + sum(weights) + left)
    assert pace.seconds_left(now, whole) == pytest.approx(left / rate, rel=1e-3, abs=1e-3)


@given(weights=WEIGHTS, slow=st.floats(0.01, 0.5))
def test_the_rate_is_that_of_the_last_minutes(weights, slow) -> None:
    """Half of the workers die: what was fast hours ago is forgotten once it left the window."""
    pace, now, done = Pace(window=100), 0.0, Amount(0, 0)
    pace.note(now, done)
    for second in range(1, 1001):
        now, done = float(second), done + Amount(1, 10)
        pace.note(now, done)
    for _ in range(200):
        now, done = now + 1 / slow, done + Amount(1, 10)
        pace.note(now, done)
    assert pace.weight_per_second(now) == pytest.approx(10 * slow)
    assert pace.tasks_per_second(now) == pytest.approx(slow)


def test_a_run_that_stands_still_gets_slower_and_slower() -> None:
    pace, now = run_at(1.0, [1] * 50, before=Amount(0, 0), start=0)
    whole = Amount(100, 100)
    times = [pace.seconds_left(now + stall, whole) for stall in (0, 50, 5000)]
    assert times == pytest.approx([50, 100, 50 * 5050 / 50])


def test_work_that_has_to_be_done_again_starts_a_new_rate() -> None:
    pace, now = run_at(1.0, [1] * 50, before=Amount(0, 0), start=0)
    pace.note(now + 1, Amount(20, 20))  # thirty were damaged
    assert pace.weight_per_second(now + 1) == 0
    pace.note(now + 2, Amount(40, 40))
    assert pace.weight_per_second(now + 2) == pytest.approx(20)


def test_too_early_to_tell_and_too_late_to_ask() -> None:
    pace = Pace()
    assert pace.seconds_left(0, Amount(1, 1)) is None
    pace.note(0, Amount(500, 500))
    assert pace.seconds_left(5, Amount(1000, 1000)) is None
    pace.note(20, Amount(501, 501))  # the first task of five hundred says nothing
    assert pace.seconds_left(20, Amount(1000, 1000)) is None
    assert pace.seconds_left(20, Amount(502, 502)) == pytest.approx(20)  # of two it says much
    assert pace.seconds_left(20, Amount(501, 501)) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (119, "119 s"), (121, "2 min"), (7199, "120 min"), (12_000, "3 h 20 min"),
     (7259, "2 h 1 min"), (2 * 86_400 + 4 * 3600, "2 d 4 h")],
)  # fmt: skip
def test_times_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words
