"""The small cohort, and a cluster as an administrator starts one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.processes import started, wait_until
from support.security_runs import Cohort, RunningCluster

from primo_scale.cluster.security import make_certificates


@pytest.fixture(scope="session")
def cohort(tmp_path_factory) -> Cohort:
    made = Cohort(tmp_path_factory.mktemp("cohort"))
    made.write()
    return made


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    tls = directory / "tls"
    make_certificates(tls)
    shared = [
        "--tls-ca-file", tls / "ca.pem", "--tls-cert", tls / "cert.pem", "--tls-key",
        tls / "key.pem", "--protocol", "tls", "--host", "127.0.0.1", "--no-dashboard",
        "--scheduler-file", directory / "scheduler.json",
    ]  # fmt: skip
    log = directory / "scheduler.log"
    environment = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "debug"}
    dask = [sys.executable, "-m", "dask"]
    with ExitStack() as stack:

        def start(*words: object, log: Path) -> subprocess.Popen[str]:
            command = [*dask, *map(str, words), *map(str, shared)]
            return stack.enter_context(started(command, environment, log, umask=0))

        scheduler = start("scheduler", "--port", 0, log=log)
        assert wait_until((directory / "scheduler.json").is_file, of=scheduler), log.read_text()
        scratch = ("--local-directory", directory / "scratch")
        start("worker", "--nthreads", 1, "--no-nanny", *scratch, log=directory / "worker.log")
        address = next(word for word in log.read_text().split() if word.startswith("tls://"))
        yield RunningCluster(["--scheduler", address, "--tls", tls], directory)
