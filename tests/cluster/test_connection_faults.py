"""A scheduler that cannot be used is refused with its own cause and remedy."""

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster
from support.processes import free_ports

from primo_scale.cluster import connect
from primo_scale.cluster.certificates import make_certificates, security_of
from primo_scale.cluster.connect import dask_client
from primo_scale.cluster.profile import SchedulerProfile
from primo_scale.errors import InputError

OPTION = "--cluster s.toml"


@pytest.fixture(scope="module")
def tls(tmp_path_factory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls") / "ours").directory


@pytest.fixture(scope="module")
def other_tls(tmp_path_factory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls") / "theirs").directory


@pytest.fixture(scope="module")
def idle(tls: Path) -> Iterator[str]:
    """Run a scheduler with TLS and without workers, and provide its address."""
    with LocalCluster(n_workers=0, security=security_of(tls), dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(connect, "_CONNECT_TIMEOUT_SECONDS", 2)


def refused(address: str, tls: Path | bool) -> InputError:
    profile = SchedulerProfile(address, str(tls) if isinstance(tls, Path) else tls)
    with pytest.raises(InputError) as raised, dask_client(profile, Path("unused"), where=OPTION):
        pass
    assert raised.value.__cause__ is not None
    assert raised.value.where == OPTION
    assert raised.value.value == address
    return raised.value


def test_a_scheduler_without_workers(idle: str, tls: Path) -> None:
    error = refused(idle, tls)
    assert str(error).startswith(
        f"{OPTION}: the scheduler answers, and has no workers (got {idle}; limit 2 s). Start `dask "
    )


def test_a_wrong_port_and_a_wrong_name(tls: Path) -> None:
    (port,) = free_ports(1)
    assert "nothing listens" in refused(f"tls://127.0.0.1:{port}", tls).what
    assert "does not resolve" in refused("tls://no-such-host.invalid:8786", tls).what


def test_certificates_of_another_authority(idle: str, tls: Path, other_tls: Path, tmp_path) -> None:
    assert "not of one authority" in refused(idle, other_tls).what
    half = tmp_path / "half"  # trusts the scheduler, which does not trust it
    shutil.copytree(other_tls, half)
    shutil.copy(tls / "ca.pem", half)
    with pytest.raises(InputError, match=r"not of one authority|refuses this certificate"):
        connect._connected(idle, security_of(half), OPTION, timeout=2)


def test_tls_at_one_end_only(idle: str, tls: Path) -> None:
    plain = idle.replace("tls://", "tcp://")
    remedy = refused(plain, False).remedy  # the scheduler closes, or answers with bytes of TLS
    assert remedy is not None
    assert "write tls:// and give --tls DIR" in remedy
    with LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0") as cluster:
        address = cluster.scheduler_address.replace("tcp://", "tls://")
        assert "does not use TLS" in refused(address, tls).what  # perhaps among other causes


@pytest.mark.parametrize(
    ("answer", "what"), [(None, "does not answer"), (b"", "closed the TLS connection")]
)
def test_a_listener_that_is_no_scheduler(answer: bytes | None, what: str, tls: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_connections() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        if answer is not None:
            threading.Thread(target=close_connections, daemon=True).start()
        assert what in refused(f"tls://127.0.0.1:{server.getsockname()[1]}", tls).what
