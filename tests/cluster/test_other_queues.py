"""PBS, LSF and SGE through emulated commands: a lost job is replaced.

Only real queues can show that they accept the scripts; `test_grid_engine` has one.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.queue_runs import wait_for

from primo_scale.cluster.connect import dask_client
from primo_scale.cluster.profile import JobQueueProfile, Jobs, JobWorkers, Listener
from primo_scale.errors import InputError

COMMANDS = ("qsub", "qselect", "qstat", "qdel", "bsub", "bjobs", "bkill")
SMALL = Jobs(maximum=1, cores=2, memory="1GiB", poll="00:00:01")
HERE = Listener(host="127.0.0.1")


def profile(kind: str, scratch: Path) -> JobQueueProfile:
    workers = JobWorkers(scratch=str(scratch), interface="lo")
    return JobQueueProfile(kind, SMALL, workers, HERE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pbs", "lsf"])  # test_grid_engine.py has a real one
def test_a_lost_job_is_replaced_and_no_job_is_left(kind: str, tmp_path: Path, monkeypatch) -> None:
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

    def jobs() -> list[str]:
        return [path.name for path in queue.iterdir()]

    with dask_client(profile(kind, tmp_path), scratch) as client:
        assert client.submit(os.getpgid, 0).result(120)
        (first,) = jobs()
        os.killpg(int(first), signal.SIGKILL)
        assert client.submit(os.getpgid, 0, key="again").result(120)
        assert len(jobs()) == 2

    def have_ended() -> bool:
        listing = subprocess.check_output(["ps", "-e", "-o", "pgid=,stat="], text=True)
        groups = dict(line.split() for line in listing.splitlines() if " Z" not in line)
        return groups.keys().isdisjoint(jobs())

    wait_for(have_ended, "end of all jobs")


@pytest.mark.parametrize("kind", ["pbs", "lsf", "sge"])
def test_a_missing_queue_is_a_one_line_error(kind: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cluster = dask_client(profile(kind, tmp_path), tmp_path)
    tmp_path.chmod(0o700)
    with pytest.raises(InputError, match="--cluster: "), cluster:
        pass
