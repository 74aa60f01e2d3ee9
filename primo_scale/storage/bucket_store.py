"""Store below a prefix of a bucket, through obstore (the extra ``primo_scale[s3]``).

All retries of requests are here, and so are the errors after the last one. The retries of obstore
(0.12) are not sufficient: they repeat neither a conditional put or a deletion after a timeout nor a
truncated listing, and they repeat an unsupported request (HTTP 501). Each process takes its
credentials from its environment, under the names that S3 tools share (docs/object_storage.md). A
`BucketStore` cannot be pickled, so that credentials stay in the process. Error messages do not
repeat the service's text, which may contain parts of a signed request.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

import obstore
from obstore import exceptions
from obstore.store import from_url

from primo_scale.errors import InputError, InterruptedRun, UsageError
from primo_scale.storage import files, locations, stores

_Result = TypeVar("_Result")

_STATUS = re.compile(r"status code: ([34]\d\d|501)")
_WORTH_ANOTHER_ATTEMPT = (None, "408", "409", "425", "429")
_ENVIRONMENT = "the environment (docs/object_storage.md)"


ATTEMPTS = 10
# Pauses double; each is shortened at random by up to a half, so that many workers do not try again
# at the same time. They take 28 to 55 s in all.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 15.0
CONNECT_S, ANSWER_S = 10.0, 120.0  # of one attempt; the second includes connecting


class BucketStore(stores.BaseStore):
    """Store below a prefix of a bucket.

    An object is visible only when it is complete: services publish a PUT at its end or not at all.
    An acknowledged object is durable.
    """

    location: locations.ObjectUrl

    def __init__(self, location: locations.Location) -> None:
        super().__init__(location)
        self._bucket = open_bucket(self.location)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a store with credentials cannot be pickled: send its location")

    def holds(self, key: str) -> bool:
        """Return whether the object exists."""
        return self._patiently(lambda: self._exists(key))

    def all_keys(self, prefix: str = "") -> Iterator[str]:
        """Return the keys of all objects, or of those below a prefix."""
        listed = self._patiently(lambda: list(obstore.list(self._bucket, prefix or None)))
        return (found["path"] for batch in listed for found in batch)

    def commit(self, key: str, parts: stores.Parts) -> None:
        """Write an object, which keeps the content of the first writer."""
        self.put_if_absent(key, b"".join(parts))

    def remove(self, key: str) -> None:
        """Delete an object, if it exists."""
        self._delete([key])

    def remove_below(self, prefix: str) -> None:
        """Delete every object below a prefix, with as few requests as the service allows."""
        self._delete(list(self.all_keys(prefix)))

    def flush(self, prefix: str) -> None:
        """Do nothing: acknowledged objects are durable."""

    def _load(self, key: str) -> bytes:
        content = self._patiently(lambda: self._get(key))
        if content is None:
            raise FileNotFoundError(str(self.location / key))
        return content

    def _get(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._bucket, key).bytes())
        except FileNotFoundError:
            return None

    def _save(self, key: str, parts: stores.Parts) -> None:
        self._patiently(lambda: obstore.put(self._bucket, key, b"".join(parts)))

    def _create(self, key: str, content: bytes) -> bool:
        """Write an object with a conditional put, which one of several concurrent callers wins."""

        def attempt() -> bool:
            try:
                obstore.put(self._bucket, key, content, mode="create")
            except exceptions.AlreadyExistsError:
                # Services answer the same (409) while another upload is unfinished and may yet
                # fail, and to the repetition of our own upload whose acknowledgement was lost.
                if not self._exists(key):
                    raise exceptions.GenericError from None
                return False
            return True

        return self._patiently(attempt)

    def _exists(self, key: str) -> bool:
        try:
            obstore.head(self._bucket, key)
        except FileNotFoundError:
            return False
        return True

    def _delete(self, keys: list[str]) -> None:
        if keys:
            self._patiently(lambda: obstore.delete(self._bucket, keys))

    def _patiently(self, attempt: Callable[[], _Result]) -> _Result:
        """Return the result of a request, which is repeated if it fails: all are idempotent.

        Raises an InputError if the service refuses the request, and an InterruptedRun if no attempt
        got a usable answer.
        """
        for tried in range(1, ATTEMPTS + 1):
            try:
                return attempt()
            except (exceptions.BaseError, FileNotFoundError) as error:
                refusal = _refusal(error, self.location)
            if refusal is not None:
                raise refusal
            if tried < ATTEMPTS:
                longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (tried - 1))
                files.LOGGER.debug("%s: no usable answer to attempt %d", self.location, tried)
                time.sleep(longest * random.uniform(0.5, 1.0))
        raise InterruptedRun(
            "the object store gave no usable answer",
            where=str(self.location),
            value=f"{ATTEMPTS} attempts",
            remedy="Check the endpoint and the network. The same command continues the run",
        )


def _refusal(error: Exception, location: locations.ObjectUrl) -> InputError | None:
    """Return the error of a request that the service refuses, or None if it may be repeated."""
    found = _STATUS.search(str(error))
    status, value = found[1] if found else None, None
    if "redirect without LOCATION" in str(error):  # the answer for a bucket of another region
        status = "301"
    if isinstance(error, exceptions.UnauthenticatedError):
        what = "the object store does not accept the credentials"
        remedy = f"Check the credentials in {_ENVIRONMENT}"
    elif isinstance(error, exceptions.PermissionDeniedError):
        what = "the object store refuses access"
        remedy = f"Check the credentials and their permissions in {_ENVIRONMENT}"
    elif isinstance(error, FileNotFoundError):
        what, remedy = "the bucket does not exist", "Create it, or correct the URL"
    elif isinstance(error, exceptions.NotSupportedError) or status == "501":
        return stores.no_conditional_put(location)
    elif status in _WORTH_ANOTHER_ATTEMPT or "RequestTimeout" in str(error):
        return None
    else:
        what, value = "the object store refuses the request", f"HTTP {status}"
        remedy = f"Check that the bucket exists, and the region and the endpoint in {_ENVIRONMENT}"
    return InputError(what, where=str(location), value=value, remedy=remedy)


@lru_cache(maxsize=64)
def open_bucket(location: locations.ObjectUrl) -> Any:
    """Return obstore's store at a URL without any request; the process keeps its connections.

    An endpoint without TLS is refused unless the environment allows it: a typing error in its URL
    must not send genotypes over a network unencrypted.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    allow_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    if location.scheme == "s3" and endpoint.startswith("http://") and not allow_http:
        raise UsageError(
            "the endpoint has no TLS, so that genotypes would cross the network unencrypted",
            where="AWS_ENDPOINT_URL",
            remedy="Use https://, or set AWS_ALLOW_HTTP=true if the network is private",
        )
    try:
        return from_url(
            str(location),
            client_options={
                "allow_http": allow_http,  # takes precedence over the environment
                "connect_timeout": f"{CONNECT_S:g}s",
                "timeout": f"{ANSWER_S:g}s",
            },
            retry_config={"max_retries": 0},  # `BucketStore` alone repeats requests
        )
    except (exceptions.BaseError, ValueError):
        raise UsageError(
            "the environment variables do not configure access to this location",
            where=str(location),
            remedy="See docs/object_storage.md for the variables",
        ) from None
