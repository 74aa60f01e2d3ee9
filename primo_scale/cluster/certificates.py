"""Certificates of one cluster: whoever has them is part of it, and nobody else gets a word in.

A Dask port unpickles what it is sent and runs it, so being able to talk to a cluster is being able
to run code as its owner. With these certificates both ends of a connection prove, before the first
byte of Dask's protocol is read, that they hold a certificate of the cluster's own authority.

The authority's private key is thrown away as soon as it has signed one certificate: client,
scheduler and workers share that one, and no further one can ever be made. To shut somebody out is
to make new ones (`renew_certificates`) and to start the cluster again.
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
_RENEW = "python -m pipelines.certificates renew"


@dataclass(frozen=True)
class _Period:
    begin: datetime.datetime
    end: datetime.datetime


# The first and the last moment that a certificate can name (RFC 5280, section 4.1.2.5).
_ALWAYS = _Period(
    datetime.datetime(1950, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC),
)


@dataclass(frozen=True)
class Certificates:
    """The certificates in a directory, found to be whole, private and in force.

    Attributes
    ----------
    directory
        Holds ``ca.pem``, ``cert.pem`` and ``key.pem``.
    expires
        After this no new connection is made.
    fingerprint
        SHA-256 of the authority's certificate, in hexadecimal: equal on machines of one cluster.
    """

    directory: Path
    expires: datetime.datetime
    fingerprint: str


def make_certificates(directory: Path, *, days: int = DEFAULT_DAYS) -> Certificates:
    """Make the authority and the certificate of a new cluster.

    Raises
    ------
    InputError
        `directory` exists.
    """
    with directory_published_at_end(directory) as staging:
        _write(staging, _from_now(days))
    return read_certificates(directory)


def renew_certificates(directory: Path, *, days: int = DEFAULT_DAYS) -> Certificates:
    """Replace the authority and the certificate, whatever state the old ones are in.

    A running cluster goes on with what it has read and refuses the new ones: start it again.

    Raises
    ------
    InputError
        `directory` holds no certificates, or others may enter it.
    """
    _check_private(directory)
    if not (directory / AUTHORITY_FILE).is_file():
        raise InputError(
            "holds no certificates",
            where=directory,
            remedy="Run python -m pipelines.certificates new",
        )
    _write(directory, _from_now(days))
    return read_certificates(directory)


@contextmanager
def throw_away_certificates(parent: Path) -> Iterator[Path]:
    """Make certificates that are valid for one run, whatever clocks show meanwhile.

    Dask's own ``Security.temporary()`` does not serve: its certificate is valid from the second it
    is made, for 365 days, so a clock that is set back, or is behind on a worker, breaks the run.

    Parameters
    ----------
    parent
        Private directory that the workers see.

    Yields
    ------
    Path
        A directory in `parent` that is deleted at the end.
    """
    # Certificates of a command that was killed: the work directory's lock shows that it is gone.
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
    """Read the certificates and check that they can be used.

    Raises
    ------
    InputError
        A file is missing or is no certificate, others may read them, they do not belong together
        (an interrupted renewal), or they have expired.
    """
    _check_private(directory)
    return read_mounted_certificates(directory)


def read_mounted_certificates(directory: Path) -> Certificates:
    """`read_certificates` of a secret that is mounted in a pod, with only one user to read it.

    Raises
    ------
    InputError
        As `read_certificates`, whoever may read them.
    """
    try:
        authority = x509.load_pem_x509_certificate((directory / AUTHORITY_FILE).read_bytes())
        certificate = x509.load_pem_x509_certificate((directory / CERTIFICATE_FILE).read_bytes())
        key = serialization.load_pem_private_key((directory / KEY_FILE).read_bytes(), None)
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


def security_for(directory: Path) -> Security:
    """What Dask needs to speak TLS 1.3 alone, with holders of the same certificates alone.

    For a client, a scheduler and workers alike: all of them refuse peers without a certificate
    of the authority in `directory`, and connections that are not encrypted.

    Raises
    ------
    InputError
        As `read_certificates`.
    """
    return security_of(read_certificates(directory).directory.resolve())


def security_of(directory: Path) -> Security:
    """`security_for` certificates that were checked, or that are only named."""
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


def security_towards(address: str, tls: Path | bool) -> Security | None:
    """How to connect to the scheduler at `address`; None: in plain text.

    Parameters
    ----------
    address
        As Dask writes it; without a protocol it is ``tcp://``.
    tls
        Directory of the cluster's certificates; True: those of Dask's own configuration, for an
        address that asks for encryption; False: the user vouches for everybody on the network,
        and plain text is accepted.

    Raises
    ------
    UsageError
        Plain text to another machine that nobody asked for, certificates for a plain address, or
        none for an encrypted one.
    InputError
        As `read_certificates`.
    """
    if address.startswith("tls://"):
        return security_for(tls) if isinstance(tls, Path) else _configured_security(address)
    if isinstance(tls, Path):
        raise UsageError(
            "certificates are of no use at an address without encryption",
            where="--tls",
            value=address,
            remedy="Start the scheduler with --protocol tls, and write tls://",
        )
    if tls and not _is_loopback(address):
        raise UsageError(
            "whoever can reach this scheduler can run code as its owner, and nothing is encrypted",
            where="--scheduler",
            value=address,
            remedy="Use tls:// and --tls DIR (python -m pipelines.certificates new DIR), or "
            "--no-tls (in a profile: tls = false) where everybody on the network is trusted",
        )
    return None


def _is_loopback(address: str) -> bool:
    """Return whether `address` is of this machine; names but localhost are not looked up."""
    try:
        host = urlsplit(f"//{address.rpartition('://')[2]}").hostname
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:  # a name, or no address at all
        return False


def _configured_security(address: str) -> Security:
    """Certificates that the user configured Dask with.

    Raises
    ------
    UsageError
        There are none.
    """
    from distributed.security import Security

    security = Security(require_encryption=True)
    if security.tls_ca_file is None:
        raise UsageError(
            "an encrypted scheduler asks for a certificate",
            where="--scheduler",
            value=address,
            remedy="Give --tls DIR, the directory that the scheduler was started with",
        )
    return security


def _check_private(directory: Path) -> None:
    """Refuse certificates that others may read: they are all it takes to join the cluster."""
    if not directory.is_dir():
        raise InputError(
            "no such directory",
            where=directory,
            remedy="Run python -m pipelines.certificates new",
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
    return _Period(now - _CLOCKS_APART, now + datetime.timedelta(days=days))


def _write(directory: Path, period: _Period) -> None:
    """Write a new authority's certificate, the one that it signs, and the key to that."""
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
    """An authority, the one certificate that it ever signs, and the key to that certificate."""
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
    """What both certificates say of their subject."""
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(period.begin)
        .not_valid_after(period.end)
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
