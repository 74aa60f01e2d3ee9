"""PBS, LSF and SGE through emulated commands, and the scripts that submit a job."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.queue_runs import wait_for

from primo_scale.cluster import workers
from primo_scale.cluster.job_queues import JobQueueProfile
from primo_scale.cluster.workers import check_reachable, dask_client
from primo_scale.errors import InputError

COMMANDS = ("qsub", "qselect", "qstat", "qdel", "bsub", "bjobs", "bkill")


def profile(kind, scratch):
    options = {
        "cores": 2, "memory": "1GiB", "local_directory": str(scratch), "interface": "lo",
        "scheduler_options": {"host": "127.0.0.1"},
    }  # fmt: skip
    return JobQueueProfile(kind, jobs=1, poll=1, options=options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pbs", "lsf"])  # test_grid_engine.py has a real one
def test_a_lost_job_is_replaced_and_no_job_is_left(kind, tmp_path, monkeypatch):
    queue, commands, scratch = (tmp_path / name for name in ("queue", "bin", "scratch"))
    for directory in (queue, commands, scratch):
        directory.mkdir(mode=0o700)
    for command in COMMANDS:
        script = (Path(__file__).parent / "stand_in_queue.py").read_text()
        (commands / command).write_text(script.replace("/usr/bin/env python3", sys.executable))
        (commands / command).chmod(0o700)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN_QUEUE", str(queue))
    monkeypatch.setenv("STAND_IN_KIND", kind)

    def jobs():
        return [path.name for path in queue.iterdir()]

    with dask_client(profile(kind, tmp_path), scratch) as client:
        assert client.submit(os.getpgid, 0).result(120)
        (first,) = jobs()
        os.killpg(int(first), signal.SIGKILL)
        assert client.submit(os.getpgid, 0, key="again").result(120)
        assert len(jobs()) == 2

    def have_ended():
        listing = subprocess.check_output(["ps", "-e", "-o", "pgid=,stat="], text=True)
        groups = dict(line.split() for line in listing.splitlines() if " Z" not in line)
        return groups.keys().isdisjoint(jobs())

    wait_for(have_ended, "end of all jobs")


@pytest.mark.parametrize("kind", ["pbs", "lsf", "sge"])
def test_a_missing_queue_is_a_one_line_error(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    tmp_path.chmod(0o700)
    with pytest.raises(InputError, match="the submit command of"):
        check_reachable(profile(kind, tmp_path), tmp_path)
    cluster = dask_client(profile(kind, tmp_path), tmp_path)
    with pytest.raises(InputError, match="--cluster: "), cluster:
        pass


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """Provide a private directory, and a submit command that is never called."""
    (tmp_path / "sbatch").write_text("#!/bin/false")
    (tmp_path / "sbatch").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "scratch"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interface": "ib7"}, "'ib7' is not a valid network interface"),
        ({"core": 4}, "unexpected keyword argument 'core'"),
        ({"python": "/a b/python"}, "characters that a job script cannot contain"),
    ],
)
def test_what_a_profile_asks_of_this_machine_is_checked_before_work(options, words, sbatch):
    with pytest.raises(InputError, match=f"^--cluster: .*{words}"):
        check_reachable(JobQueueProfile("slurm", options=options), sbatch)
    check_reachable(JobQueueProfile("slurm", options={"interface": "lo"}), sbatch)
    assert not [*sbatch.glob("tls-*")], "certificates are left"


def test_no_private_key_is_in_a_job_script_an_environment_or_a_command_line(sbatch, monkeypatch):
    sbatch.mkdir(mode=0o700)
    monkeypatch.setattr(workers.JobKeeper, "submit", lambda *_: asyncio.sleep(0))
    profile = JobQueueProfile("slurm", options={"interface": "lo"})
    with workers.job_queue_cluster(profile, sbatch) as cluster:
        (key,) = sbatch.glob("tls-*/*/key.pem")
        assert [path.stat().st_mode & 0o777 for path in (key, key.parent.parent)] == [0o600, 0o700]
        script, lines = cluster.job_script(), key.read_text().splitlines()
        assert str(key) in script
        for text in (script, str(os.environ), str(psutil.Process().cmdline())):
            assert "PRIVATE KEY" not in text
            assert lines[1] not in text


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
