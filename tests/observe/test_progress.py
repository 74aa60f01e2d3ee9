"""The pace of runs of known speed, and progress in a log and at a terminal, on a test clock."""

import io
import json
import logging
import re

import pytest
import rich.console
from hypothesis import given
from hypothesis import strategies as st

from primo_scale.accumulation.workload import Amount
from primo_scale.run import progress
from primo_scale.run.progress import Pace
from primo_scale.run.run_log import LOGGER

TOTAL = Amount(500, 500_000)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def all_lines(caplog) -> None:
    caplog.set_level(logging.DEBUG, logger=LOGGER.name)


def console(monkeypatch, *, terminal: bool, width: int = 120) -> io.StringIO:
    screen = io.StringIO()
    made = rich.console.Console(file=screen, force_terminal=terminal, width=width)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: made)
    monkeypatch.setattr(progress, "_bar_is_shown", lambda: terminal)
    return screen


def continue_a_run(clock: Clock, minutes: int) -> None:
    """400 of 500 tasks are there; so many minutes of tasks of 1000 follow."""
    done = Amount(400, 400_000)
    with progress.progress_bar("accumulate") as move:
        move(done, TOTAL)
        for _ in range(10 * minutes):
            clock.now += 6
            done += Amount(1, 1000)
            move(done, TOTAL)


def test_a_log_file_gets_a_line_every_so_often(monkeypatch, clock, caplog) -> None:
    screen = console(monkeypatch, terminal=False)
    continue_a_run(clock, minutes=8)
    assert screen.getvalue() == ""
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert 4 <= len(caplog.records) < 20  # of 80 tasks; ever further apart
    # 20 tasks of 6 s are left: what was there before is not this run's work.
    assert caplog.messages[-1] == (
        "accumulate: 480 of 500 tasks, 96% of the work, 10 tasks a minute, about 2 min left"
    )
    fields = [record.fields for record in caplog.records]
    assert fields[-1] == {
        "of_what": "tasks", "done": 480, "total": 500, "work_done": 0.96, "per_second": 0.1667,
        "seconds_left": 120,
    }  # fmt: skip
    assert json.loads(json.dumps(fields)) == fields
    assert [record.event for record in caplog.records] == ["progress"] * len(caplog.records)


def test_a_short_run_says_nothing(monkeypatch, clock, caplog) -> None:
    console(monkeypatch, terminal=False)
    with progress.progress_bar("accumulate") as move:
        move(Amount(0, 0), TOTAL)
        clock.now += 2
        move(TOTAL, TOTAL)
    assert caplog.records == []


def test_an_interrupted_run_says_where_it_stopped(monkeypatch, clock, caplog) -> None:
    console(monkeypatch, terminal=False)
    with pytest.raises(KeyboardInterrupt), progress.count_bar("ingest", "partitions") as move:
        move(0, 50)
        clock.now += 60
        move(20, 50)
        clock.now += 3
        move(21, 50)
        raise KeyboardInterrupt
    assert caplog.messages[-1].startswith("ingest: 21 of 50 partitions, 42% of the work")


def test_a_bar_starts_where_the_run_before_stood(monkeypatch, clock, caplog) -> None:
    screen = console(monkeypatch, terminal=True)
    continue_a_run(clock, minutes=8)
    frames = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    counts = re.findall(r"(\d+) of 500 tasks", frames)
    assert (counts[0], counts[-1]) == ("400", "480")
    assert "480 of 500 tasks" in frames.splitlines()[-1]
    assert "about 2 min left" in frames.splitlines()[-1]
    # The terminal shows a bar, so the lines are the log file's alone.
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize(("width", "with_rate"), [(80, False), (100, True), (200, True)])
def test_a_bar_is_one_line_of_the_terminal(monkeypatch, clock, caplog, width, with_rate) -> None:
    """With the largest numbers that a run shows: a million tasks, and days."""
    screen = console(monkeypatch, terminal=True, width=width)
    whole = Amount(1_234_567, 1_234_567)
    with progress.progress_bar("accumulate") as move:
        for done in range(100_000, 111_000, 1000):
            move(Amount(done, done), whole)
            clock.now += 180
    frames = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue()).splitlines()
    lines = [part for frame in frames for part in frame.split("\r") if part.strip()]
    assert lines
    assert max(map(len, lines)) <= width
    assert all(line.startswith("accumulate ") for line in lines)  # none is the rest of another
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    assert "110000 of 1234567 tasks" in lines[-1]
    assert "left" in lines[-1]
    assert ("tasks a minute" in lines[-1]) == with_rate


# ---- Pace ----------------------------------------------------------------------------------------

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


@pytest.mark.slow
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


@pytest.mark.slow
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
