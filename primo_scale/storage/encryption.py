"""Encryption at rest: the user's key, and what of a store is sealed with it.

AES-256-GCM under a key of the store's own, derived (HKDF-SHA-256) from the user's key and the
store's random name; a fresh random nonce of 96 bits for each object, which come to far fewer than
the 2^32 that NIST SP 800-38D allows for one key.

A sealed text is nonce | ciphertext | tag. Bound to it, so that it opens nowhere else: the user's
key, the store, and the name of the object in the store (``gram/0/c/1/2``, ``gram/0/zarr.json``),
which for a chunk is its array and its place there. Whoever can write to the work directory can
take objects away, which is found, or put back what the same store held before under the same name,
which is not.

The key is in a file of the user's. Every process finds the file by the environment variable
`KEY_VARIABLE`, which local workers inherit; workers elsewhere are started with it. The key is never
written to a store, and it is no part of a task.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from primo_scale.errors import InputError
from primo_scale.storage.documents import read_document
from primo_scale.storage.files import canonical_json, disk_errors_explained

KEY_VARIABLE = "PRIMO_SCALE_ENCRYPTION_KEY"
KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
_STORE_NAME_BYTES = 16
_MAKE = "python -m pipelines.encryption_key"


@dataclass(frozen=True)
class EncryptionKey:
    """The user's key.

    Attributes
    ----------
    secret
        32 bytes.
    identifier
        Says which key it is and nothing about it: stores carry it, so that a wrong key is named.
    """

    secret: bytes = field(repr=False)
    identifier: str


@dataclass(frozen=True)
class Sealing:
    """How a store is encrypted; this much of it stands in its metadata.

    Attributes
    ----------
    key
        Identifier of the user's key.
    store
        Random name, from which and the user's key comes the key of this store.
    """

    key: str
    store: str

    def seal(self, content: bytes | memoryview, about: str) -> bytes:
        """Encrypt `content`; it opens only as what it is `about`."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + _cipher(self).encrypt(nonce, content, about.encode())

    def open(self, sealed: bytes | memoryview, about: str) -> bytes:
        """Decrypt.

        Raises
        ------
        ValueError
            It was changed, or is about something else.
        InputError
            The key in effect is not the store's.
        """
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return _cipher(self).decrypt(bytes(nonce), rest, about.encode())
        except InvalidTag:
            raise ValueError("does not decrypt") from None


