"""The output of the submission scripts goes to a file that only its owner can read."""

import os
import re
import subprocess
from pathlib import Path

import pytest

CLUSTER = Path(__file__).resolve().parents[2] / "cluster"
SCRIPTS = {
    "slurm": ("SLURM_JOB_ID", r"#SBATCH --output=(\S+)"),
    "pbs": ("PBS_JOBID", r"#PBS -o (\S+)"),
    "lsf": ("LSB_JOBID", r"#BSUB -o (\S+)"),
    "sge": ("JOB_ID", r"#\$ -o (\S+)"),
}


@pytest.mark.parametrize("queue", SCRIPTS)
def test_a_job_prints_to_a_private_file_instead_of_the_queues_file(queue, tmp_path) -> None:
    sign, directive = SCRIPTS[queue]
    script = CLUSTER / queue / "submit.sh"
    assert re.findall(directive, script.read_text()) == ["/dev/null"]
    words = ".venv/bin/primo-scale"
    command = tmp_path / words
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\necho digest; echo count >&2; umask > umask; exit 3\n")
    command.chmod(0o700)
    of_job = {sign: "17", "COMMAND": words, "PBS_O_WORKDIR": str(tmp_path)}
    environment = os.environ | of_job
    done = subprocess.run(
        ["bash", script, words], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False, umask=0o022,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    output = tmp_path / "primo-scale-command.17.out"
    assert output.read_text() == "digest\ncount\n"
    assert output.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "umask").read_text().strip() == "0077"


@pytest.mark.parametrize("script", sorted(CLUSTER.rglob("*.sh")), ids=lambda path: path.parent.name)
def test_every_script_keeps_its_files_private(script) -> None:
    assert "umask 077\n" in script.read_text()
