"""Runs on a real Grid Engine of one host end with the statistics of a run on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from queue_runs import LIMIT_SECONDS, ROOT, Cohort, GridEngine, Run, gated_command, wait_for

pytestmark = pytest.mark.cluster

SUBMIT = ROOT / "cluster" / "sge" / "submit.sh"
JOBS = """directives = ["-pe smp 2", "-r y"]
python = "{python}"
"""


def kill(grid_engine: GridEngine, jobs: list[str]) -> None:
    grid_engine.call("qdel", *jobs)


def reschedule(grid_engine: GridEngine, jobs: list[str]) -> None:
    grid_engine.call("qmod", "-rj", *jobs)


def test_a_run_survives_killed_and_rescheduled_jobs(
    grid_engine: GridEngine, cohort: Cohort, tmp_path: Path
) -> None:
    arguments = cohort.accumulate_options(tmp_path / "work")
    jobs = JOBS.format(python=sys.executable)
    command = gated_command(tmp_path, "accumulate", arguments, kind="sge", jobs=jobs)
    with Run(command) as run:
        run.wait_for_new_life(set(), "first task")
        for strike in (kill, reschedule):
            before = command.lives()
            strike(grid_engine, grid_engine.jobs())
            run.wait_for_new_life(before, f"task after {strike.__name__}")
        assert run.finish() == cohort.digest
    wait_for(lambda: not grid_engine.jobs(), "end of all jobs")


def test_an_unknown_queue_is_a_one_line_error(
    grid_engine: GridEngine, cohort: Cohort, tmp_path: Path
) -> None:
    options = cohort.accumulate_options(tmp_path / "work")
    jobs = JOBS.format(python=sys.executable) + 'queue = "nowhere"'
    command = gated_command(tmp_path, "accumulate", options, kind="sge", jobs=jobs)
    ended = subprocess.run(
        command.words, cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=LIMIT_SECONDS,
    )  # fmt: skip
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 3, ended.stderr
    assert last.startswith("error: --cluster: the queue refused the first job (got ")
    assert grid_engine.jobs() == []
