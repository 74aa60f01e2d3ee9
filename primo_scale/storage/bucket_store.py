"""Zarr store below a prefix of a bucket, through obstore (the extra ``primo_scale[s3]``).

All retries of requests are here, and so are the errors after the last one. The retries of obstore
(0.12) are not sufficient: they repeat neither a conditional put or a deletion after a timeout nor a
truncated listing, and they repeat an unsupported request (HTTP 501). Each process takes its
credentials from its environment, under the names that S3 tools share (docs/object_storage.md). A
`BucketStore` cannot be pickled, so that credentials stay in the process. Error messages do not
repeat the service's text, which may contain parts of a signed request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import ObjectStore, WrapperStore

from primo_scale.errors import InputError, InterruptedRun, UsageError
from primo_scale.storage.base_store import BaseStore, is_chunk, missing_chunk, no_conditional_put
from primo_scale.storage.locations import ObjectUrl

if TYPE_CHECKING:
    import obstore.store
    from zarr.core.common import BytesLike

_Result = TypeVar("_Result")

_STATUS = re.compile(r"status code: ([34]\d\d|501)")
_WORTH_ANOTHER_ATTEMPT = ("408", "409", "425", "429")

LOGGER = logging.getLogger("primo_scale")


@dataclass(frozen=True)
class Patience:
    """Limits on attempts, pauses and waiting times of requests; times are in seconds.

    Pauses double; each is shortened at random by up to a half, so that many workers do not try
    again at the same time.
    """

    attempts: int = 10
    first_pause_s: float = 0.2
    longest_pause_s: float = 15.0
    connect_s: float = 10.0
    answer_s: float = 120.0  # of one attempt, connecting included

    def pauses(self) -> Iterator[float]:
        """Yield the pause after each attempt but the last, in seconds: 28 to 55 s in all."""
        for attempt in range(self.attempts - 1):
            longest = min(self.longest_pause_s, self.first_pause_s * 2**attempt)
            yield longest * random.uniform(0.5, 1.0)


PATIENCE = Patience()


class BucketStore(BaseStore, WrapperStore[ObjectStore[Any]]):
    """Zarr store below a prefix of a bucket.

    An object is visible only when it is complete: services publish a PUT at its end or not at all.
    An acknowledged object is durable.
    """

    def __init__(self, store: ObjectStore[Any], location: ObjectUrl) -> None:
        super().__init__(store)
        self._location = location

    def _with_store(self, store: ObjectStore[Any]) -> BucketStore:
        return type(self)(store, self._location)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a store with credentials cannot be pickled: send its location")

    @property
    def location(self) -> ObjectUrl:
        """URL of the prefix."""
        return self._location

    # Methods that Zarr calls.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the content of an object, or None for missing metadata."""
        content = await self._patiently(lambda: self._store.get(key, prototype, byte_range))
        if content is None and is_chunk(key):
            raise missing_chunk(self._location / key)
        return content

    async def set(self, key: str, value: Buffer) -> None:
        """Write or replace an object."""
        await self._patiently(lambda: self._store.set(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object unless its key exists."""
        await self._create(key, value.as_buffer_like())

    async def exists(self, key: str) -> bool:
        """Return whether the object exists."""
        return await self._patiently(lambda: self._store.exists(key))

    async def delete(self, key: str) -> None:
        """Delete an object."""
        await self._patiently(lambda: self._store.delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Delete every object below a prefix, with as few requests as the service allows."""
        import obstore

        keys = await self._listed(prefix)
        if keys:
            await self._patiently(lambda: obstore.delete_async(self._store.store, keys))

    # Methods that this project calls.

    def holds(self, key: str) -> bool:
        """Return whether the object exists."""
        return bool(sync(self.exists(key)))

    def all_keys(self) -> Iterator[str]:
        """Yield every key."""
        yield from sync(self._listed(""))

    def read(self, key: str) -> bytes:
        """Return the content of an existing object."""
        content = sync(self.get(key, default_buffer_prototype()))
        if content is None:
            raise FileNotFoundError(str(self._location / key))
        return bytes(content.to_bytes())

    def write(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write or replace an object."""
        content = default_buffer_prototype().buffer.from_bytes(b"".join(parts))
        sync(self.set(key, content))

    def commit(self, key: str, parts: Sequence[memoryview]) -> None:
        """Write an object, which keeps the content of the first writer."""
        self.put_if_absent(key, b"".join(parts))

    def put_if_absent(self, key: str, content: bytes | memoryview) -> bool:
        """Write an object with a conditional put, which one of several concurrent callers wins."""
        return bool(sync(self._create(key, content)))

    def remove(self, key: str) -> None:
        """Delete an object."""
        sync(self.delete(key))

    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        sync(self.delete_dir(prefix))

    def flush(self, prefix: str) -> None:
        """Do nothing: acknowledged objects are durable."""

    async def _create(self, key: str, content: BytesLike) -> bool:
        return await self._patiently(lambda: self._create_once(key, content))

    async def _create_once(self, key: str, content: BytesLike) -> bool:
        import obstore

        try:
            await obstore.put_async(self._store.store, key, content, mode="create")
        except obstore.exceptions.AlreadyExistsError:
            # Services answer the same (409) while another upload is unfinished and may yet fail,
            # and to the repetition of our own upload whose acknowledgement was lost.
            if not await self._store.exists(key):
                raise _UploadPending from None
            return False
        return True

    async def _listed(self, prefix: str) -> list[str]:
        async def attempt() -> list[str]:
            return [key async for key in self._store.list_prefix(prefix)]

        return await self._patiently(attempt)

    async def _patiently(self, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
        """Return the result of a request, which is repeated if it fails: all are idempotent.

        Raises an InputError if the service refuses the request, and an InterruptedRun if no attempt
        got a usable answer.
        """
        from obstore.exceptions import BaseError

        pauses = PATIENCE.pauses()
        while True:
            try:
                return await attempt()
            except (BaseError, FileNotFoundError, _UploadPending) as error:
                refusal = self._refusal(error)
                pause = next(pauses, None)
            if refusal is not None:
                raise refusal
            if pause is None:
                raise InterruptedRun(
                    "the object store gave no usable answer",
                    where=str(self._location),
                    value=f"{PATIENCE.attempts} attempts",
                    remedy="Check the endpoint and the network. The same command continues the run",
                )
            LOGGER.debug("%s: no usable answer, next attempt in %.1f s", self._location, pause)
            await asyncio.sleep(pause)

    def _refusal(self, error: Exception) -> InputError | None:
        """Return the error of a request that the service refuses, or None if it may be repeated."""
        from obstore import exceptions

        status, value = _status(str(error)), None
        environment = "the environment (docs/object_storage.md)"
        if isinstance(error, exceptions.UnauthenticatedError):
            what = "the object store does not accept the credentials"
            remedy = f"Check the credentials in {environment}"
        elif isinstance(error, exceptions.PermissionDeniedError):
            what = "the object store refuses access"
            remedy = f"Check the credentials and their permissions in {environment}"
        elif isinstance(error, FileNotFoundError):
            what, remedy = "the bucket does not exist", "Create it, or correct the URL"
        elif isinstance(error, exceptions.NotSupportedError) or status == "501":
            return no_conditional_put(self._location)
        elif status is None or status in _WORTH_ANOTHER_ATTEMPT or "RequestTimeout" in str(error):
            return None
        else:
            what, value = "the object store refuses the request", f"HTTP {status}"
            remedy = (
                f"Check that the bucket exists, and the region and the endpoint in {environment}"
            )
        return InputError(what, where=str(self._location), value=value, remedy=remedy)


class _UploadPending(Exception):
    """Conditional put whose outcome is not known yet; `BucketStore` catches it."""


def _status(message: str) -> str | None:
    """Return the HTTP status in an obstore message: 3xx, 4xx or 501, else None."""
    if "redirect without LOCATION" in message:  # the answer for a bucket of another region
        return "301"
    found = _STATUS.search(message)
    return None if found is None else found[1]


@lru_cache(maxsize=64)
def open_bucket(location: ObjectUrl) -> BucketStore:
    """Return the store at a URL without any request; the process keeps its connections."""
    return BucketStore(ObjectStore(_upstream(location)), location)


def _upstream(location: ObjectUrl) -> obstore.store.ObjectStore:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise InputError(
            "object stores need the extra s3",
            where=str(location),
            remedy="pip install obstore, here and where the workers run",
        ) from None
    allow_http = _http_allowed(location)
    try:
        return from_url(
            str(location),
            client_options={
                "allow_http": allow_http,  # takes precedence over the environment
                "connect_timeout": f"{PATIENCE.connect_s:g}s",
                "timeout": f"{PATIENCE.answer_s:g}s",
            },
            # `BucketStore._patiently` alone repeats requests.
            retry_config={"max_retries": 0},
        )
    except (BaseError, ValueError):
        raise UsageError(
            "the environment variables do not configure access to this location",
            where=str(location),
            remedy="See docs/object_storage.md for the variables",
        ) from None


def _http_allowed(location: ObjectUrl) -> bool:
    """Return whether requests without TLS are allowed; refuse an endpoint without TLS if not.

    A typing error in its URL must not send genotypes over a network unencrypted.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    if location.scheme == "s3" and endpoint.startswith("http://") and not allowed:
        raise UsageError(
            "the endpoint has no TLS, so that genotypes would cross the network unencrypted",
            where="AWS_ENDPOINT_URL",
            remedy="Use https://, or set AWS_ALLOW_HTTP=true if the network is private",
        )
    return allowed
