"""Encryption at rest with a key of the user.

Objects are encrypted with AES-256-GCM. Each store has its own key, which HKDF-SHA-256 derives from
the user's key and the store's random name. Each object has a fresh random nonce of 96 bits; a store
has far fewer objects than the 2^32 that NIST SP 800-38D allows for one key.

An encrypted object is nonce | ciphertext | tag. The tag authenticates the user's key, the store and
the object's key in the store (``gram/0/c/1/2``, ``gram/0/zarr.json``), which for a chunk names its
array and its grid position. Somebody who can write to the work directory can delete objects, which
is detected, or restore an earlier object of the same store and key, which is not.

The user's key is in a file. Every process finds the file by the environment variable
`KEY_VARIABLE`. Local workers inherit the variable; other workers are started with it. The key is
never part of a store or a task.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from primo_scale.errors import InputError
from primo_scale.storage.files import (
    canonical_json,
    disk_errors_explained,
    one_thread_at_a_time,
    read_document,
)

KEY_VARIABLE = "PRIMO_SCALE_ENCRYPTION_KEY"
KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
_STORE_NAME_BYTES = 16
_MAKE = "primo-scale key new"


@dataclass(frozen=True)
class StoreEncryption:
    """Encryption of one store, as its metadata document records it.

    The store's key is derived from the user's key, which `key` identifies, and the store's random
    name. Both are hexadecimal text.
    """

    key: str
    store: str

    def encrypt(self, content: bytes | memoryview, about: str) -> bytes:
        """Encrypt `content` and authenticate `about`, which `decrypt` must be given again."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + _cipher(self).encrypt(nonce, content, about.encode())

    def decrypt(self, encrypted: bytes | memoryview, about: str) -> bytes:
        """Return the content that `encrypt` was given.

        Raises a ValueError if the encrypted text was changed or `about` differs, and an InputError
        if the key in effect is not that of the store.
        """
        nonce, rest = encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:]
        try:
            return _cipher(self).decrypt(bytes(nonce), rest, about.encode())
        except InvalidTag:
            raise ValueError("does not decrypt") from None


def make_key_file(path: Path) -> bytes:
    """Write a random key of 32 bytes to a new file with mode 0600.

    A file that exists is refused: data may depend on the key in it.
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


def read_key_file(path: Path) -> bytes:
    """Read the user's key from a file of 32 bytes that nobody else may read."""
    if not path.is_file():
        raise InputError("no such key file", where=path, remedy=f"Make one: {_MAKE} FILE")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise InputError(
            "other users may read the encryption key",
            where=path,
            value=f"mode {mode:04o}",
            expected="0600",
            remedy=f"Run chmod 600 {path}, and consider who may have read the key",
        )
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        raise InputError(
            "is not an encryption key",
            where=path,
            value=f"{len(secret)} bytes",
            expected=f"{KEY_BYTES} bytes",
            remedy=f"Make one: {_MAKE} FILE",
        )
    return secret


def key_identifier(secret: bytes) -> str:
    """Return the public identifier of a key, with which an error can name the wrong one."""
    return _derived(secret, b"", b"primo_scale key identifier")[:8].hex()


@contextmanager
def encrypted_with(path: Path | None) -> Iterator[None]:
    """Encrypt with the key in `path` during the block, in this process and those it starts.

    None stands for the key file that `KEY_VARIABLE` names, or for no encryption if it is not set.
    """
    with one_thread_at_a_time():
        before = os.environ.get(KEY_VARIABLE)
        try:
            if chosen := path or before:
                os.environ[KEY_VARIABLE] = str(Path(chosen).resolve())
                key_in_effect()
            yield
        finally:
            os.environ.pop(KEY_VARIABLE, None)
            if before is not None:
                os.environ[KEY_VARIABLE] = before


@lru_cache(maxsize=8)
def _key_at(path: str) -> bytes:
    return read_key_file(Path(path))


def key_in_effect() -> bytes | None:
    """Return the key in the file that the environment variable names, or None without one."""
    path = os.environ.get(KEY_VARIABLE)
    return _key_at(path) if path else None


def new_store_encryption() -> StoreEncryption | None:
    """Return the encryption of a new store, or None without a key."""
    key = key_in_effect()
    if key is None:
        return None
    return StoreEncryption(key_identifier(key), secrets.token_hex(_STORE_NAME_BYTES))


def check_key(encryption: StoreEncryption | None, where: str | Path) -> None:
    """Refuse an encrypted store without its key, and an unencrypted store with a key."""
    key = key_in_effect()
    given, needed = key and key_identifier(key), encryption and encryption.key
    if given == needed:
        return
    value: str | None = f"key {given or needed}"
    expected = None
    if needed is None:
        what, value = "is not encrypted, but a key is given", None
        remedy = "Use another --work-dir, or leave the key out"
    elif given is None:
        what = "is encrypted"
        remedy = f"Give --encryption-key FILE, or set {KEY_VARIABLE} where workers start"
    else:
        what, expected = "is encrypted with another key", f"key {needed}"
        remedy = "Give the key that it was written with"
    raise InputError(what, where=where, value=value, expected=expected, remedy=remedy)


def sealed(encryption: StoreEncryption, content: bytes, about: str) -> str:
    """Return the encrypted content as text; `opened` must be given `about` again."""
    return base64.b64encode(encryption.encrypt(content, about)).decode()


def opened(encryption: StoreEncryption, text: str, about: str) -> bytes:
    """Return the content that `sealed` was given, or raise a ValueError if the text differs."""
    return encryption.decrypt(base64.b64decode(text), about)


def encrypt_file_content(content: bytes, about: str) -> bytes:
    """Encrypt the content of a small file with the key in effect, if there is one.

    `about` is authenticated; `decrypt_file` must be given it again. An encrypted file is a JSON
    document, so that the content itself must not be one.
    """
    encryption = new_store_encryption()
    if encryption is None:
        return content
    text = sealed(encryption, content, about)
    return canonical_json({"encryption": asdict(encryption), "sealed": text})


def decrypt_file(path: Path, about: str) -> bytes:
    """Return the content that `encrypt_file_content` was given, from the file at `path`.

    A file that was changed, has another description or is encrypted with another key is refused,
    and so is an unencrypted file if a key is in effect: its content could be of anybody's choice.
    """

    def content_of(document: dict[str, Any]) -> bytes:
        encryption = StoreEncryption(**document["encryption"])
        check_key(encryption, path)
        return opened(encryption, document["sealed"], about)

    content = path.read_bytes()
    if not content.startswith(b'{"encryption":'):
        check_key(None, path)
        return content
    return read_document(path, content_of, remedy="Restore it from a backup")


@lru_cache(maxsize=64)
def _cipher(encryption: StoreEncryption) -> AESGCM:
    check_key(encryption, "the store")
    key = key_in_effect()
    if key is None:
        raise ValueError("an encrypted store without a key")
    return AESGCM(_derived(key, bytes.fromhex(encryption.store), b"primo_scale store"))


def _derived(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=salt or None, info=purpose).derive(secret)
