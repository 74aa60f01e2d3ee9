"""Progress in a log and at a terminal, on a test clock."""

import io
import json
import logging
import re

import pytest
import rich.console

from primo_scale.run import run_log
from primo_scale.run.run_log import LOGGER

TOTAL = 500


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_log, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def all_lines(caplog) -> None:
    caplog.set_level(logging.DEBUG, logger=LOGGER.name)


def console(monkeypatch, *, terminal: bool, width: int = 120) -> io.StringIO:
    screen = io.StringIO()
    made = rich.console.Console(file=screen, force_terminal=terminal, width=width)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: made)
    monkeypatch.setattr(run_log, "_bar_is_shown", lambda: terminal)
    return screen


def continue_a_run(clock: Clock, minutes: int) -> None:
    """400 of 500 tasks are there; so many minutes of tasks follow."""
    done = 400
    with run_log.progress_bar("accumulate") as move:
        move(done, TOTAL)
        for _ in range(10 * minutes):
            clock.now += 6
            done += 1
            move(done, TOTAL)


def test_a_log_file_gets_a_line_every_so_often(monkeypatch, clock, caplog) -> None:
    screen = console(monkeypatch, terminal=False)
    continue_a_run(clock, minutes=8)
    assert screen.getvalue() == ""
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert 4 <= len(caplog.records) < 20  # of 80 tasks; ever further apart
    # 20 tasks of 6 s are left: what was there before is not this run's work.
    assert caplog.messages[-1] == (
        "accumulate: 480 of 500 tasks, 10 tasks a minute, about 2 min left"
    )
    fields = [record.fields for record in caplog.records]
    assert fields[-1] == {
        "of_what": "tasks", "done": 480, "total": 500, "per_second": 0.1667,
        "seconds_left": 120,
    }  # fmt: skip
    assert json.loads(json.dumps(fields)) == fields
    assert [record.event for record in caplog.records] == ["progress"] * len(caplog.records)


def test_a_short_run_says_nothing(monkeypatch, clock, caplog) -> None:
    console(monkeypatch, terminal=False)
    with run_log.progress_bar("accumulate") as move:
        move(0, TOTAL)
        clock.now += 2
        move(TOTAL, TOTAL)
    assert caplog.records == []


def test_an_interrupted_run_says_where_it_stopped(monkeypatch, clock, caplog) -> None:
    console(monkeypatch, terminal=False)
    with pytest.raises(KeyboardInterrupt), run_log.progress_bar("ingest", "partitions") as move:
        move(0, 50)
        clock.now += 60
        move(20, 50)
        clock.now += 3
        move(21, 50)
        raise KeyboardInterrupt
    assert caplog.messages[-1].startswith("ingest: 21 of 50 partitions")


def test_a_bar_starts_where_the_run_before_stood(monkeypatch, clock, caplog) -> None:
    screen = console(monkeypatch, terminal=True)
    continue_a_run(clock, minutes=8)
    frames = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    counts = re.findall(r"(\d+) of 500 tasks", frames)
    assert (counts[0], counts[-1]) == ("400", "480")
    assert "480 of 500 tasks" in frames.splitlines()[-1]
    assert "0:02:00" in frames.splitlines()[-1]
    # The terminal shows a bar, so the lines are the log file's alone.
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize("width", [80, 200])
def test_a_bar_is_one_line_of_the_terminal(monkeypatch, clock, caplog, width) -> None:
    """With the largest numbers that a run shows: a million tasks, and days."""
    screen = console(monkeypatch, terminal=True, width=width)
    whole = 1_234_567
    with run_log.progress_bar("accumulate") as move:
        for done in range(100_000, 111_000, 1000):
            move(done, whole)
            clock.now += 180
    frames = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue()).splitlines()
    lines = [part for frame in frames for part in frame.split("\r") if part.strip()]
    assert lines
    assert max(map(len, lines)) <= width
    assert all(line.startswith("accumulate ") for line in lines)  # none is the rest of another
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    assert "110000 of 1234567 tasks" in lines[-1]
