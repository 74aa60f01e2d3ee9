"""TLS certificates of one cluster: only their holders can connect to it.

A Dask port unpickles and runs the data that it receives, so that every peer of a cluster can run
code as its owner. With these certificates both ends of a connection prove, before the first byte of
Dask's protocol is read, that they hold a certificate of the cluster's own authority.

The authority's private key is discarded after it has signed one certificate, which client,
scheduler and workers share; no further certificate can be issued. To exclude a holder, make new
certificates (`renew_certificates`) and restart the cluster.
"""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import ssl
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from primo_scale.errors import InputError, UsageError
from primo_scale.storage.files import directory_published_at_end, write_atomically

if TYPE_CHECKING:
    from distributed.security import Security

AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.pem", "cert.pem", "key.pem"
DEFAULT_DAYS = 30
_AUTHORITY, _MEMBER = "primo_scale cluster authority", "primo_scale cluster member"
_THROW_AWAY = "tls-"
_CLOCKS_APART = datetime.timedelta(minutes=10)
_RENEW = "primo-scale cluster certificates renew"


_Period = tuple[datetime.datetime, datetime.datetime]
# The first and the last time that a certificate can state (RFC 5280, section 4.1.2.5).
_ALWAYS = (
    datetime.datetime(1950, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC),
)


@dataclass(frozen=True)
class Certificates:
    """Certificates in a directory, checked to be complete, private and valid.

    The fingerprint is the SHA-256 digest of the authority's certificate, as hexadecimal text, and
    is equal on all machines of a cluster.
    """

    directory: Path
    expires: datetime.datetime
    fingerprint: str


def make_certificates(directory: Path, *, days: int = DEFAULT_DAYS) -> Certificates:
    """Make the authority and the certificate of a new cluster, unless the directory exists."""
    with directory_published_at_end(directory) as staging:
        _write(staging, _from_now(days))
    return read_certificates(directory)


def renew_certificates(directory: Path, *, days: int = DEFAULT_DAYS) -> Certificates:
    """Replace the authority and the certificate, even if the old ones are damaged or expired.

    A running cluster keeps the certificates that it has read and refuses the new ones, so it must
    be restarted.
    """
    _check_private(directory)
    if not (directory / AUTHORITY_FILE).is_file():
        raise InputError(
            "holds no certificates",
            where=directory,
            remedy="Run primo-scale cluster certificates new",
        )
    _write(directory, _from_now(days))
    return read_certificates(directory)


@contextmanager
def throw_away_certificates(parent: Path) -> Iterator[Path]:
    """Make certificates for one run, which are valid at any clock time, in a new directory.

    The directory is deleted at the end; `parent` is private, and the workers can read it. Dask's
    ``Security.temporary()`` is not suitable: its certificate is valid for 365 days from the second
    of its creation, so a clock that is set back, or that is late on a worker, breaks the run.
    """
    # Delete the certificates of a killed command; the lock of the work directory shows that it
    # no longer runs.
    for left in parent.glob(f"{_THROW_AWAY}*"):
        shutil.rmtree(left)
    directory = parent / f"{_THROW_AWAY}{uuid.uuid4().hex}"
    with directory_published_at_end(directory) as staging:
        _write(staging, _ALWAYS)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def read_certificates(directory: Path) -> Certificates:
    """Read the certificates and check that they are private, valid, and from one renewal."""
    _check_private(directory)
    return read_mounted_certificates(directory)


def read_mounted_certificates(directory: Path) -> Certificates:
    """Read certificates from a secret mounted in a pod, without a check of file permissions."""
    names = (AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE)
    try:
        contents = [(directory / name).read_bytes() for name in names]
        authority, certificate = map(x509.load_pem_x509_certificate, contents[:2])
        key = serialization.load_pem_private_key(contents[2], None)
        certificate.verify_directly_issued_by(authority)
        together = key.public_key() == certificate.public_key()
    except FileNotFoundError as error:
        raise InputError(
            "a certificate file is missing",
            where=error.filename,
            remedy=f"Run {_RENEW} {directory}",
        ) from error
    except (InvalidSignature, ValueError, TypeError):
        together = False
    if not together:
        raise InputError(
            "the certificates are damaged or do not belong together",
            where=directory,
            remedy=f"Run {_RENEW} {directory}, and start the cluster again",
        )
    expires = min(authority.not_valid_after_utc, certificate.not_valid_after_utc)
    if expires <= datetime.datetime.now(datetime.UTC):
        raise InputError(
            "the certificates have expired",
            where=directory,
            value=f"{expires:%Y-%m-%d %H:%M} UTC",
            remedy=f"Run {_RENEW} {directory}, and start the cluster again",
        )
    return Certificates(directory, expires, authority.fingerprint(hashes.SHA256()).hex())