def make_key_file(path: Path) -> EncryptionKey:
    """Write 32 bytes of the operating system's entropy to a new file, mode 0600.

    Raises
    ------
    InputError
        `path` exists: the key there may be all that opens something.
    """
    with disk_errors_explained(path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InputError("exists already", where=path, remedy="Choose another file") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
    return read_key_file(path)


def read_key_file(path: Path) -> EncryptionKey:
    """Read the user's key.

    Raises
    ------
    InputError
        There is none, it is not 32 bytes, or others may read it.
    """
    if not path.is_file():
        raise InputError("no such key file", where=path, remedy=f"Make one: {_MAKE} FILE")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise InputError(
            "the encryption key is open to others",
            where=path,
            value=f"mode {mode:04o}",
            limit="0600",
            remedy=f"Run chmod 600 {path}, and think of who may have read it",
        )
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        raise InputError(
            "is no encryption key",
            where=path,
            value=f"{len(secret)} bytes",
            limit=f"{KEY_BYTES} bytes",
            remedy=f"Make one: {_MAKE} FILE",
        )
    return EncryptionKey(secret, _derived(secret, b"", b"primo_scale key identifier")[:8].hex())


@contextmanager
def encrypted_with(path: Path | None) -> Iterator[None]:
    """Encrypt with the key in `path` during the block, in this process and those it starts.

    None stands for the key file that `KEY_VARIABLE` names, or for no encryption if it is not set.

    Raises
    ------
    InputError
        As `read_key_file`.
    """
    before = os.environ.get(KEY_VARIABLE)
    chosen = str(path) if path is not None else before
    try:
        if chosen:
            os.environ[KEY_VARIABLE] = str(Path(chosen).resolve())
            key_in_effect()
        yield
    finally:
        if before is not None:
            os.environ[KEY_VARIABLE] = before
        else:
            os.environ.pop(KEY_VARIABLE, None)


def key_in_effect() -> EncryptionKey | None:
    """The key that the environment variable names a file of; None: nothing is encrypted."""
    path = os.environ.get(KEY_VARIABLE)
    return _key_at(path) if path else None


def new_sealing() -> Sealing | None:
    """How a new store is to be encrypted; None: not at all."""
    key = key_in_effect()
    return None if key is None else Sealing(key.identifier, secrets.token_hex(_STORE_NAME_BYTES))


def check_key(sealing: Sealing | None, where: str | Path) -> None:
    """Refuse a store that the key in effect does not open, or that is open where it should not be.

    Raises
    ------
    InputError
        No key for an encrypted store, another's key, or a key for a store that is not encrypted.
    """
    key = key_in_effect()
    if sealing is None and key is not None:
        raise InputError(
            "was written without encryption, and a key is given",
            where=where,
            remedy="Use another --work-dir, or leave the key out",
        )
    if sealing is not None and key is None:
        raise InputError(
            "is encrypted",
            where=where,
            value=f"key {sealing.key}",
            remedy=f"Give --encryption-key FILE, or set {KEY_VARIABLE} where workers start",
        )
    if sealing is not None and key is not None and sealing.key != key.identifier:
        raise InputError(
            "is encrypted with another key",
            where=where,
            value=f"key {key.identifier}",
            limit=f"key {sealing.key}",
            remedy="Give the key that it was written with",
        )


def seal_attributes(sealing: Sealing, attributes: Mapping[str, Any], about: str) -> str:
    """Attributes of a group as one string: digests of private integers confirm guesses of them."""
    return base64.b64encode(sealing.seal(json.dumps(attributes).encode(), about)).decode()


def open_attributes(sealing: Sealing, sealed: str, about: str, where: str | Path) -> dict[str, Any]:
    """What `seal_attributes` was given.

    Raises
    ------
    InputError
        They were changed.
    """
    try:
        content = sealing.open(base64.b64decode(sealed), about)
    except ValueError as error:
        raise InputError(
            "the attributes of a store are damaged",
            where=where,
            remedy="Remove the store and run the same command again",
        ) from error
    return dict(json.loads(content))


def seal_file(content: bytes, about: str) -> bytes:
    """A small file outside of stores, under the key in effect; `content` itself if there is none.

    Parameters
    ----------
    content
        Never JSON, which a sealed file is.
    about
        What it holds: as nothing else will `open_file` open it.
    """
    sealing = new_sealing()
    if sealing is None:
        return content
    text = base64.b64encode(sealing.seal(content, about)).decode()
    return canonical_json({"encryption": asdict(sealing), "sealed": text})


def open_file(path: Path, about: str) -> bytes:
    """What `seal_file` was given, of the file at `path`.

    Raises
    ------
    InputError
        It was changed, is about something else, or is under another key.
    """
    content = path.read_bytes()
    if not content.startswith(b'{"encryption":'):
        return content
    return read_document(
        path, lambda document: _opened(document, about, path), remedy="Restore it from a backup"
    )


def _opened(document: dict[str, Any], about: str, path: Path) -> bytes:
    sealing = Sealing(**document["encryption"])
    check_key(sealing, path)
    return sealing.open(base64.b64decode(document["sealed"]), about)


@lru_cache(maxsize=8)
def _key_at(path: str) -> EncryptionKey:
    return read_key_file(Path(path))


@lru_cache(maxsize=64)
def _cipher(sealing: Sealing) -> AESGCM:
    check_key(sealing, "the store")
    key = key_in_effect()
    if key is None:
        raise ValueError("an encrypted store passed for one that is not")
    return AESGCM(_derived(key.secret, bytes.fromhex(sealing.store), b"primo_scale store"))


def _derived(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=salt or None, info=purpose).derive(secret)
