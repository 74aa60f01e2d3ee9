"""A batch job prints public lines alone; its run.log has everything."""

import json
import time
from itertools import count

import pytest
from support.observed_runs import logged
from support.small_cohort import Cohort, command, refused, succeeded, write_cohort

from primo_scale.cli.command_line import BATCH_JOB_SIGNS
from primo_scale.cli.commands import ingest
from primo_scale.errors import InputError, InterruptedRun

PRIVATE = InputError("11 people have text", where="pheno.tsv", value="Smith")


@pytest.mark.parametrize("sign", BATCH_JOB_SIGNS)
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (PRIVATE, 3, ["11 people have text (got Smith)"]),
        (ValueError("of Smith"), 1, ["Traceback", "ValueError: of Smith\n"]),
    ],
)
def test_an_error_of_a_batch_job_is_told_in_the_log_alone(
    sign, error, code, words, tmp_path, monkeypatch
):
    monkeypatch.setenv(sign, "7")
    done = logged(tmp_path, error=error)
    assert done.exit_code == code
    last = f"error: exit code {code}; {tmp_path / 'run.log'} says why"
    assert done.stderr.splitlines() == ["stage ingest: begins", last]
    log = (tmp_path / "run.log").read_text()
    assert [word for word in ["24 people", *words] if word not in log] == []


def test_an_interruption_of_a_batch_job_is_told_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    done = logged(tmp_path, error=InterruptedRun("interrupted"))
    assert done.exit_code == 5
    assert "\nerror: interrupted. To continue: " in done.stderr


def test_json_lines_of_a_batch_job_have_no_private_field(tmp_path, monkeypatch):
    monkeypatch.setenv("PBS_JOBID", "7")
    lines = logged(tmp_path, "--log-format", "json", error=PRIVATE).stderr.splitlines()
    (error,) = [line for line in map(json.loads, lines) if line["event"] == "error"]
    assert error["fields"] == {"exit_code": 3}
    assert "Smith" not in "".join(lines) and "people" not in "".join(lines)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_public_lines_do_not_depend_on_how_long_a_stage_takes(tmp_path, monkeypatch, log_format):
    """The sampler rejects some candidates: the duration of finalize depends on the noise."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(time, "time_ns", count(0, 17_000_000_000).__next__)  # 17 s between lines
    monkeypatch.setattr(time, "time", count(0, 17).__next__)
    monkeypatch.setattr(time, "monotonic", count(0, 17).__next__)
    slow = succeeded(logged(tmp_path, "--log-format", log_format)).stderr
    monkeypatch.undo()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    quick = succeeded(logged(tmp_path, "--log-format", log_format)).stderr
    assert "ingest" in slow and slow == quick


def test_a_batch_job_without_a_log_prints_no_count_and_its_error_whole(tmp_path, monkeypatch):
    """An ingest has no run.log: its counts are lost, and its error is told where it can be."""
    monkeypatch.setenv("PRIMO_SCALE_BATCH_JOB", "1")
    bfile = write_cohort(tmp_path / "in") / "cohort"
    done = succeeded(command(ingest, "--bfile", bfile, "--out", tmp_path / "g.zarr"))
    assert "people" not in done.stderr
    assert "stage ingest: begins" in done.stderr and "stage ingest: ends" in done.stderr
    failed = command(ingest, "--bfile", tmp_path / "none", "--out", tmp_path / "g.zarr")
    refused(failed, 3, "no such file")


@pytest.mark.parametrize("batch", [False, True])
def test_the_digest_is_printed_but_not_by_a_batch_job(batch, tmp_path, monkeypatch):
    if batch:
        monkeypatch.setenv("LSB_JOBID", "7")
    cohort = Cohort(write_cohort(tmp_path / "c"))
    cohort.ingest()
    done = succeeded(cohort.accumulate())
    log = (cohort.work / "run.log").read_text()
    (line,) = [line for line in log.splitlines() if "statistics sha256" in line]
    assert (line.split("sha256: ")[1] in done.output) == (not batch)
    assert ("people" in done.stderr) == (not batch)
