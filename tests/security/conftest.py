"""The small cohort, and a cluster as an administrator starts one."""

from __future__ import annotations

import time
from collections.abc import Iterator

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
    """`dask scheduler` and `dask worker` under TLS, an open umask and a talkative log."""
    directory = tmp_path_factory.mktemp("cluster")
    tls = make_certificates(directory / "tls").directory
    shared = [
        "--tls-ca-file", tls / "ca.pem", "--tls-cert", tls / "cert.pem", "--tls-key",
        tls / "key.pem", "--protocol", "tls", "--host", "127.0.0.1", "--no-dashboard",
        "--scheduler-file", directory / "scheduler.json",
    ]  # fmt: skip
    processes = [start(directory, "scheduler", [*shared, "--port", 0])]
    try:
        for _ in range(300):
            if (directory / "scheduler.json").is_file():
                break
            time.sleep(0.1)
        worker = ["--nthreads", 1, "--no-nanny", "--local-directory", directory / "scratch"]
        processes.append(start(directory, "worker", [*shared, *worker]))
        log = (directory / "scheduler.log").read_text()
        address = next(word for word in log.split() if word.startswith("tls://"))
        yield RunningCluster(["--scheduler", address, "--tls", tls], directory)
    finally:
        for process in processes:
            process.terminate()
            process.wait(timeout=20)
