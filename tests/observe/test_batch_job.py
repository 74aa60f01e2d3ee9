"""A batch job prints public lines alone; its run.log has everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_cohort import outcomes, write_cohort

from primo_scale.cli import accumulate, ingest
from primo_scale.cli.batch_job import SIGNS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
import click
from primo_scale.cli.command_line import ContractCommand, log_format_option
from primo_scale.errors import InputError, InterruptedRun
from primo_scale.run.run_log import LOGGER, stage
from primo_scale.run.execution import Execution
from primo_scale.run.run_log import run_logged

@click.command(cls=ContractCommand)
@click.argument("error")
@log_format_option
def main(error):
    with run_logged(Path(), "accumulate", Execution()):
        with stage("outcomes"):
            LOGGER.info("24 people")
        if error == "input":
            raise InputError("11 people have text", where="pheno.tsv", value="Smith")
        if error == "interrupted":
            raise InterruptedRun("interrupted")
main()
"""


def ended(directory: Path, sign: str, error: str, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, error, *options], cwd=directory, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), sign: "7"}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
def test_an_error_of_a_batch_job_is_told_in_the_log_alone(sign, tmp_path) -> None:
    done = ended(tmp_path, sign, "input")
    assert done.returncode == 3
    begins, ended_after, last = done.stderr.splitlines()
    assert begins == "stage outcomes: begins"
    assert ended_after.startswith("stage outcomes: ended after ")
    assert last == "error: exit code 3; run.log says why"
    log = (tmp_path / "run.log").read_text()
    assert "24 people" in log and "11 people have text (got Smith)" in log


def test_an_interruption_of_a_batch_job_is_told_with_the_command(tmp_path) -> None:
    done = ended(tmp_path, "SLURM_JOB_ID", "interrupted")
    assert done.returncode == 5
    assert "\nerror: interrupted. To continue: " in done.stderr


def test_json_lines_of_a_batch_job_have_no_private_field(tmp_path) -> None:
    lines = ended(tmp_path, "PBS_JOBID", "input", "--log-format", "json").stderr.splitlines()
    (error,) = [line for line in map(json.loads, lines) if line["event"] == "error"]
    assert error["fields"] == {"exit_code": 3}
    assert "Smith" not in "".join(lines) and "people" not in "".join(lines)


def test_a_batch_job_without_a_log_prints_no_count_and_its_error_whole(
    tmp_path, monkeypatch
) -> None:
    """An ingest has no run.log: its counts are lost, and its error is told where it can be."""
    monkeypatch.setenv("PRIMO_SCALE_BATCH_JOB", "1")
    cohort = write_cohort(tmp_path / "in")
    words = ["--bfile", str(cohort / "cohort"), "--out", str(tmp_path / "g.zarr")]
    done = CliRunner().invoke(ingest.main, words)
    assert done.exit_code == 0, done.stderr
    assert "people" not in done.stderr and "stage ingest: begins" in done.stderr
    words[1] = str(tmp_path / "none")
    failed = CliRunner().invoke(ingest.main, words)
    assert failed.exit_code == 3
    assert "no such file" in failed.stderr.splitlines()[-1]


@pytest.mark.parametrize("batch", [False, True])
def test_the_digest_is_printed_but_not_by_a_batch_job(batch, tmp_path, monkeypatch) -> None:
    if batch:
        monkeypatch.setenv("LSB_JOBID", "7")
    cohort = write_cohort(tmp_path / "c")
    store, work = tmp_path / "g.zarr", tmp_path / "work"
    words = ["--bfile", cohort / "cohort", "--out", store]
    assert CliRunner().invoke(ingest.main, [str(word) for word in words]).exit_code == 0
    words = ["--genotypes", store, *outcomes(cohort), "--work-dir", work]
    done = CliRunner().invoke(accumulate.main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    (line,) = [s for s in (work / "run.log").read_text().splitlines() if "statistics sha256" in s]
    assert (line.split("sha256: ")[1] in done.output) == (not batch)
    assert ("people" in done.stderr) == (not batch)


LIBRARY = """
import logging, sys
from pathlib import Path
from primo_scale.run.execution import Execution
from primo_scale.run.run_log import LOGGER
from primo_scale.run.run_log import run_logged

if sys.argv[1] == "configured":
    logging.basicConfig(format="%(message)s")
with run_logged(Path(), "accumulate", Execution()):
    LOGGER.warning("intermediates of 24 people")
"""


@pytest.mark.parametrize(("logging", "said"), [("configured", "24 people"), ("left alone", "")])
def test_a_program_prints_only_what_its_own_handlers_ask_for(logging, said, tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY, logging], cwd=tmp_path, check=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
    )  # fmt: skip
    assert (said in done.stderr) if said else (done.stderr == "")
    assert "24 people" in (tmp_path / "run.log").read_text()
