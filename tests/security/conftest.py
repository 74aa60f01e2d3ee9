"""The small cohort, and a cluster as an administrator starts one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from security_runs import Cohort, RunningCluster, start

from primo_scale.cluster.certificates import make_certificates


@pytest.fixture(scope="session")
def cohort(tmp_path_factory) -> Cohort:
    made = Cohort(tmp_path_factory.mktemp("cohort"))
    made.write()
    return made


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory) -> Iterator[RunningCluster]:
    """Run `dask scheduler` and `dask worker` under TLS, an open umask and a debug log."""
    directory = tmp_path_factory.mktemp("cluster")
    tls = make_certificates(directory / "tls").directory
    shared = [
        "--tls-ca-file", tls / "ca.pem", "--tls-cert", tls / "cert.pem", "--tls-key",
        tls / "key.pem", "--protocol", "tls", "--host", "127.0.0.1", "--no-dashboard",
        "--scheduler-file", directory / "scheduler.json",
    ]  # fmt: skip
    processes = [start(directory, "scheduler", [*shared, "--port", 0])]
    try:
        wait_for_file(directory / "scheduler.json", processes[0])
        worker = ["--nthreads", 1, "--no-nanny", "--local-directory", directory / "scratch"]
        processes.append(start(directory, "worker", [*shared, *worker]))
        log = (directory / "scheduler.log").read_text()
        address = next(word for word in log.split() if word.startswith("tls://"))
        yield RunningCluster(["--scheduler", address, "--tls", tls], directory)
    finally:
        end(processes)


def wait_for_file(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until `process` has written a file."""
    for _ in range(3000):
        if path.is_file():
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"no {path}: " + path.with_name("scheduler.log").read_text())


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes in reverse order, because a worker may wait for a lost scheduler."""
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
