"""Runs on a real SLURM of one node end with the statistics of a run on this machine."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.queue_runs import ROOT, Run, Slurm, gated_command, wait_for

pytestmark = pytest.mark.cluster

SUBMIT = ROOT / "cluster" / "slurm" / "submit.sh"
SHORT_LIVES = 'worker_extra_args = ["--lifetime", "3s", "--lifetime-stagger", "1s"]'
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


def cancel(slurm, run, jobs):
    slurm.call("scancel", *jobs)


def requeue(slurm, run, jobs):
    slurm.call("scontrol", "requeue", ",".join(jobs))
    for job in jobs:
        slurm.start_again(job, run.command.said)


def end_walltime(slurm, run, jobs):
    for job in jobs:
        slurm.call("scontrol", "update", f"JobId={job}", "EndTime=now")
    wait_for(lambda: {slurm.state(job) for job in jobs} == {"TIMEOUT"}, "walltime kill")


def cancel_while_the_queue_takes_no_jobs(slurm, run, jobs):
    slurm.set_partition("INACTIVE")
    slurm.call("scancel", *jobs)
    run.wait_for(
        lambda: "the queue does not take a job" in run.command.said(), "refused submission"
    )
    slurm.set_partition("UP")


FAULTS: tuple[Callable[[Slurm, Run, list[str]], None], ...] = (
    cancel,
    requeue,
    end_walltime,
    cancel_while_the_queue_takes_no_jobs,
)


def test_a_run_survives_killed_and_requeued_jobs(slurm, cohort, tmp_path):
    command = gated_command(tmp_path, "accumulate", cohort.accumulate_options(tmp_path / "work"))
    with Run(command) as run:
        run.wait_for_new_life(set(), "first task")
        for strike in FAULTS:
            before = command.lives()
            strike(slurm, run, slurm.jobs("RUNNING"))
            run.wait_for_new_life(before, f"task after {strike.__name__}")
        assert run.finish() == cohort.digest
    assert slurm.jobs() == [], "jobs left behind"


def test_a_full_queue_and_short_worker_lifetimes_only_delay_a_run(slurm, cohort, tmp_path):
    slurm.call("sbatch", "--job-name=others", "--cpus-per-task=4", "--output=/dev/null",
               "--wrap=sleep 600")  # fmt: skip
    wait_for(lambda: slurm.jobs("RUNNING", "others"), "a job of others on the node")
    command = gated_command(
        tmp_path, "accumulate", cohort.accumulate_options(tmp_path / "work"), options=SHORT_LIVES
    )
    with Run(command) as run:
        run.wait_for(lambda: slurm.jobs("PENDING"), "job in the full queue")
        (waiting,) = slurm.jobs("PENDING")
        slurm.call("scancel", waiting)
        run.wait_for(lambda: set(slurm.jobs("PENDING")) - {waiting}, "job in place of another")
        assert command.lives() == set()
        slurm.call("scancel", "--name=others")
        run.wait_for(lambda: len(command.lives()) >= 2, "second life")
        assert run.finish() == cohort.digest


def test_a_requeued_job_that_submits_jobs_completes_a_release(slurm, cohort, tmp_path):
    command = gated_command(tmp_path, "gwas_release", cohort.release_options(tmp_path))
    (job,) = slurm.call(
        "sbatch", "--parsable", "--cpus-per-task=1", "--mem=1G", f"--chdir={tmp_path}",
        f"--export=ALL,PYTHONPATH={ROOT}", SUBMIT, *command.words,
    ).split()  # fmt: skip
    command = replace(command, log=tmp_path / f"primo-scale-command.{job}.out")
    wait_for(command.lives, "first task", command.said)
    before = command.lives()
    # What SLURM sends five minutes before the job's walltime.
    slurm.call("scancel", "--batch", "--signal=USR1", job)
    slurm.start_again(job, command.said)
    wait_for(lambda: command.lives() - before, "task of the second start", command.said)
    command.open_gate()
    wait_for(lambda: slurm.state(job) in ENDED, "end of the job", command.said)
    assert slurm.state(job) == "COMPLETED", command.said()
    assert command.log.stat().st_mode & 0o777 == 0o600
    assert "statistics sha256" not in command.said()
    cohort.check_release(tmp_path)
    assert slurm.jobs() == [], "jobs left behind"


def test_an_unknown_queue_is_a_one_line_error(slurm, cohort, tmp_path):
    options = cohort.accumulate_options(tmp_path / "work")
    command = gated_command(tmp_path, "accumulate", options, options='queue = "nowhere"')
    line = command.refusal()
    assert line.startswith("error: --cluster: the queue refused the first job (got sbatch: error:")
    assert slurm.jobs() == []
