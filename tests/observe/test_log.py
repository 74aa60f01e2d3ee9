"""The log as JSON lines and as text: every line of a command, and reading both back."""

import asyncio
import errno
import gc
import json
import logging
import os
import stat
from datetime import datetime
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.observed_runs import Asked, logged
from support.small_cohort import command, succeeded

from primo_scale.cli.command_line import ContractCommand
from primo_scale.errors import InputError, ResourceError
from primo_scale.run.run_log import LOGGER, _LogFilter, run_logged
from primo_scale.run.work_directory import read_status

KEYS = {"time", "level", "stage", "event", "message", "fields"}
MESSAGES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=60)


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


@settings(max_examples=20)
@given(message=MESSAGES)
def test_both_formats_say_the_same(tmp_path_factory, message) -> None:
    """One log, continued by a run in the other format, as a resumed run may do."""
    folder = tmp_path_factory.mktemp("log")
    for log_format in ("text", "json"):
        logged(folder, "--log-format", log_format, said=message)
    lines = (folder / "run.log").read_text().split("\n")[:-1]
    text, as_json = lines[: len(lines) // 2], [json.loads(x) for x in lines[len(lines) // 2 :]]
    said = [line.split(" ", 1)[1] for line in text]
    assert message in said
    for ours, theirs in zip(said, as_json, strict=True):
        if theirs["event"] != "start":  # which names a process
            assert ours == theirs["message"]


def test_a_full_disk_keeps_the_log_from_nothing(tmp_path, capsys) -> None:
    """/dev/full takes no byte: the run goes on, and its errors stay one line."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")

    @click.command(cls=ContractCommand)
    def broken() -> None:
        """Log to a full disk, and fail."""
        with run_logged(tmp_path, "broken", Asked()):
            (log,) = (each.log for each in LOGGER.filters if isinstance(each, _LogFilter))
            log.stream.close()
            log.stream = full.open("w", buffering=1)
            LOGGER.info("goes on")
            raise InputError("is refused", where="--x")

    result = command(broken)
    assert result.exit_code == 3
    assert result.stderr.splitlines() == ["goes on", "error: --x: is refused"]


def test_tasks_that_fail_together_give_one_error(caplog) -> None:
    """Zarr writes arrays concurrently and raises one of the errors of a full disk."""

    async def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "zarr.json")

    async def together() -> None:
        writes = [asyncio.ensure_future(full()) for _ in range(2)]
        for write in asyncio.as_completed(writes):
            await write

    @click.command(cls=ContractCommand)
    def writing() -> None:
        """Write two arrays to a full disk."""
        asyncio.run(together())

    caplog.set_level(logging.NOTSET, "asyncio")
    result = command(writing)
    exit_code, lines = result.exit_code, result.stderr.splitlines()
    del result  # and with it the tasks, whose errors asyncio logs when they are deleted
    gc.collect()
    assert (exit_code, len(lines)) == (4, 1)
    assert "the disk is full" in lines[0]
    assert not [record for record in caplog.records if record.name == "asyncio"]
