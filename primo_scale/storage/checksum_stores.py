"""Zarr stores that detect a chunk stored under another chunk's key.

A checksum of the values alone does not detect that two chunks of the same size were exchanged.
There are two remedies. A finished store records the checksum of each chunk
(`RecordedChecksumStore`), and any Zarr reader can read its chunks. Partial sums have many writers
and no common record, so that their checksums also cover the chunk's key (`KeyedChecksumStore`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import google_crc32c
import numpy as np

from primo_scale.storage.base_store import BaseStore, damaged_chunk, is_chunk
from primo_scale.storage.encoding_store import EncodingStore

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

CHECKSUM_BYTES = 4


class ChecksumTable(Protocol):
    """Array of the checksums of an array's chunks, indexed by their grid positions."""

    def __getitem__(self, index: tuple[int, ...], /) -> Any:
        """Return the CRC-32C of one chunk."""


class RecordedChecksumStore(EncodingStore):
    """Zarr store that compares each chunk's final CRC-32C with a recorded one.

    The reader of a chunk checks that the CRC-32C is that of the values before it. Chunks without a
    record are not compared.

    Parameters
    ----------
    store
        Inner store, which holds the chunks.
    recorded
        CRC-32C by chunk key. Chunks written through this store are added.
    """

    def __init__(self, store: BaseStore, recorded: Mapping[str, int]) -> None:
        super().__init__(store)
        self.recorded = dict(recorded)
        self._tables: dict[str, ChecksumTable] = {}

    def expect(self, array: str, table: ChecksumTable) -> None:
        """Compare the chunks of an array with a table of their checksums."""
        self._tables[array] = table

    def _with_store(self, store: BaseStore) -> RecordedChecksumStore:
        view = RecordedChecksumStore(store, {})
        view.recorded, view._tables = self.recorded, self._tables
        return view

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the content of an object, which is compared and not copied."""
        stored = await self._store.get(key, prototype, byte_range)
        if stored is not None and byte_range is None:
            self._check(key, stored.as_numpy_array()[-CHECKSUM_BYTES:].tobytes())
        return stored

    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        if is_chunk(key):
            self.recorded[key] = int.from_bytes(parts[-1][-CHECKSUM_BYTES:], "little")
        return list(parts)

    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        self._check(key, stored[-CHECKSUM_BYTES:])
        return stored

    def _check(self, key: str, end: bytes | memoryview) -> None:
        if is_chunk(key):
            expected = self._expected(key)
            if expected is not None and int.from_bytes(end, "little") != expected:
                raise damaged_chunk(self.location / key)

    def _expected(self, key: str) -> int | None:
        array, _, index = key.partition("/c/")
        if array in self._tables:
            return int(self._tables[array][tuple(map(int, index.split("/")))])
        return self.recorded.get(key)


class KeyedChecksumStore(EncodingStore):
    """Zarr store that ends every chunk with a CRC-32C of its content and its key.

    Parameters
    ----------
    store
        Inner store, which holds the chunks.
    """

    def _with_store(self, store: BaseStore) -> KeyedChecksumStore:
        return KeyedChecksumStore(store)

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
