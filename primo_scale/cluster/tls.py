"""TLS of our clusters: the user's certificates, or ones that live as long as a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from tempfile import TemporaryDirectory

from distributed import Security

from primo_scale.cluster.profile import Certificates, Tls
from primo_scale.errors import InputError

_OTHERS = 0o077
_PREFIX = "tls-"


def security_from(certificates: Certificates) -> Security:
    """What Dask needs to know for connections that prove themselves with these certificates."""
    ca, cert, key = map(str, astuple(certificates))
    return Security(
        require_encryption=True,
        tls_ca_file=ca,
        **{f"tls_{role}_cert": cert for role in ("client", "scheduler", "worker")},
        **{f"tls_{role}_key": key for role in ("client", "scheduler", "worker")},
    )


def checked(certificates: Certificates) -> Certificates:
    """The same, if the files are there and the key is the owner's alone.

    Raises
    ------
    InputError
        A file is missing, or others on this machine may read the key.
    """
    check_presence(certificates)
    mode = certificates.key.stat().st_mode & 0o777
    if mode & _OTHERS:
        raise InputError(
            "the private key is open to others",
            where=certificates.key,
            value=f"mode {mode:o}",
            remedy=f"chmod 600 {certificates.key}",
        )
    return certificates


def check_presence(certificates: Certificates) -> None:
    """Refuse certificates that are not there.

    Raises
    ------
    InputError
        A file is missing.
    """
    for path in astuple(certificates):
        if not path.is_file():
            raise InputError("is not there", where=path, remedy="Check [tls] of the profile")


@contextmanager
def throw_away_certificates(tls: Tls, directory: Path) -> Iterator[Certificates | None]:
    """Certificates as asked for; made for this run alone where TLS is on and none are named.

    Parameters
    ----------
    tls
        Of the profile.
    directory
        Private, and seen by the workers: new files lie in it until the end.

    Yields
    ------
    Certificates | None
        None: TLS is off.
    """
    if isinstance(tls, Certificates):
        yield checked(tls)
    elif not tls:
        yield None
    else:
        # Of a command that was killed; the work directory's lock says that it is gone.
        for left in directory.glob(f"{_PREFIX}*"):
            shutil.rmtree(left)
        made = Security.temporary()
        with TemporaryDirectory(prefix=_PREFIX, dir=directory) as name:  # mode 0700
            certificates = Certificates(
                *(Path(name) / f"{part}.pem" for part in ("ca", "cert", "key"))
            )
            texts = (made.tls_ca_file, made.tls_worker_cert, made.tls_worker_key)
            for path, text in zip(astuple(certificates), texts, strict=True):
                path.touch(0o600)
                path.write_text(text)
            yield certificates
