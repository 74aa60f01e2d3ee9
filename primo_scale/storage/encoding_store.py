"""Base class of Zarr stores that encode objects before another store holds them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from zarr.storage import WrapperStore

from primo_scale.storage.base_store import BaseStore
from primo_scale.storage.locations import Location

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype


class EncodingStore(BaseStore, WrapperStore[BaseStore]):
    """Zarr store that encodes every object before an inner store holds it.

    Parameters
    ----------
    store
        Inner store, which holds the encoded objects.
    """

    @abstractmethod
    def _encode(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        """Return the encoded content of an object, in parts."""

    @abstractmethod
    def _decode(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        """Return the content of an object from its encoded content.

        Raises
        ------
        DamagedChunk, InputError
            The encoded content is damaged.
        """

    @abstractmethod
    def _with_store(self, store: BaseStore) -> Self:
        """Return a store that encodes in the same way for another inner store."""

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

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def set(self, key: str, value: Buffer) -> None:
        """Write or replace an object."""
        await self._store.set(key, await asyncio.to_thread(self._encoded_buffer, key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object unless its key exists."""
        stored = await asyncio.to_thread(self._encoded_buffer, key, value)
        await self._store.set_if_not_exists(key, stored)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

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

    def close_to_others(self) -> None:
        """Deny access to everybody but the owner."""
        self._store.close_to_others()

    def for_commits(self) -> Self:
        """Return the same store for commits: see `BaseStore.for_commits`."""
        return self._with_store(self._store.for_commits())

    def _encoded_buffer(self, key: str, value: Buffer) -> Buffer:
        return value.from_bytes(b"".join(self._encode(key, [_bytes_of(value)])))


def _bytes_of(data: Buffer) -> memoryview:
    whole: Any = np.ascontiguousarray(data.as_numpy_array())
    return memoryview(whole).cast("B")
