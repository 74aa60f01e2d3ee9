"""A store under a key: every object in it is encrypted, as what it is called (`encryption`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.storage import WrapperStore

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.encryption import Sealing
from primo_scale.storage.place_store import PlaceStore, is_chunk
from primo_scale.storage.places import Place

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

HEADER = "zarr.json"
"""Key of what a store says of itself, its encryption included: what is in the clear."""


class SealedStore(WrapperStore[PlaceStore], PlaceStore):
    """What is written to a store is sealed, and what is read opened; see `PlaceStore`.

    An object opens only under its own key in its own store, so that none can stand in for another.

    Parameters
    ----------
    store
        Where the sealed objects lie.
    sealing
        Key and name of the store.
    """

    def __init__(self, store: PlaceStore, sealing: Sealing) -> None:
        super().__init__(store)
        self.sealing = sealing

    def _with_store(self, store: PlaceStore) -> SealedStore:
        return SealedStore(store, self.sealing)

    # What Zarr asks. All that carries content is here: nothing of it is left to the wrapper.
    # Threads seal and open, since Zarr has one event loop for all of them.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Content of an object, which is read whole or not at all."""
        if byte_range is not None:
            raise ValueError("of a sealed object no part can be read")
        sealed = await self._store.get(key, prototype)
        if sealed is None or key == HEADER:
            return sealed
        opened = await asyncio.to_thread(self._opened, key, _bytes_of(sealed))
        return prototype.buffer.from_bytes(opened)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Contents of several objects."""
        asked = list(key_ranges)
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in asked))

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def set(self, key: str, value: Buffer) -> None:
        """Seal an object, in place of what has its name."""
        sealed = await asyncio.to_thread(self._sealed_buffer, key, value)
        await self._store.set(key, sealed)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Seal an object if nothing has its name."""
        sealed = await asyncio.to_thread(self._sealed_buffer, key, value)
        await self._store.set_if_not_exists(key, sealed)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    # What this project asks.

    @property
    def place(self) -> Place:
        """Where it lies."""
        return self._store.place

    def holds(self, key: str) -> bool:
        """Whether there is such an object."""
        return self._store.holds(key)

    def all_keys(self) -> Iterator[str]:
        """Every key, which none is hidden of."""
        return self._store.all_keys()

    def read(self, key: str) -> bytes:
        """Content of an object that is there."""
        content = self._store.read(key)
        return content if key == HEADER else self._opened(key, content)

    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Seal an object, in place of what has its name."""
        self._store.write(key, [memoryview(self._sealed(key, b"".join(parts)))])

    def put_if_absent(self, key: str, content: bytes) -> bool:
        """Seal an object if nothing has its name."""
        return self._store.put_if_absent(key, self._sealed(key, content))

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
        """Let nobody but the owner in."""
        self._store.close_to_others()

    def for_commits(self) -> SealedStore:
        """The same store, in which a chunk keeps what was first written whole."""
        return SealedStore(self._store.for_commits(), self.sealing)

    def _sealed(self, key: str, content: bytes | memoryview) -> bytes:
        return bytes(content) if key == HEADER else self.sealing.seal(content, key)

    def _sealed_buffer(self, key: str, value: Buffer) -> Buffer:
        return value if key == HEADER else value.from_bytes(self._sealed(key, _bytes_of(value)))

    def _opened(self, key: str, sealed: bytes | memoryview) -> bytes:
        try:
            return self.sealing.open(sealed, key)
        except ValueError as error:
            kind = DamagedChunk if is_chunk(key) else InputError
            raise kind(
                "a stored chunk is damaged" if is_chunk(key) else "the store is damaged",
                where=str(self.place / key),
                remedy="Remove the store and run the same command again",
            ) from error


def _bytes_of(data: Buffer) -> memoryview:
    whole: Any = np.ascontiguousarray(data.as_numpy_array())
    return memoryview(whole).cast("B")
