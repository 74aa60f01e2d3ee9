"""The local cluster is private to its owner, limits memory, and replaces lost workers."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from support.tiers import thinned

from primo_scale.cluster import job_queues
from primo_scale.cluster.job_queues import LocalProfile, worker_memory
from primo_scale.cluster.workers import WORKER_PROCESS, dask_client
from primo_scale.errors import ResourceError

pytestmark = pytest.mark.slow

PAGES = ("/json/counts.json", "/metrics", "/status", "/info/main/workers.html")


def test_no_page_of_the_local_cluster_is_served_without_a_certificate(tmp_path) -> None:
    """The number of tasks reveals the number of people, which is private under add-remove."""
    with dask_client(LocalProfile(workers=1), tmp_path) as client:
        assert client.submit(int, 1).result() == 1
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        ports = {
            connection.laddr.port
            for process in processes
            for connection in process.net_connections(kind="tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert len(ports) >= 3  # scheduler, worker and nanny at least
        for port in ports:
            for page in PAGES:
                with pytest.raises((urllib.error.HTTPError, OSError)):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=5)


def test_a_local_worker_computes_on_one_thread_and_keeps_its_memory(tmp_path, monkeypatch) -> None:
    for name in WORKER_PROCESS:  # a cluster that another test started may have left its own
        monkeypatch.delenv(name, raising=False)

    def seen() -> dict[str, str | int | None]:
        import os

        from threadpoolctl import threadpool_info

        pools = [pool["num_threads"] for pool in threadpool_info()]
        return {**os.environ, "BLAS threads": max(pools, default=1)}

    with dask_client(LocalProfile(workers=1), tmp_path) as client:
        assert set(client.nthreads().values()) == {1}
        found = client.submit(seen, pure=False).result()
    assert {name: found.get(name) for name in WORKER_PROCESS} == WORKER_PROCESS
    assert found["BLAS threads"] == 1


@pytest.mark.parametrize(
    ("said", "may_have"), thinned([(None, 1 << 30), ("1.5GiB", 3 << 29)], every=2)
)
def test_the_memory_limit_of_a_worker_is_that_of_the_preflight(
    said, may_have, tmp_path, monkeypatch
) -> None:
    """The process runs in a control group of 2 GiB that Dask ignores, with two CPUs."""
    monkeypatch.setattr(job_queues, "memory_limit", lambda: 2 << 30)
    monkeypatch.setattr(job_queues, "usable_cpus", lambda: 2)
    profile = LocalProfile(workers=1, memory_limit=said)
    assert worker_memory(profile) == may_have
    with dask_client(profile, tmp_path) as client:
        (worker,) = client.scheduler_info()["workers"].values()
    assert worker["memory_limit"] == may_have


@contextmanager
def starting_workers_killed(most: int) -> Iterator[list[int]]:
    """Kill new worker processes at once, up to a limit, and yield the killed ones."""
    killed: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while len(killed) < most and not ended.wait(0.01):
            for process in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):
                    words = process.cmdline()
                    if process.pid not in killed and any("spawn_main" in word for word in words):
                        process.kill()
                        killed.append(process.pid)
                        break

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        ended.set()
        watcher.join()


def test_workers_that_are_killed_during_start_are_restarted(tmp_path) -> None:
    with (
        starting_workers_killed(1) as killed,
        dask_client(LocalProfile(workers=1), tmp_path) as client,
    ):
        assert client.submit(int, 1).result() == 1
        assert len(killed) == 1


def test_workers_that_always_die_during_start_are_a_memory_error(tmp_path) -> None:
    with (
        starting_workers_killed(100) as killed,
        pytest.raises(ResourceError, match="died again and again while they were starting"),
        dask_client(LocalProfile(workers=1), tmp_path),
    ):
        pass
    assert len(killed) >= 3
