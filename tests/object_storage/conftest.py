"""S3 server on loopback, with new buckets for each test."""

import http.client
import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.bucket_runs import run
from support.command_io import simulated
from support.faulty_proxy import SECRET, FaultyProxy
from support.tiers import missing

from primo_scale.storage.locations import ObjectUrl

try:
    from primo_scale.storage import bucket_store
except ModuleNotFoundError:  # without obstore, which the quick tests do not need
    collect_ignore_glob = ["test_*.py"]

_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "object_storage" in item.path.parts:
            item.add_marker(pytest.mark.s3)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    for package in ("moto", "obstore"):
        if importlib.util.find_spec(package) is None:
            missing(f"{package} (pip install '.[dev]')")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def environment(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": s3_server, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": SECRET,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    bucket_store.open_bucket.cache_clear()
    yield monkeypatch
    bucket_store.open_bucket.cache_clear()


@pytest.fixture
def prefix(s3_server: str, environment: pytest.MonkeyPatch) -> ObjectUrl:
    bucket = f"bucket-{next(_numbers)}"
    connection = http.client.HTTPConnection(urlsplit(s3_server).netloc, timeout=30)
    connection.request("PUT", f"/{bucket}")
    assert connection.getresponse().status == 200
    connection.close()
    return ObjectUrl("s3", bucket, "cohort/one")


Proxy = Callable[..., FaultyProxy]


@pytest.fixture
def proxy(s3_server: str, environment: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Provide a function that puts a proxy with the faults of `choose` before the server."""
    proxies = []

    def start(choose: Callable[[str, str, int], str | None]) -> FaultyProxy:
        proxies.append(FaultyProxy(s3_server, choose))
        environment.setenv("AWS_ENDPOINT_URL", proxies[-1].url)
        bucket_store.open_bucket.cache_clear()
        return proxies[-1]

    yield start
    for each in proxies:
        each.close()


@pytest.fixture(scope="session")
def cohort(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cohort")
    prefix = simulated(folder / "c", 400, 1, variants=90, phenotypes=2)
    run("ingest", "--bfile", prefix, "--out", f"{prefix}.zarr", "--chunk-variants", 32,
        "--chunk-samples", 128)  # fmt: skip
    return prefix
