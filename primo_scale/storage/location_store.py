"""What this project asks of a Zarr store beyond what Zarr asks of it, wherever the store lies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from zarr.abc.store import Store

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.storage.locations import Location

HEADER = "zarr.json"
"""Key of the unencrypted metadata document of a store, and name of those of its arrays."""
_WRITE_AGAIN = "Remove the store and run the same command again"


class LocationStore(Store):
    """A Zarr store that knows its place; reading a chunk that is not there is an error.

    Zarr reads a missing chunk as the fill value, which in a sum is a silently wrong number.
    Keys are those of Zarr: ``gram/0/c/1/2``.
    """

    @property
    @abstractmethod
    def location(self) -> Location:
        """Where it lies."""

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Whether something whole has this name."""

    @abstractmethod
    def all_keys(self) -> Iterator[str]:
        """Every name there is, in any order."""

    @abstractmethod
    def read(self, key: str) -> bytes | memoryview:
        """The bytes under a name that is there."""

    @abstractmethod
    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Give these bytes, one part after the other, a name, in place of what has it."""

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Give `content` a name if nothing has it: of many who try at once one gets True."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Take away what has this name, if anything has."""

    @abstractmethod
    def remove_below(self, prefix: str) -> None:
        """Take away everything below a prefix; below ``""``, everything."""

    @abstractmethod
    def flush(self, prefix: str) -> None:
        """Make what is at or below a prefix survive a loss of power."""

    @abstractmethod
    def close_to_others(self) -> None:
        """Let nobody but the owner in, where the place leaves that to us."""

    @abstractmethod
    def for_commits(self) -> LocationStore:
        """The same store, in which a chunk keeps what was first written whole."""


def is_chunk(key: str) -> bool:
    """Whether a key of a Zarr format 3 store is that of a chunk."""
    return "/c/" in key


def no_conditional_put(where: Location) -> InputError:
    """A service that cannot let one of many through."""
    return InputError(
        "the object store lacks conditional put, without which nothing can be committed",
        where=str(where),
        remedy="Use a service with If-None-Match",
    )


def missing_chunk(where: Location) -> DamagedChunk:
    """Return the error of a chunk that is not there."""
    return DamagedChunk("a stored chunk is missing", where=str(where), remedy=_WRITE_AGAIN)


def damaged_chunk(where: Location) -> DamagedChunk:
    """Return the error of a chunk that is torn, changed, or another one in its place."""
    return DamagedChunk("a stored chunk is damaged", where=str(where), remedy=_WRITE_AGAIN)
