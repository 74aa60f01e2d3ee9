"""Stores that keep objects in another form than they give them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from zarr.storage import WrapperStore

from primo_scale.storage.location_store import LocationStore
from primo_scale.storage.locations import Location

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype


class ViewStore(WrapperStore[LocationStore], LocationStore):
    """Zarr store over another one that translates every object on its way in and out.

    Parameters
    ----------
    store
        Store that holds the objects.
    """

    @abstractmethod
    def _stored(self, key: str, parts: Sequence[memoryview]) -> list[memoryview]:
        """Return what is stored of the content of an object."""

    @abstractmethod
    def _given(self, key: str, stored: bytes | memoryview) -> bytes | memoryview:
        """Return the content of an object, of what is stored of it."""

    @abstractmethod
    def _with_store(self, store: LocationStore) -> Self:
        """Return the same view of another store."""

    # What Zarr asks. All that carries content is here: nothing of it is left to the wrapper.
    # Threads translate, since Zarr has one event loop for all of them.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the content of an object, which is read whole or not at all."""
        if byte_range is not None:
            raise ValueError("objects of a view are read whole")
        stored = await self._store.get(key, prototype)
        if stored is None:
            return None
        given = await asyncio.to_thread(self._given, key, _bytes_of(stored))
        return prototype.buffer.from_bytes(given)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return the contents of several objects."""
        asked = list(key_ranges)
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in asked))

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def set(self, key: str, value: Buffer) -> None:
        """Store an object, in place of what has its name."""
        await self._store.set(key, await asyncio.to_thread(self._stored_buffer, key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store an object if nothing has its name."""
        stored = await asyncio.to_thread(self._stored_buffer, key, value)
        await self._store.set_if_not_exists(key, stored)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    # What this project asks.

    @property
    def location(self) -> Location:
        """Where the store lies."""
        return self._store.location

    def holds(self, key: str) -> bool:
        """Return whether there is such an object."""
        return self._store.holds(key)

    def all_keys(self) -> Iterator[str]:
        """Return every key; a view hides none."""
        return self._store.all_keys()

    def read(self, key: str) -> bytes | memoryview:
        """Return the content of an object that is there."""
        return self._given(key, self._store.read(key))

    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Store an object, in place of what has its name."""
        self._store.write(key, self._stored(key, parts))

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Store an object if nothing has its name."""
        return self._store.put_if_absent(key, b"".join(self._stored(key, [memoryview(content)])))

    def remove(self, key: str) -> None:
        """Delete an object."""
        self._store.remove(key)

    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        self._store.remove_below(prefix)

    def flush(self, prefix: str) -> None:
        """Make what is at or below a prefix survive a loss of power."""
        self._store.flush(prefix)

    def close_to_others(self) -> None:
        """Deny access to everybody but the owner."""
        self._store.close_to_others()

    def for_commits(self) -> Self:
        """Return the same view, in which a chunk keeps what was first written whole."""
        return self._with_store(self._store.for_commits())

    def _stored_buffer(self, key: str, value: Buffer) -> Buffer:
        return value.from_bytes(b"".join(self._stored(key, [_bytes_of(value)])))


def _bytes_of(data: Buffer) -> memoryview:
    whole: Any = np.ascontiguousarray(data.as_numpy_array())
    return memoryview(whole).cast("B")
