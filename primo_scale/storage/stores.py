"""Zarr stores in directories and buckets, their checksums, and encryption with a key of the user.

A checksum of the values alone does not detect that two chunks of the same size were exchanged. A
store therefore guards its objects (`BaseStore`). A finished store records the checksum of each
chunk, and any Zarr reader can read its chunks. Partial sums have many writers and no common record,
so that their checksums also cover the chunk's key. In an encrypted store the authentication tag
covers it.

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

import asyncio
import base64
import os
import secrets
import shutil
import stat
import uuid
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from zarr.abc.store import Store

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage import files, locations

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

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
    with files.disk_errors_explained(path):
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
        what = "other users may read the encryption key"
        remedy = f"Run chmod 600 {path}, and consider who may have read the key"
        raise InputError(what, where=path, value=f"mode {mode:04o}", expected="0600", remedy=remedy)
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
    with files.one_thread_at_a_time():
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
    return files.canonical_json({"encryption": asdict(encryption), "sealed": text})


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
    return files.read_document(path, content_of, remedy="Restore it from a backup")


@lru_cache(maxsize=64)
def _cipher(encryption: StoreEncryption) -> AESGCM:
    check_key(encryption, "the store")
    key = key_in_effect()
    if key is None:
        raise ValueError("an encrypted store without a key")
    return AESGCM(_derived(key, bytes.fromhex(encryption.store), b"primo_scale store"))


def _derived(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=salt or None, info=purpose).derive(secret)


HEADER = "zarr.json"
"""Key of a store's unencrypted metadata document, and file name of each array's metadata."""
CHECKSUM_BYTES = 4
_WRITE_AGAIN = "Remove the store and run the same command again"
Parts = Sequence[memoryview]


def is_chunk(key: str) -> bool:
    """Return whether a key of a Zarr format 3 store is that of a chunk."""
    return "/c/" in key


def no_conditional_put(where: locations.Location) -> InputError:
    """Return the error of an object store without conditional writes."""
    what = "the object store does not support conditional put, which commits need"
    return InputError(what, where=str(where), remedy="Use a service with If-None-Match")


def damaged(where: locations.Location, key: str, what: str = "damaged") -> InputError:
    """Return the error of an object that is missing, incomplete, changed or exchanged."""
    if is_chunk(key):
        return DamagedChunk(
            f"a stored chunk is {what}", where=str(where / key), remedy=_WRITE_AGAIN
        )
    where = where / key if key else where
    return InputError("the store is damaged", where=str(where), remedy=_WRITE_AGAIN)


def crc32c_bytes(*parts: Any) -> bytes:
    """Return the CRC-32C of consecutive bytes, as Zarr stores it."""
    checksum = 0
    for part in parts:  # google_crc32c accepts an array but no memoryview
        checksum = google_crc32c.extend(checksum, np.frombuffer(part, np.uint8))
    return int(checksum).to_bytes(CHECKSUM_BYTES, "little")


class BaseStore(Store):
    """Zarr store that knows its location and gives synchronous access to its guarded objects.

    Reading a missing chunk is an error. Zarr itself would read the fill value, which makes a sum
    silently wrong. Keys are those of Zarr, such as ``gram/0/c/1/2``.

    Objects have one guard, none by default. `encryption` is AES-256-GCM of every object except for
    the store's own metadata document, `HEADER`. The object's key and its store are authenticated,
    so that one object cannot replace another. `keyed` appends the CRC-32C of a chunk's content and
    its key. `recorded` is compared with each chunk's final CRC-32C, of which the reader of a chunk
    checks that it is that of the values before it. Chunks without a record are not compared, and
    those written are recorded. `tables` has records of the chunks of an array, by grid position.
    """

    location: Any  # a `Location`
    supports_writes = supports_deletes = supports_listing = True

    def __init__(self, location: locations.Location) -> None:
        super().__init__()
        self.location = location
        self.encryption: StoreEncryption | None = None
        self.keyed = False
        self.recorded: dict[str, int] | None = None
        self.tables: dict[str, npt.NDArray[np.uint32]] = {}

    def __eq__(self, other: object) -> bool:
        return self is other

    def read(self, key: str) -> bytes | memoryview:
        """Return the content of an object.

        A missing chunk raises `DamagedChunk`, and another missing object FileNotFoundError.
        """
        try:
            return self._decode(key, self._load(key))
        except FileNotFoundError:
            if is_chunk(key):
                raise damaged(self.location, key, "missing") from None
            raise
        except ValueError as error:
            raise damaged(self.location, key) from error

    def write(self, key: str, parts: Parts) -> None:
        """Write the concatenated parts as one object; an object with the same key is replaced."""
        self._save(key, self._encode(key, parts))

    def commit(self, key: str, parts: Parts) -> None:
        """Write as `write` does, where several workers may write the same content."""
        self.write(key, parts)

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write an object unless its key exists, and return whether it was written.

        Of several concurrent callers exactly one gets True.
        """
        return self._create(key, b"".join(self._encode(key, [memoryview(content)])))

    def _encode(self, key: str, parts: Parts) -> Parts:
        """Return the encoded content of an object, in parts."""
        if self.encryption is not None:
            if key == HEADER:
                return parts
            return [memoryview(self.encryption.encrypt(b"".join(parts), key))]
        if self.keyed and is_chunk(key):
            return [*parts, memoryview(crc32c_bytes(*parts, key.encode()))]
        if self.recorded is not None and is_chunk(key):
            self.recorded[key] = int.from_bytes(parts[-1][-CHECKSUM_BYTES:], "little")
        return parts

    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        """Return the content of an object, or raise a ValueError if the stored bytes differ."""
        if self.encryption is not None:
            return stored if key == HEADER else self.encryption.decrypt(stored, key)
        if self.keyed and is_chunk(key):
            content = memoryview(stored)[:-CHECKSUM_BYTES]
            if stored[-CHECKSUM_BYTES:] != crc32c_bytes(content, key.encode()):
                raise ValueError("another checksum")
            return content
        if self.recorded is not None:
            array, _, index = key.partition("/c/")
            expected = self.recorded.get(key)
            if index and array in self.tables:
                expected = int(self.tables[array][tuple(map(int, index.split("/")))])
            if expected not in (None, int.from_bytes(stored[-CHECKSUM_BYTES:], "little")):
                raise ValueError("another checksum")
        return stored

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Return whether a complete object has this key."""

    @abstractmethod
    def all_keys(self, prefix: str = "") -> Iterator[str]:
        """Return the keys of all objects, or of those below a prefix, in any order."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete an object, if it exists."""

    @abstractmethod
    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix; ``""`` means all objects."""

    @abstractmethod
    def flush(self, prefix: str) -> None:
        """Make the objects at or below a prefix survive a power failure."""

    @abstractmethod
    def _load(self, key: str) -> bytes: ...

    @abstractmethod
    def _save(self, key: str, parts: Parts) -> None: ...

    @abstractmethod
    def _create(self, key: str, content: bytes) -> bool: ...

    # Methods that Zarr calls. Threads do the work, so that Zarr's only event loop is not blocked.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the whole content of an object, or None for missing metadata."""
        if byte_range is not None:
            raise ValueError("an object cannot be read in parts")
        try:
            return prototype.buffer.from_bytes(await asyncio.to_thread(self.read, key))
        except FileNotFoundError:
            return None

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the contents of several objects."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def set(self, key: str, value: Buffer) -> None:
        """Write or replace an object."""
        content: Any = np.ascontiguousarray(value.as_numpy_array())
        await asyncio.to_thread(self.write, key, [memoryview(content).cast("B")])

    async def exists(self, key: str) -> bool:
        """Return whether the object exists."""
        return await asyncio.to_thread(self.holds, key)

    async def delete(self, key: str) -> None:
        """Delete an object."""
        await asyncio.to_thread(self.remove, key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        await asyncio.to_thread(self.remove_below, prefix)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        for key in await asyncio.to_thread(lambda: list(self.all_keys(prefix))):
            yield key

    def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        return self.list_prefix("")

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names below a prefix."""
        start = len(prefix) + 1 if prefix else 0
        names = {key[start:].partition("/")[0] async for key in self.list_prefix(prefix)}
        for name in names:
            yield name


class DiskStore(BaseStore):
    """Zarr store in a directory, one file per object.

    A file under its final name is complete: it is written under a temporary name and renamed.
    """

    location: Path

    def holds(self, key: str) -> bool:
        """Return whether the file exists."""
        return (self.location / key).is_file()

    def all_keys(self, prefix: str = "") -> Iterator[str]:
        """Return the files below the directory, without temporary files of killed processes."""
        below = len(str(self.location)) + 1
        for directory, _, names in os.walk(self.location / prefix):
            for name in names:
                if not name.endswith(".partial"):
                    yield os.path.join(directory, name)[below:]

    def remove(self, key: str) -> None:
        """Delete a file, if it exists."""
        with files.disk_errors_explained(self.location / key):
            (self.location / key).unlink(missing_ok=True)

    def remove_below(self, prefix: str) -> None:
        """Delete a directory, if it exists."""
        if (self.location / prefix).exists():
            shutil.rmtree(self.location / prefix)

    def flush(self, prefix: str) -> None:
        """Flush a file or a directory tree, and the directory entry that names it."""
        path = self.location / prefix
        if path.is_dir():
            files.sync_tree(path)
        else:
            files.sync_file(path)
        files.sync_directory(path.parent)

    def _load(self, key: str) -> bytes:
        return (self.location / key).read_bytes()

    def _save(self, key: str, parts: Parts) -> None:
        path = self.location / key
        beside = _beside(path)
        try:
            with beside.open("xb", buffering=0) as file:
                for part in parts:
                    files.write_all(file.fileno(), part)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def _create(self, key: str, content: bytes) -> bool:
        """Write a temporary file and link the final name to it, which fails if the name exists."""
        path = self.location / key
        with files.disk_errors_explained(path):
            beside = _beside(path)
            try:
                beside.write_bytes(content)
                files.sync_file(beside)
                os.link(beside, path)
            except FileExistsError:
                return False
            finally:
                beside.unlink(missing_ok=True)
            files.sync_directory(path.parent)
        return True


def _beside(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def store_at(location: locations.Location) -> BaseStore:
    """Return the store at a location; nothing is read or written yet.

    A process that lacks a package or settings to reach the bucket is refused.
    """
    if isinstance(location, Path):
        return DiskStore(location)
    try:
        # By name, since that module knows this one, and only with the extra.
        bucket = import_module("primo_scale.storage.bucket_store")
    except ImportError:
        raise InputError(
            "object stores need the extra s3",
            where=str(location),
            remedy="pip install obstore, here and where the workers run",
        ) from None
    store: BaseStore = bucket.BucketStore(location)
    return store
