"""Progress in a log, on a test clock."""

import json
import logging

from primo_scale.run import progress
from primo_scale.run.run_log import LOGGER


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_a_log_file_gets_a_line_every_so_often(monkeypatch, capsys, caplog) -> None:
    """400 of 500 tasks are there; eight minutes of tasks follow."""
    clock, done, total = Clock(), 400, 500
    monkeypatch.setattr(progress, "time", clock)
    caplog.set_level(logging.DEBUG, logger=LOGGER.name)
    with progress.progress_bar("accumulate") as move:
        move(done, total)
        for _ in range(80):
            clock.now += 6
            done += 1
            move(done, total)
    assert capsys.readouterr().err == ""
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
