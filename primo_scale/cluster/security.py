"""Who may join a cluster: TLS, and the certificates of its members.

A Dask port unpickles and runs the data that it receives, so that every peer of a cluster can run
code as its owner. With TLS both ends of a connection prove, before the first byte of Dask's
protocol is read, that they hold a certificate of the cluster. Clusters that a command starts have
temporary certificates of Dask. A running scheduler has PEM files of the user.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from primo_scale.errors import Field, InputError, UsageError
from primo_scale.storage.files import directory_published_at_end, write_atomically

if TYPE_CHECKING:
    from distributed.security import Security

AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.pem", "cert.pem", "key.pem"
_CLOCKS_APART = datetime.timedelta(minutes=10)


def make_certificates(directory: Path, *, days: int = 30) -> None:
    """Make the certificate of a cluster, which client, scheduler and workers share.

    The certificate is its own authority. To exclude a holder, make another directory and restart
    the cluster.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "primo_scale cluster")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    contents = {AUTHORITY_FILE: certificate, CERTIFICATE_FILE: certificate, KEY_FILE: private}
    with directory_published_at_end(directory) as staging:
        for file, content in contents.items():
            write_atomically(staging / file, content)


def temporary_security() -> Security:
    """Return the settings of a cluster with certificates in memory, which end with it."""
    from distributed.security import Security

    return Security.temporary(tls_min_version=ssl.TLSVersion.TLSv1_3)


def security_of(directory: Path) -> Security:
    """Return the settings that allow only TLS 1.3 between holders of the certificates."""
    from distributed.security import Security

    for path in (directory / AUTHORITY_FILE, directory / CERTIFICATE_FILE, directory / KEY_FILE):
        if not path.is_file():
            raise InputError(
                "a certificate file is missing",
                where=path,
                remedy="Run primo-scale cluster certificates DIR, which makes a directory of them",
            )
    if path.stat().st_mode & 0o077:
        raise InputError(
            "the private key of a cluster is open to others",
            where=path,
            value=f"mode {path.stat().st_mode & 0o777:04o}",
            limit="0600",
            remedy="Make other certificates, because any holder can join the cluster",
        )
    certificate, key = (str((directory / name).resolve()) for name in (CERTIFICATE_FILE, KEY_FILE))
    roles = {f"tls_{role}_cert": certificate for role in ("client", "scheduler", "worker")}
    roles |= {name.replace("_cert", "_key"): key for name in roles}
    return Security(
        require_encryption=True,
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        tls_ca_file=str((directory / AUTHORITY_FILE).resolve()),
        **roles,
    )


def security_towards(address: str, tls: Path | str | bool) -> Security | None:
    """Return the TLS settings for the scheduler at `address`, or None for plain text.

    The address is in Dask's notation; without a protocol it is ``tcp://``. `tls` is the directory
    of the cluster's certificates. True takes the certificates of Dask's own configuration if the
    address is encrypted; False accepts plain text, for a network that the user trusts.
    """
    if address.startswith("tls://"):
        from distributed.security import Security

        if not isinstance(tls, bool):
            return security_of(Path(tls))
        security = Security(require_encryption=True)
        if security.tls_ca_file is None:
            raise UsageError(
                "an encrypted scheduler asks for a certificate",
                where=Field("scheduler"),
                value=address,
                remedy="Give `tls`, the directory that the scheduler was started with",
            )
        return security
    if not isinstance(tls, bool):
        raise UsageError(
            "certificates are of no use at an address without encryption",
            where=Field("scheduler"),
            value=address,
            remedy="Start the scheduler with --protocol tls, and write tls://",
        )
    if tls and not _is_loopback(address):
        raise UsageError(
            "whoever can reach this scheduler can run code as its owner, and nothing is encrypted",
            where=Field("scheduler"),
            value=address,
            remedy="Use tls:// and `tls` (primo-scale cluster certificates DIR), or `no_tls` where "
            "everybody on the network is trusted",
        )
    return None


def _is_loopback(address: str) -> bool:
    """Return whether `address` is on this machine; only the name localhost is resolved."""
    try:
        host = urlsplit(f"//{address.rpartition('://')[2]}").hostname
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:  # a host name, or not an address
        return False
