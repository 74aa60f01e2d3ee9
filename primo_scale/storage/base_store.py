"""Abstract base class of the Zarr stores of this project, and the errors that all of them raise."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from zarr.abc.store import Store

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.locations import Location

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

HEADER = "zarr.json"
"""Key of a store's unencrypted metadata document, and file name of each array's metadata."""
_WRITE_AGAIN = "Remove the store and run the same command again"


class BaseStore(Store):
    """Zarr store that knows its location and gives synchronous access to its objects.

    Reading a missing chunk is an error. Zarr itself would read the fill value, which makes a sum
    silently wrong. Keys are those of Zarr, such as ``gram/0/c/1/2``.
    """

    @property
    @abstractmethod
    def location(self) -> Location:
        """Location of the store."""

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Return whether a complete object has this key."""

    @abstractmethod
    def all_keys(self) -> Iterator[str]:
        """Return the keys of all objects, in any order."""

    @abstractmethod
    def read(self, key: str) -> bytes | memoryview:
        """Return the content of an object.

        A missing chunk raises `DamagedChunk`, and another missing object FileNotFoundError.
        """

    @abstractmethod
    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write the concatenated parts as one object; an object with the same key is replaced."""

    def commit(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write as `write` does, where several workers may write the same content."""
        self.write(key, parts)

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write an object unless its key exists, and return whether it was written.

        Of several concurrent callers exactly one gets True.
        """

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete an object, if it exists."""

    @abstractmethod
    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix; ``""`` means all objects."""

    @abstractmethod
    def flush(self, prefix: str) -> None:
        """Make the objects at or below a prefix survive a power failure."""

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return (parts of) the contents of several objects."""
        requests = list(key_ranges)
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in requests))


def is_chunk(key: str) -> bool:
    """Return whether a key of a Zarr format 3 store is that of a chunk."""
    return "/c/" in key


def no_conditional_put(where: Location) -> InputError:
    """Return the error of an object store without conditional writes."""
    return InputError(
        "the object store does not support conditional put, which commits need",
        where=str(where),
        remedy="Use a service with If-None-Match",
    )


def damaged_store(where: Location) -> InputError:
    """Return the error of a damaged metadata document."""
    return InputError("the store is damaged", where=str(where), remedy=_WRITE_AGAIN)


def missing_chunk(where: Location) -> DamagedChunk:
    """Return the error of a missing chunk."""
    return DamagedChunk("a stored chunk is missing", where=str(where), remedy=_WRITE_AGAIN)


def damaged_chunk(where: Location) -> DamagedChunk:
    """Return the error of a chunk that is incomplete, changed or exchanged for another one."""
    return DamagedChunk("a stored chunk is damaged", where=str(where), remedy=_WRITE_AGAIN)
