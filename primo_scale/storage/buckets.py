"""A prefix of a bucket as a Zarr store, over obstore (the extra ``primo_scale[s3]``).

Here alone is decided how long a service that does not answer is waited for, and what is said when
it never does. Credentials come from the environment of each process, by the names that every tool
for S3 reads (docs/object_storage.md); a `BucketStore` is never pickled, so they do not travel, and
no message of the service is repeated, since some hold parts of what was signed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import ObjectStore, WrapperStore

from primo_scale.errors import InputError, InterruptedRun, UsageError
from primo_scale.storage.location_store import (
    LocationStore,
    is_chunk,
    missing_chunk,
    no_conditional_put,
)
from primo_scale.storage.locations import ObjectUrl

if TYPE_CHECKING:
    import obstore.store
    from zarr.core.common import BytesLike

_Result = TypeVar("_Result")

_STATUS = re.compile(r"status code: ([34]\d\d|501)")
_WORTH_ANOTHER_ATTEMPT = ("408", "409", "425", "429")

logger = logging.getLogger("primo_scale")


@dataclass(frozen=True)
class Patience:
    """How long a service is waited for.

    Attributes
    ----------
    attempts
        Of each request.
    first_pause_s, longest_pause_s
        Pauses between attempts: they double, each shortened at random by up to a half, so that
        many workers do not come back together.
    connect_s, answer_s
        What one attempt may take to connect, and in all.
    """

    attempts: int = 10
    first_pause_s: float = 0.2
    longest_pause_s: float = 15.0
    connect_s: float = 10.0
    answer_s: float = 120.0

    def pauses(self) -> Iterator[float]:
        """Seconds to wait after each attempt but the last, 28 to 55 in all."""
        for attempt in range(self.attempts - 1):
            longest = min(self.longest_pause_s, self.first_pause_s * 2**attempt)
            yield longest * random.uniform(0.5, 1.0)


PATIENCE = Patience()


class BucketStore(WrapperStore[ObjectStore[Any]], LocationStore):
    """The objects below a prefix, see `LocationStore`.

    An object is there when it is whole: services publish a PUT at its end or not at all. Once it
    was acknowledged it is durable.
    """

    def __init__(self, store: ObjectStore[Any], place: ObjectUrl) -> None:
        super().__init__(store)
        self._place = place

    def _with_store(self, store: ObjectStore[Any]) -> BucketStore:
        return type(self)(store, self._place)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a store with credentials does not travel: send its place")

    @property
    def location(self) -> ObjectUrl:
        """Its URL."""
        return self._place

    # What Zarr asks.

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Bytes of an object; for metadata that is not there None."""
        content = await self._patiently(lambda: self._store.get(key, prototype, byte_range))
        if content is None and is_chunk(key):
            raise missing_chunk(self._place / key)
        return content

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Bytes of several objects."""
        asked = list(key_ranges)
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in asked))

    async def set(self, key: str, value: Buffer) -> None:
        """Write an object, in place of what has its name."""
        await self._patiently(lambda: self._store.set(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object if nothing has its name."""
        await self._create(key, value.as_buffer_like())

    async def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        return await self._patiently(lambda: self._store.exists(key))

    async def delete(self, key: str) -> None:
        """Delete an object."""
        await self._patiently(lambda: self._store.delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Delete every object below a prefix, as many in a request as the service takes."""
        import obstore

        keys = await self._listed(prefix)
        if keys:
            await self._patiently(lambda: obstore.delete_async(self._store.store, keys))

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing below a prefix."""
        return not await self._listed(prefix)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key below a prefix."""
        for key in await self._listed(prefix):
            yield key

    # What this project asks.

    def holds(self, key: str) -> bool:
        """Whether there is such an object."""
        return bool(sync(self.exists(key)))

    def all_keys(self) -> Iterator[str]:
        """Every key."""
        yield from sync(self._listed(""))

    def read(self, key: str) -> bytes:
        """Content of an object that is there."""
        content = sync(self.get(key, default_buffer_prototype()))
        if content is None:
            raise missing_chunk(self._place / key)
        return bytes(content.to_bytes())

    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write an object, in place of what has its name."""
        content = default_buffer_prototype().buffer.from_bytes(b"".join(parts))
        sync(self.set(key, content))

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Conditional put: of many who try at once, the service lets one through."""
        return bool(sync(self._create(key, content)))

    def remove(self, key: str) -> None:
        """Delete an object."""
        sync(self.delete(key))

    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        sync(self.delete_dir(prefix))

    def flush(self, prefix: str) -> None:
        """Nothing: what was acknowledged is durable."""

    def close_to_others(self) -> None:
        """Nothing: objects are private unless the bucket's owner says otherwise."""

    def for_commits(self) -> BucketStore:
        """The same prefix, in which an object keeps its first content."""
        return _FirstContentStays(self._store, self._place)

    async def _create(self, key: str, content: BytesLike) -> bool:
        return await self._patiently(lambda: self._create_once(key, content))

    async def _create_once(self, key: str, content: BytesLike) -> bool:
        import obstore

        try:
            await obstore.put_async(self._store.store, key, content, mode="create")
        except obstore.exceptions.AlreadyExistsError:
            # Also what a service says of an upload still under way (409), whose end is not known,
            # and of our own whose answer was lost.
            if not await self._store.exists(key):
                raise _NotYetDecided from None
            return False
        return True

    async def _listed(self, prefix: str) -> list[str]:
        async def attempt() -> list[str]:
            return [key async for key in self._store.list_prefix(prefix)]

        return await self._patiently(attempt)

    async def _patiently(self, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
        """The result of a request, which may be made again: all are idempotent.

        Raises
        ------
        InputError
            The service refuses: no permission, no bucket, or a request that it does not know.
        InterruptedRun
            It gave no usable answer to any attempt.
        """
        from obstore.exceptions import BaseError

        pauses = PATIENCE.pauses()
        while True:
            try:
                return await attempt()
            except (BaseError, FileNotFoundError, _NotYetDecided) as error:
                refusal = self._refusal(error)
                pause = next(pauses, None)
            if refusal is not None:
                raise refusal
            if pause is None:
                raise InterruptedRun(
                    "the object store gave no usable answer",
                    where=str(self._place),
                    value=f"{PATIENCE.attempts} attempts",
                    remedy="Check the endpoint and the network, then run the same command again, "
                    "which continues",
                )
            logger.debug("%s: no usable answer, asking again in %.1f s", self._place, pause)
            await asyncio.sleep(pause)

    def _refusal(self, error: Exception) -> InputError | None:
        """What no further attempt would change."""
        from obstore import exceptions

        refusals: tuple[tuple[type[Exception], str, str], ...] = (
            (
                exceptions.UnauthenticatedError,
                "the object store does not accept the credentials",
                "Check the credentials in the environment (docs/object_storage.md)",
            ),
            (
                exceptions.PermissionDeniedError,
                "the object store refuses access",
                "Check the credentials in the environment and what they may do "
                "(docs/object_storage.md)",
            ),
            (FileNotFoundError, "there is no such bucket", "Create it, or correct the URL"),
        )
        for kind, what, remedy in refusals:
            if isinstance(error, kind):
                return InputError(what, where=str(self._place), remedy=remedy)
        status = _status(str(error))
        if isinstance(error, exceptions.NotSupportedError) or status == "501":
            return no_conditional_put(self._place)
        if status is None or status in _WORTH_ANOTHER_ATTEMPT or "RequestTimeout" in str(error):
            return None
        return InputError(
            "the object store refuses the request",
            where=str(self._place),
            value=f"HTTP {status}",
            remedy="Check that the bucket is there, and region and endpoint in the environment "
            "(docs/object_storage.md)",
        )


class _FirstContentStays(BucketStore):
    async def set(self, key: str, value: Buffer) -> None:
        await self.set_if_not_exists(key, value)


class _NotYetDecided(Exception):
    """An answer to ask again for; never seen outside."""


def _status(message: str) -> str | None:
    """The HTTP status that obstore says it got, where that is not one of a busy service."""
    if "redirect without LOCATION" in message:  # how a bucket of another region answers
        return "301"
    found = _STATUS.search(message)
    return None if found is None else found[1]


@lru_cache(maxsize=64)
def open_bucket(place: ObjectUrl) -> BucketStore:
    """The store at a URL, with connections that this process keeps; reads and writes nothing.

    Raises
    ------
    InputError
        obstore is not installed.
    UsageError
        An endpoint without TLS that was not allowed, or settings that obstore refuses.
    """
    return BucketStore(ObjectStore(_upstream(place)), place)


def _upstream(place: ObjectUrl) -> obstore.store.ObjectStore:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise InputError(
            "object stores need the extra s3",
            where=str(place),
            remedy="pip install 'primo_scale[s3]', here and where the workers run",
        ) from None
    allow_http = _may_go_in_clear(place)
    try:
        return from_url(
            str(place),
            client_options={
                "allow_http": allow_http,  # given here, it is not read from the environment
                "connect_timeout": f"{PATIENCE.connect_s:g}s",
                "timeout": f"{PATIENCE.answer_s:g}s",
            },
            # Attempts are counted in one place: `BucketStore._patiently`.
            retry_config={"max_retries": 0},
        )
    except (BaseError, ValueError):
        raise UsageError(
            "the environment does not say how to reach this place",
            where=str(place),
            remedy="See docs/object_storage.md for the variables",
        ) from None


def _may_go_in_clear(place: ObjectUrl) -> bool:
    """Whether requests without TLS are allowed; refused where only that would reach the endpoint.

    Genotypes do not cross a network in clear because of a typing error.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    if place.scheme == "s3" and endpoint.startswith("http://") and not allowed:
        raise UsageError(
            "the endpoint has no TLS, so that genotypes would cross the network in clear",
            where="AWS_ENDPOINT_URL",
            remedy="Use https://, or set AWS_ALLOW_HTTP=true for a network of your own",
        )
    return allowed
