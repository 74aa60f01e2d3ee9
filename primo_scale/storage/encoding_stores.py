"""Zarr stores that encode objects before another store holds them: encrypted or with checksums.

A checksum of the values alone does not detect that two chunks of the same size were exchanged.
There are three remedies. A finished store records the checksum of each chunk
(`RecordedChecksumStore`), and any Zarr reader can read its chunks. Partial sums have many writers
and no common record, so that their checksums also cover the chunk's key (`KeyedChecksumStore`).
In an encrypted store (`EncryptedStore`) the authentication tag covers it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
import numpy.typing as npt
from zarr.abc.store import Store
from zarr.storage import WrapperStore

from primo_scale.storage.base_store import HEADER, BaseStore, damaged_chunk, damaged_store, is_chunk
from primo_scale.storage.encryption import StoreEncryption
from primo_scale.storage.locations import Location

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

CHECKSUM_BYTES = 4


class EncodingStore(BaseStore, WrapperStore[BaseStore]):
    """Zarr store that encodes every object before an inner store holds it."""

    @abstractmethod
    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        """Return the encoded content of an object, in parts."""

    @abstractmethod
    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        """Return the content of an object, or raise an InputError if the stored bytes differ."""

    # Methods that Zarr calls. Every method of `WrapperStore` that passes content on is overridden.
    # Threads encode and decode, so that Zarr's only event loop is not blocked.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the whole content of an object."""
        if byte_range is not None:
            raise ValueError("an encoded object cannot be read in parts")
        stored = await self._store.get(key, prototype)
        if stored is None:
            return None
        content = await asyncio.to_thread(self._decode, key, _bytes_of(stored))
        return prototype.buffer.from_bytes(content)

    async def set(self, key: str, value: Buffer) -> None:
        """Write or replace an object."""
        await self._store.set(key, await asyncio.to_thread(self._encoded_buffer, key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object unless its key exists."""
        stored = await asyncio.to_thread(self._encoded_buffer, key, value)
        await self._store.set_if_not_exists(key, stored)

    _get_many, _set_many = Store._get_many, Store._set_many  # they call `get` and `set`

    # Methods that this project calls.

    @property
    def location(self) -> Location:
        """Location of the inner store."""
        return self._store.location

    def holds(self, key: str) -> bool:
        """Return whether the object exists."""
        return self._store.holds(key)

    def all_keys(self) -> Iterator[str]:
        """Return every key."""
        return self._store.all_keys()

    def read(self, key: str) -> bytes | memoryview:
        """Return the content of an existing object."""
        return self._decode(key, self._store.read(key))

    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write or replace an object."""
        self._store.write(key, self._encode(key, parts))

    def commit(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write an object that several workers may write."""
        self._store.commit(key, self._encode(key, parts))

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write an object unless its key exists; return whether it was written."""
        return self._store.put_if_absent(key, b"".join(self._encode(key, [memoryview(content)])))

    def remove(self, key: str) -> None:
        """Delete an object."""
        self._store.remove(key)

    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        self._store.remove_below(prefix)

    def flush(self, prefix: str) -> None:
        """Make the objects at or below a prefix survive a power failure."""
        self._store.flush(prefix)

    def _encoded_buffer(self, key: str, value: Buffer) -> Buffer:
        return value.from_bytes(b"".join(self._encode(key, [_bytes_of(value)])))


class EncryptedStore(EncodingStore):
    """Zarr store that encrypts every object with AES-256-GCM.

    The object's key and its store are authenticated, so that one object cannot replace another.
    The store's own metadata document, `HEADER`, is not encrypted.
    """

    def __init__(self, store: BaseStore, encryption: StoreEncryption) -> None:
        super().__init__(store)
        self.encryption = encryption

    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        if key == HEADER:
            return list(parts)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return [memoryview(self.encryption.encrypt(content, key))]

    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        if key == HEADER:
            return stored
        try:
            return self.encryption.decrypt(stored, key)
        except ValueError as error:
            if is_chunk(key):
                raise damaged_chunk(self.location / key) from error
            raise damaged_store(self.location / key) from error


class RecordedChecksumStore(EncodingStore):
    """Zarr store that compares each chunk's final CRC-32C with a recorded one.

    The reader of a chunk checks that the CRC-32C is that of the values before it. Chunks without a
    record are not compared, and chunks written through this store are recorded.
    """

    def __init__(self, store: BaseStore, recorded: Mapping[str, int]) -> None:
        super().__init__(store)
        self.recorded = dict(recorded)
        self._tables: dict[str, npt.NDArray[np.uint32]] = {}

    def expect(self, array: str, table: npt.NDArray[np.uint32]) -> None:
        """Compare the chunks of an array with a table of checksums, indexed by grid position."""
        self._tables[array] = table

    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        if is_chunk(key):
            self.recorded[key] = int.from_bytes(parts[-1][-CHECKSUM_BYTES:], "little")
        return list(parts)

    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        expected = self._expected(key)
        found = int.from_bytes(stored[-CHECKSUM_BYTES:], "little")
        if expected is not None and found != expected:
            raise damaged_chunk(self.location / key)
        return stored

    def _expected(self, key: str) -> int | None:
        array, _, index = key.partition("/c/")
        if index and array in self._tables:
            return int(self._tables[array][tuple(map(int, index.split("/")))])
        return self.recorded.get(key)


class KeyedChecksumStore(EncodingStore):
    """Zarr store that ends every chunk with a CRC-32C of its content and its key."""

    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        if not is_chunk(key):
            return list(parts)
        return [*parts, memoryview(_bound_checksum(key, parts))]

    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        if not is_chunk(key):
            return stored
        content = memoryview(stored)[:-CHECKSUM_BYTES]
        if stored[-CHECKSUM_BYTES:] != _bound_checksum(key, [content]):
            raise damaged_chunk(self.location / key)
        return content


def _bound_checksum(key: str, parts: Sequence[memoryview]) -> bytes:
    checksum = 0
    for part in (*parts, memoryview(key.encode())):
        # google_crc32c accepts an array but no memoryview.
        checksum = google_crc32c.extend(checksum, np.frombuffer(part, np.uint8))
    return int(checksum).to_bytes(CHECKSUM_BYTES, "little")


def _bytes_of(data: Buffer) -> memoryview:
    whole: Any = np.ascontiguousarray(data.as_numpy_array())
    return memoryview(whole).cast("B")
