"""What a profile asks of this machine is checked before any work."""

import resource
import socket
import sys
from pathlib import Path

import pytest

from primo_scale.cluster.connect import dask_client
from primo_scale.cluster.early_checks import check_cluster
from primo_scale.cluster.profile import JobQueueProfile, Jobs, JobWorkers, Listener, LocalProfile
from primo_scale.errors import InputError, ResourceError

SLURM = JobQueueProfile("slurm")


@pytest.mark.parametrize("character", " '\"$&%,:;\\\n")
def test_a_path_that_a_job_script_cannot_contain_is_refused(character: str, tmp_path) -> None:
    with pytest.raises(InputError, match="--cluster: the path of the work directory") as refused:
        check_cluster(SLURM, tmp_path / f"a{character}b")
    assert "letters, digits and _./+@=-" in str(refused.value)


def test_other_paths_are_accepted(tmp_path: Path) -> None:
    check_cluster(SLURM, tmp_path / "Müller-1" / "a_b.work")


def test_the_interpreter_is_checked_unless_the_profile_names_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a b/python")
    with pytest.raises(InputError, match="the path of the interpreter"):
        check_cluster(SLURM, tmp_path)
    check_cluster(JobQueueProfile("slurm", Jobs(python="/usr/bin/python3")), tmp_path)


@pytest.mark.parametrize(
    ("key", "listener", "value"),
    [
        ("scheduler.interface", Listener(interface="ib7"), "ib7"),
        ("scheduler.host", Listener(host="198.51.100.1"), "198.51.100.1"),  # of another machine
        ("scheduler.host", Listener(host="no-such-host.invalid"), "no-such-host.invalid"),
        ("workers.interface", Listener(), "ib8"),
    ],
)
def test_a_listener_that_this_machine_does_not_have_is_refused(
    key, listener, value, tmp_path
) -> None:
    profile = JobQueueProfile("slurm", workers=JobWorkers(interface="ib8"), scheduler=listener)
    with pytest.raises(InputError, match=f"--cluster: the scheduler cannot listen at {key}: ") as e:
        check_cluster(profile, tmp_path)
    assert e.value.value == value


def test_a_busy_port_is_refused_before_work_and_at_the_start(tmp_path: Path) -> None:
    workers = JobWorkers(interface="lo")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        profile = JobQueueProfile(
            "slurm", workers=workers, scheduler=Listener(host="127.0.0.1", port=port)
        )
        with pytest.raises(InputError, match=rf"at scheduler\.port: Address .*got {port}"):
            check_cluster(profile, tmp_path)
        tmp_path.chmod(0o700)
        words = "does not start .*Address already in use.*Correct .scheduler"
        with pytest.raises(InputError, match=words), dask_client(profile, tmp_path):
            pass
    check_cluster(profile, tmp_path)


def test_a_limit_of_open_files_that_is_too_low_for_the_workers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    with pytest.raises(ResourceError, match=r"17 workers .*got 256; limit at least 268.*ulimit -n"):
        check_cluster(LocalProfile(17), tmp_path)
    check_cluster(LocalProfile(16), tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    check_cluster(LocalProfile(1000), tmp_path)


def test_logs_that_cannot_be_written_are_refused_before_work_and_at_the_start(tmp_path) -> None:
    file = tmp_path / "file"
    file.touch(0o600)
    profile = JobQueueProfile("slurm", Jobs(logs=str(file / "logs")))
    with pytest.raises(InputError, match=r"--cluster: jobs\.logs: .*file is not a directory"):
        check_cluster(profile, tmp_path)
    tmp_path.chmod(0o700)
    words = r"jobs\.logs: Not a directory .*Correct jobs\.logs"
    with pytest.raises(InputError, match=words), dask_client(profile, tmp_path):
        pass
    check_cluster(JobQueueProfile("slurm", Jobs(logs=str(tmp_path / "a" / "b"))), tmp_path)
