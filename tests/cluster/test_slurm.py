"""Runs on a real SLURM of one node end with the statistics of a run on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_runs import Cohort, Run, Slurm, wait_for

pytestmark = pytest.mark.cluster


def cancel(slurm: Slurm, run: Run, jobs: list[str]) -> None:
    slurm.call("scancel", *jobs)


def requeue(slurm: Slurm, run: Run, jobs: list[str]) -> None:
    slurm.call("scontrol", "requeue", ",".join(jobs))
    for job in jobs:
        wait_for(lambda job=job: slurm.started_again(job), "second start")


def end_walltime(slurm: Slurm, run: Run, jobs: list[str]) -> None:
    for job in jobs:
        slurm.call("scontrol", "update", f"JobId={job}", "EndTime=now")
    wait_for(lambda: {slurm.state(job) for job in jobs} == {"TIMEOUT"}, "walltime kill")


def cancel_while_the_queue_takes_no_jobs(slurm: Slurm, run: Run, jobs: list[str]) -> None:
    slurm.set_partition("INACTIVE")
    slurm.call("scancel", *jobs)
    run.wait_for(lambda: "the queue does not take a job" in run.said, "refused submission")
    slurm.set_partition("UP")


FAULTS: tuple[Callable[[Slurm, Run, list[str]], None], ...] = (
    cancel,
    requeue,
    end_walltime,
    cancel_while_the_queue_takes_no_jobs,
)


def test_a_run_survives_what_a_queue_does_to_its_jobs(
    slurm: Slurm, cohort: Cohort, tmp_path: Path
) -> None:
    with Run(tmp_path, cohort) as run:
        run.wait_for_new_life(set(), "first task")
        for strike in FAULTS:
            before = run.lives()
            strike(slurm, run, slurm.jobs("RUNNING"))
            run.wait_for_new_life(before, f"task after {strike.__name__}")
        assert run.finish() == cohort.digest
    assert slurm.jobs() == [], "jobs left behind"
