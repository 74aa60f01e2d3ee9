"""Runs on a real Grid Engine of one host end with the statistics of a run on this machine."""

import sys
from dataclasses import replace

import pytest
from support.queue_runs import ROOT, gated_command, wait_for

pytestmark = pytest.mark.cluster

SUBMIT = ROOT / "cluster" / "sge" / "submit.sh"
OPTIONS = """job_extra_directives = ["-pe smp 2", "-r y"]
python = "{python}"
"""


def test_a_rescheduled_job_that_submits_jobs_completes_a_release(grid_engine, cohort, tmp_path):
    arguments = cohort.release_options(tmp_path)
    queue = OPTIONS.format(python=sys.executable)
    command = gated_command(tmp_path, "gwas_release", arguments, kind="sge", options=queue)
    job = grid_engine.call(
        "qsub", "-terse", "-V", "-v", f"PYTHONPATH={ROOT}", "-wd", tmp_path, SUBMIT, *command.words
    ).strip()  # fmt: skip
    command = replace(command, log=tmp_path / f"primo-scale-command.{job}.out")
    wait_for(command.lives, "first task", command.said)
    before = command.lives()
    grid_engine.call("qmod", "-rj", job)
    wait_for(lambda: command.lives() - before, "task of the second start", command.said)
    command.open_gate()
    wait_for(lambda: not grid_engine.jobs("primo-scale-command"), "end of the job", command.said)
    cohort.check_release(tmp_path)
    wait_for(lambda: not grid_engine.jobs(), "end of all jobs")


def test_an_unknown_queue_is_a_one_line_error(grid_engine, cohort, tmp_path):
    arguments = cohort.accumulate_options(tmp_path / "work")
    queue = OPTIONS.format(python=sys.executable) + 'queue = "nowhere"'
    command = gated_command(tmp_path, "accumulate", arguments, kind="sge", options=queue)
    line = command.refusal()
    assert line.startswith("error: --cluster: the queue refused the first job (got ")
    assert grid_engine.jobs() == []
