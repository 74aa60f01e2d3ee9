"""Certificates of a cluster: one's own are checked, throw-away ones are private and go."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, Security

from primo_scale.cluster.profile import Certificates
from primo_scale.cluster.tls import checked, security_from, throw_away_certificates
from primo_scale.errors import InputError


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    """Files that exist, which is all that is looked at."""
    paths = [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]
    for path in paths:
        path.touch(0o600)
    return Certificates(*paths)


def test_a_key_that_others_may_read_is_refused(certificates: Certificates) -> None:
    assert checked(certificates) is certificates
    certificates.key.chmod(0o640)
    with pytest.raises(InputError, match="open to others"):
        checked(certificates)


def test_a_missing_certificate_is_named(certificates: Certificates) -> None:
    certificates.ca.unlink()
    with pytest.raises(InputError, match=r"ca\.pem: is not there"):
        checked(certificates)


def test_throw_away_certificates_are_private_and_gone_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "tls-of-a-killed-run").mkdir()
    with throw_away_certificates(True, tmp_path) as made:
        assert made is not None
        (directory,) = tmp_path.iterdir()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
        assert checked(made) is made
    assert list(tmp_path.iterdir()) == []


def test_no_certificates_where_tls_is_off(tmp_path: Path) -> None:
    with throw_away_certificates(False, tmp_path) as made:
        assert made is None
    assert list(tmp_path.iterdir()) == []


def test_only_who_has_the_key_may_join(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("ours", "others")]
    for place in places:
        place.mkdir()
    with (
        throw_away_certificates(True, places[0]) as ours,
        throw_away_certificates(True, places[1]) as others,
    ):
        assert ours is not None and others is not None
        with LocalCluster(
            n_workers=0, processes=False, security=security_from(ours), dashboard_address=None
        ) as cluster:
            address = cluster.scheduler_address
            assert address.startswith("tls://")
            with Client(address, security=security_from(ours), timeout=10) as client:
                assert client.scheduler_info()["workers"] == {}
            for stranger in (security_from(others), Security.temporary()):
                with pytest.raises(OSError):
                    Client(address, security=stranger, timeout=1)
            with pytest.raises(OSError):
                Client(address.replace("tls://", "tcp://"), timeout=1)
