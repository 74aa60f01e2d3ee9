"""Certificates of a cluster: who may connect, and what is refused before it starts."""

import gc
import socket
import ssl
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from support.processes import free_ports

from primo_scale.cluster import workers
from primo_scale.cluster.job_queues import SchedulerProfile
from primo_scale.cluster.security import (
    make_certificates,
    security_of,
    security_towards,
    temporary_security,
)
from primo_scale.errors import InputError, UsageError

CONNECT_TIMEOUT = 2


def certificates_in(parent: Path) -> Path:
    make_certificates(parent / "tls")
    return parent / "tls"


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    return certificates_in(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Path:
    return certificates_in(tmp_path_factory.mktemp("theirs"))


@pytest.fixture(scope="module")
def address(ours):
    with LocalCluster(
        n_workers=1, processes=False, security=security_of(ours), dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def clients_closed():
    """Close clients that did not connect before others change Dask's settings."""
    yield
    gc.collect()


def port_of(address: str) -> int:
    assert address.startswith("tls://127.0.0.1:")
    return int(address.rpartition(":")[2])


def bytes_from(address: str, context: ssl.SSLContext) -> bytes:
    """Return the first bytes of the scheduler's handshake, which it sends to accepted peers."""
    with (
        socket.create_connection(("127.0.0.1", port_of(address)), timeout=10) as plain,
        context.wrap_socket(plain) as encrypted,
    ):
        assert encrypted.version() == "TLSv1.3"
        return encrypted.recv(64)


def no_questions_asked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_a_peer_with_the_certificates_is_a_member(address, ours) -> None:
    with Client(address, security=security_of(ours), timeout=10) as client:
        assert client.submit(int, 1).result() == 1
    context = no_questions_asked()
    context.load_cert_chain(ours / "cert.pem", ours / "key.pem")
    assert bytes_from(address, context)  # the peers below get none


@pytest.mark.parametrize(
    ("certificates_of", "newest", "message"),
    [
        (None, ssl.TLSVersion.TLSv1_3, "certificate required"),
        ("theirs", ssl.TLSVersion.TLSv1_3, r"unknown ca|decrypt error"),
        ("ours", ssl.TLSVersion.TLSv1_2, "protocol version"),
    ],
    ids=["no certificate", "another authority", "old TLS"],
)
def test_another_peer_gets_not_a_byte(address, certificates_of, newest, message, request) -> None:
    """The peer accepts any server, so that only the server can refuse."""
    context = no_questions_asked()
    context.maximum_version = newest
    if certificates_of is not None:
        directory = request.getfixturevalue(certificates_of)
        context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    with pytest.raises(ssl.SSLError, match=message):
        bytes_from(address, context)


def test_a_client_refuses_a_scheduler_of_another_authority(address, theirs) -> None:
    with pytest.raises(OSError, match=r"Timed out|certificate"):
        Client(address, security=security_of(theirs), timeout=CONNECT_TIMEOUT)


def test_plain_text_is_refused_at_both_ends(address, ours) -> None:
    with pytest.raises(OSError):
        Client(address.replace("tls", "tcp"), timeout=CONNECT_TIMEOUT)
    with pytest.raises((RuntimeError, OSError), match="encrypt"):
        plain = "tcp://127.0.0.1:1"
        Client(plain, security=security_of(ours), timeout=CONNECT_TIMEOUT)


def test_files_are_for_the_owner_and_open_ones_are_refused(tmp_path) -> None:
    directory = tmp_path / "tls"
    make_certificates(directory)
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert names == dict.fromkeys(("ca.pem", "cert.pem", "key.pem"), 0o600)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    with pytest.raises(InputError, match="exists already"):
        make_certificates(directory)
    (directory / "key.pem").chmod(0o640)
    with pytest.raises(InputError, match="open to others"):
        security_of(directory)
    (directory / "key.pem").unlink()
    with pytest.raises(InputError, match=r"key\.pem: a certificate file is missing"):
        security_of(directory)


def refusal(address: str, tls: Path | bool, monkeypatch) -> str:
    """Return the one line with which a command refuses a scheduler."""
    monkeypatch.setattr(workers, "_CONNECT_TIMEOUT_SECONDS", CONNECT_TIMEOUT)
    profile = SchedulerProfile(address, str(tls) if isinstance(tls, Path) else tls)
    with pytest.raises(InputError, match=r"^--scheduler: ") as raised:
        workers.check_reachable(profile, Path("unused"))
    assert raised.value.value == address
    return raised.value.what


def test_a_scheduler_that_cannot_be_used_is_refused_with_its_cause(
    address, ours, theirs, monkeypatch
) -> None:
    nobody = f"tls://127.0.0.1:{free_ports(1)[0]}"
    assert "no connection" in refusal(nobody, ours, monkeypatch)
    assert "no connection" in refusal("tls://no-such-host.invalid:8786", ours, monkeypatch)
    assert "certificate" in refusal(address, theirs, monkeypatch)
    assert "no connection" in refusal(address.replace("tls", "tcp"), False, monkeypatch)
    with LocalCluster(n_workers=0, security=security_of(ours), dashboard_address=":0") as cluster:
        words = refusal(cluster.scheduler_address, ours, monkeypatch)
        assert words == "the scheduler has no workers"
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"tls://127.0.0.1:{server.getsockname()[1]}"
        assert "no connection" in refusal(silent, ours, monkeypatch)


ELSEWHERE = ("tcp://10.0.0.7:8786", "node7:8786", "tcp://[2001:db8::1]:8786", "tcp://[::1",
             "localhost.example.org:8786", "127.0.0.1@node7:8786", "")  # fmt: skip
HERE = ("tcp://127.0.0.1:8786", "tcp://LOCALHOST:8786", "tcp://[::1]:8786", "127.8.0.1:8786")


@pytest.mark.parametrize("address", [*ELSEWHERE, *HERE])
def test_plain_text_to_another_machine_needs_an_option(address) -> None:
    with nullcontext() if address in HERE else pytest.raises(UsageError, match="no_tls"):
        assert security_towards(address, True) is None
    assert security_towards(address, False) is None


def test_certificates_and_addresses_must_agree(ours) -> None:
    with pytest.raises(UsageError, match="without encryption"):
        security_towards("tcp://10.0.0.7:8786", ours)
    with pytest.raises(UsageError, match="Give `tls`"):
        security_towards("tls://10.0.0.7:8786", True)
    found = security_towards("tls://10.0.0.7:8786", ours)
    assert found is not None
    assert found.require_encryption
    assert found.tls_min_version == ssl.TLSVersion.TLSv1_3


def test_temporary_certificates_are_in_memory_and_of_tls_1_3() -> None:
    security = temporary_security()
    assert security.require_encryption
    assert security.tls_min_version == ssl.TLSVersion.TLSv1_3
    assert "PRIVATE KEY" in security.tls_worker_key
    assert "PRIVATE KEY" not in repr(security)
