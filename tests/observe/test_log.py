"""The log as JSON lines and as text: every line of a command, and reading both back."""

import json
import stat
from datetime import datetime

import pytest
from support.observed_runs import logged
from support.small_cohort import succeeded

from primo_scale.errors import ResourceError
from primo_scale.run.work_directory import read_status

KEYS = {"time", "level", "stage", "event", "message", "fields"}


def test_json_lines_have_all_that_a_text_line_says(tmp_path) -> None:
    result = succeeded(logged(tmp_path, "--log-format", "json"))
    on_file = [json.loads(line) for line in (tmp_path / "run.log").read_text().splitlines()]
    on_screen = [json.loads(line) for line in result.stderr.splitlines()]
    assert all(line.keys() == KEYS for line in on_file)
    assert on_file[-len(on_screen):] == on_screen  # fmt: skip
    assert [line["event"] for line in on_file] == [
        "start", "option", "option", "stage begins", "filter", "stage ends", "end",
    ]  # fmt: skip
    (said,) = (line for line in on_file if line["event"] == "filter")
    assert (said["stage"], said["level"], said["message"]) == ("ingest", "info", "24 people")
    assert said["fields"] == {"left": 24, "of": "x.fam"}
    assert all(datetime.fromisoformat(line["time"]).tzinfo for line in on_file)
    assert on_file[0]["stage"] == ""


def test_a_run_without_json_logs_text(tmp_path) -> None:
    result = logged(tmp_path)
    assert result.stderr == "24 people\n"
    assert all(line[10] == "T" for line in (tmp_path / "run.log").read_text().splitlines())
    assert stat.S_IMODE((tmp_path / "run.log").stat().st_mode) == 0o600


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_error_is_one_line_on_both_sides(tmp_path, log_format) -> None:
    log = tmp_path / "run.log"
    error = ResourceError("the disk is full", where=log, value=1, remedy="Free space")
    result = logged(tmp_path, "--log-format", log_format, error=error)
    assert result.exit_code == 4
    words = f"error: {log}: the disk is full (got 1). Free space"
    last = result.stderr.splitlines()[-1]
    *_, in_log, end = log.read_text().splitlines()
    assert "exit code 4" in end
    if log_format == "text":
        assert last == words
        assert in_log.split(" ", 1)[1] == words
        return
    line, on_file = json.loads(last), json.loads(in_log)
    assert {**on_file, "time": line["time"]} == line
    assert (line["level"], line["stage"], line["message"]) == ("error", "ingest", words)
    assert line["fields"] == {
        "exit_code": 4, "what": "the disk is full", "where": str(log), "value": 1,
        "limit": None, "expected": None, "remedy": "Free space",
    }  # fmt: skip


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_bug_is_recorded_with_its_traceback_and_raised(tmp_path, log_format) -> None:
    bug = ValueError("of two\nlines")
    result = logged(tmp_path, "--log-format", log_format, error=bug)
    assert result.exception is bug
    run = read_status(tmp_path)
    words = "error: a bug in the program: ValueError: of two lines. Report it"
    assert run.state == "failed" and run.message.startswith(words)
    log = "\n".join((tmp_path / "run.log").read_text().splitlines()[:-1])
    if log_format == "json":
        log = json.loads(log.splitlines()[-1])["fields"]["traceback"]
    assert "raise error" in log and log.rstrip().endswith("ValueError: of two\nlines")
