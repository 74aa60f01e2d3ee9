"""What a terminal shows, whole words and nothing twice, and output that cannot be written."""

import io
import logging
import os
import re
import runpy
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.documented_code import ROOT
from support.processes import command_of
from support.small_cohort import BUDGET, Cohort, write_cohort

from primo_scale.cli.terminal import Terminal
from primo_scale.run import run_log

PLAN = [
    (logging.INFO, "--ref-freq: 3000 of 3000 variants matched"),
    (logging.WARNING, "No covariate is named as a principal component of a public panel"),
    (logging.INFO, "pre-flight: 17 tasks"),
    (logging.INFO, "forecast: R^2 0.24"),
    (logging.INFO, "forecast: R^2 0.24"),
]


class Stream(io.StringIO):
    """Output that may be a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: is_terminal  # type: ignore[method-assign]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch):
    """Return what is shown of a plan and two lines after it, on 41 columns if it is a terminal."""
    monkeypatch.setenv("COLUMNS", "41")

    def show(*, is_terminal: bool, level: int = logging.INFO, ends: bool = True) -> str:
        stream = Stream(is_terminal=is_terminal)
        handler = Terminal(stream)
        token = run_log.LEVEL.set(level)
        monkeypatch.setattr(run_log.LOGGER, "handlers", [handler])
        monkeypatch.setattr(run_log.LOGGER, "propagate", False)
        before = run_log.LOGGER.level
        run_log.LOGGER.setLevel(logging.DEBUG)
        try:
            plan = run_log.stage(run_log.PLAN)
            plan.__enter__()
            for severity, text in PLAN:
                run_log.LOGGER.log(severity, text)
            if ends:
                plan.__exit__(None, None, None)
                run_log.LOGGER.warning("few people")
            run_log.LOGGER.error("error: no disk")
        finally:
            handler.close()
            run_log.LEVEL.reset(token)
            run_log.LOGGER.setLevel(before)
            run_log.leave_stage()
        return stream.getvalue()

    return show


def test_a_plan_is_grouped_and_each_line_is_shown_once(shown):
    assert shown(is_terminal=False).splitlines() == [
        "Inputs", "  --ref-freq: 3000 of 3000 variants matched",
        "Warnings", "  No covariate is named as a principal component of a public panel",
        "Forecast", "  R^2 0.24", "Needs", "  17 tasks",
        "warning: few people", "error: no disk",
    ]  # fmt: skip


def test_a_terminal_gets_whole_words_and_colour_for_warnings_alone(shown):
    text = shown(is_terminal=True)
    yellow = "\x1b[33m"
    lines = text.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    plain = [line.removeprefix(yellow) for line in lines]
    assert max(map(len, plain)) <= 40
    assert " ".join(" ".join(plain).split()) == " ".join(shown(is_terminal=False).split())
    assert [line for line in lines if line.startswith(yellow)] == [
        f"{yellow}  No covariate is named as a principal",
        f"{yellow}    component of a public panel",
        f"{yellow}warning: few people",
    ]


def test_quiet_leaves_warnings_and_errors(shown):
    lines = shown(is_terminal=False, level=logging.WARNING).splitlines()
    assert lines == ["Warnings", f"  {PLAN[1][1]}", "warning: few people", "error: no disk"]


def test_what_is_held_is_shown_before_the_error_of_a_plan(shown):
    lines = shown(is_terminal=False, ends=False).splitlines()
    assert lines[0] == "Inputs" and lines[-1] == "error: no disk" and "  17 tasks" in lines


@pytest.mark.slow
def test_the_demo_release_takes_25_lines_of_80_columns():
    """Bars of progress are wiped out when they end. Long names of folders take more lines."""
    demo_release = runpy.run_path(str(ROOT / "website/screenshots.py"))["demo_release"]
    with TemporaryDirectory(dir="/tmp") as folder:
        rows = [re.sub(r"\x1b\[[\d;]*m", "", row) for row in demo_release(Path(folder))]
    assert len(rows) <= 25 and max(map(len, rows)) <= 80, "\n".join(rows)
    assert rows[0] == "Inputs" and {"Warnings", "Forecast", "Needs"} <= {*rows}
    beginnings = [row.partition(":")[0] for row in rows]
    assert {"expected", "budget", "report", "next"} <= {*beginnings}
    assert len(rows) == len(set(rows)), "a line is shown twice"


FULL = Path("/dev/full")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Provide the words of an accumulation, which prints its digest before it ends."""
    cohort = Cohort(write_cohort(tmp_path / "c"))
    cohort.ingest()
    return command_of("accumulate", [*cohort.accumulation, *map(str, BUDGET)])


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_full_disk_is_named_and_keeps_the_exit_code(words: list[str]) -> None:
    with FULL.open("w") as full:
        told = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        untold = subprocess.run(words, stdout=full, stderr=full, check=False)
    assert (told.returncode, untold.returncode) == (4, 4)
    assert told.stderr.splitlines()[-1].startswith("error: standard output: cannot be written: No")


def test_a_reader_that_has_left_is_no_failure(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert "error" not in done.stderr.lower()