def security_of(directory: Path) -> Security:
    """Return the Dask settings that allow only TLS 1.3 between holders of the same certificates.

    Client, scheduler and workers use the same settings. Each refuses unencrypted connections and
    peers without a certificate of the authority in `directory`. The caller has checked the
    certificates.
    """
    from distributed.security import Security

    certificate, key = str(directory / CERTIFICATE_FILE), str(directory / KEY_FILE)
    return Security(
        require_encryption=True,
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        tls_ca_file=str(directory / AUTHORITY_FILE),
        tls_client_cert=certificate,
        tls_client_key=key,
        tls_scheduler_cert=certificate,
        tls_scheduler_key=key,
        tls_worker_cert=certificate,
        tls_worker_key=key,
    )


def security_towards(
    address: str, tls: Path | str | bool, *, where: str = "--scheduler"
) -> Security | None:
    """Return the TLS settings for the scheduler at `address`, or None for plain text.

    The address is in Dask's notation; without a protocol it is ``tcp://``. `tls` is the directory
    of the cluster's certificates. True takes the certificates of Dask's own configuration if the
    address is encrypted; False accepts plain text, for a network that the user trusts. `where` is
    the option that gave the address, for errors.
    """
    if address.startswith("tls://"):
        if isinstance(tls, bool):
            return _configured_security(address, where)
        return security_of(read_certificates(Path(tls)).directory.resolve())
    if not isinstance(tls, bool):
        raise UsageError(
            "certificates are of no use at an address without encryption",
            where=where,
            value=address,
            remedy="Start the scheduler with --protocol tls, and write tls://",
        )
    if tls and not _is_loopback(address):
        raise UsageError(
            "whoever can reach this scheduler can run code as its owner, and nothing is encrypted",
            where=where,
            value=address,
            remedy="Use tls:// and --tls DIR (primo-scale cluster certificates new DIR), or "
            "--no-tls (in a profile: tls = false) where everybody on the network is trusted",
        )
    return None


def _is_loopback(address: str) -> bool:
    """Return whether `address` is on this machine; only the name localhost is resolved."""
    try:
        host = urlsplit(f"//{address.rpartition('://')[2]}").hostname
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:  # a host name, or not an address
        return False


def _configured_security(address: str, where: str) -> Security:
    """Return the TLS settings of the user's Dask configuration, which must name certificates."""
    from distributed.security import Security

    security = Security(require_encryption=True)
    if security.tls_ca_file is None:
        raise UsageError(
            "an encrypted scheduler asks for a certificate",
            where=where,
            value=address,
            remedy="Give --tls DIR (in a profile tls), the directory that the scheduler was "
            "started with",
        )
    return security


def _check_private(directory: Path) -> None:
    """Refuse certificates that other users can read, because any holder can join the cluster."""
    if not directory.is_dir():
        raise InputError(
            "no such directory", where=directory, remedy="Run primo-scale cluster certificates new"
        )
    for path in (directory, directory / KEY_FILE):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0
        if mode & 0o077:
            raise InputError(
                "the private key of a cluster is open to others",
                where=path,
                value=f"mode {mode:04o}",
                limit="0700 and 0600",
                remedy=f"Run chmod go= {path}, then {_RENEW} {directory}",
            )


def _from_now(days: int) -> _Period:
    now = datetime.datetime.now(datetime.UTC)
    return now - _CLOCKS_APART, now + datetime.timedelta(days=days)


def _write(directory: Path, period: _Period) -> None:
    """Write a new authority's certificate, the certificate that it signs, and the key of that."""
    authority, certificate, key = _issue(period)
    pem = serialization.Encoding.PEM
    unencrypted = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unencrypted)
    write_atomically(directory / KEY_FILE, private)
    write_atomically(directory / CERTIFICATE_FILE, certificate.public_bytes(pem))
    write_atomically(directory / AUTHORITY_FILE, authority.public_bytes(pem))


def _issue(
    period: _Period,
) -> tuple[x509.Certificate, x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return an authority, the only certificate that it signs, and the key of that certificate."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    authority = (
        _form(_AUTHORITY, authority_key, period)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .issuer_name(_name(_AUTHORITY))
        .sign(authority_key, hashes.SHA256())
    )
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _form(_MEMBER, key, period)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
        .add_extension(issuer, critical=False)
        .issuer_name(authority.subject)
        .sign(authority_key, hashes.SHA256())
    )
    return authority, certificate, key


def _form(name: str, key: ec.EllipticCurvePrivateKey, period: _Period) -> x509.CertificateBuilder:
    """Return a builder with the fields that both certificates share."""
    begin, end = period
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(identifier, critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
