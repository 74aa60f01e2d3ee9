"""Progress in a log and at a terminal, on a test clock."""

import io
import json
import logging
import sys

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
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
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
