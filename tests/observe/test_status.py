"""What ``pipelines.status`` prints of runs that go on, end, fail, are killed or are elsewhere."""

import json
import os
import re
import socket
from datetime import datetime
from pathlib import Path

import pytest
from support.observed_runs import TILES, committed_tiles, logged
from support.small_cohort import command, refused

from primo_scale.cli.commands import status
from primo_scale.errors import InputError, InterruptedRun
from primo_scale.run.work_directory import read_status
from primo_scale.storage.files import exclusive_lock, lock_is_held


def answer(work: Path, exit_code: int) -> dict:
    result = command(status, work, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
def test_a_killed_run_is_stopped_at_what_it_logged(killed) -> None:
    """A few more tasks may have been committed."""
    said = answer(killed.work, 5)
    assert (said["state"], said["command"], said["stage"]) == (
        "stopped",
        "accumulate",
        "accumulate",
    )
    assert said["host"] == socket.gethostname()
    done = int(re.match(rf"accumulate: (\d+) of {TILES + 1} tasks, ", said["message"])[1])
    assert 0 < done <= committed_tiles(killed) + 1  # and the row task
    result = command(status, killed.work)
    assert result.exit_code == 5
    lines = result.stdout.splitlines()
    words = "accumulate, stopped; the same command continues it (accumulate, process"
    assert lines[0].startswith(f"{killed.work}: {words}")
    assert said["message"] in lines[1] and "ago)" in lines[1]
    assert "used (" in lines[2] and "free" in lines[2]


@pytest.mark.slow
def test_a_held_lock_means_that_the_run_goes_on(killed) -> None:
    with exclusive_lock(killed.work / "lock"):
        assert answer(killed.work, 0)["state"] == "running"
    assert not lock_is_held(killed.work / "no such lock")
    assert answer(killed.work, 5)["state"] == "stopped"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_last_line_tells_how_the_last_run_ended(tmp_path, log_format) -> None:
    for error, state in (
        (None, "finished"),
        (InputError("bad"), "failed"),
        (ValueError("bug"), "failed"),
        (InterruptedRun("interrupted"), "stopped"),
    ):
        logged(tmp_path, "--log-format", log_format, error=error)
        said = answer(tmp_path, {"failed": 3, "stopped": 5}.get(state, 0))
        assert (said["state"], said["command"], said["stage"]) == (state, "accumulate", "ingest")
        assert said["pid"] == os.getpid()
        assert said["message"] == "done" or said["message"].startswith("error: ")


def test_a_run_on_another_machine_is_not_called_dead(tmp_path) -> None:
    log = tmp_path / "run.log"
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    log.write_text(f"{now} primo_scale 0.5: release (process 7 on node17)\n{now} waiting\n")
    said = answer(tmp_path, 0)
    assert (said["state"], said["host"], said["message"]) == ("unknown", "node17", "waiting")
    with log.open("a") as more:
        more.write(f"{now} error: interrupted\n{now} exit code 5\n")
    assert answer(tmp_path, 5)["message"] == "error: interrupted"


def test_what_is_not_a_work_directory_is_bad_input(tmp_path) -> None:
    for path in (tmp_path / "none", tmp_path):
        refused(command(status, path), 3, str(path))
        with pytest.raises(InputError):
            read_status(path)
