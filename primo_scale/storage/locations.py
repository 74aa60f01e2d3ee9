"""Locations of stores: a directory, or a prefix of a bucket.

A location is only a name. It can be logged, kept in a file and sent to workers. It never holds a
credential: every process reads its own from its environment (`primo_scale.storage.bucket_store`).
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from primo_scale.errors import UsageError, anticipated

SCHEMES = ("s3", "gs", "az")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Characters of a key that need no quoting in S3, Google Cloud Storage, Azure or a shell.
_PART = re.compile(r"[A-Za-z0-9_.=+,-]+")


@dataclass(frozen=True)
class ObjectUrl:
    """Prefix of a bucket, such as ``s3://bucket/cohort/genotypes.zarr``.

    It has those methods of `pathlib.Path` that code for both kinds of location uses. The key has at
    least one part, so that a store never takes up a whole bucket.
    """

    scheme: str  # one of `SCHEMES`
    bucket: str  # name of the bucket, or of the container on Azure
    key: str  # parts of the prefix joined by "/"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def __truediv__(self, part: str) -> ObjectUrl:
        return ObjectUrl(self.scheme, self.bucket, f"{self.key}/{part}")

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self.key.rpartition("/")[2]

    def resolve(self) -> ObjectUrl:
        """Return the URL itself, which is absolute."""
        return self


Location: TypeAlias = Path | ObjectUrl


def usable_path(value: object, name: str) -> Path:
    """Return the path that an argument or a field names, or refuse one that no file can have."""
    if not isinstance(value, str | PathLike):
        raise UsageError(
            "is of the wrong type", where=name, value=type(value).__name__, expected="path"
        )
    path = Path(value)
    if path.parts[:1] == ("~",):
        what = "begins with ~, which only a shell takes for the home directory"
        raise UsageError(what, where=name, value=path, remedy="Give the whole path")
    if "\0" in str(path):
        raise UsageError(
            "a path cannot contain a null character", where=name, value=ascii(str(path))
        )
    try:
        path.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise anticipated(error) or error from error
    return path


def usable_location(value: object, name: str) -> Location:
    """Return the location that an argument names, with the refusals of `usable_path`."""
    if isinstance(value, ObjectUrl) or (isinstance(value, str) and _SCHEME.match(value)):
        return parse_location(value)
    return usable_path(value, name)


def parse_location(text: str | Location) -> Location:
    """Return the location that a user or a file names: a URL with one of `SCHEMES`, or a path.

    A URL object is returned unchanged. A URL of another scheme is refused, and so are one with a
    user, a password or a query (the message does not repeat it), and one without a prefix in the
    bucket, or with one that not every service keeps unchanged.
    """
    if not isinstance(text, str):
        return text if isinstance(text, ObjectUrl) else Path(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1] not in SCHEMES:
        expected = ", ".join(f"{known}://" for known in SCHEMES) + " or a path"
        raise UsageError("unsupported URL scheme", value=f"{scheme[1]}://", expected=expected)
    if re.search(r"[@?#]", text):
        raise UsageError(
            "the URL of a location has a user, a password or a query",
            where=f"{scheme[1]}://",
            remedy="Give credentials in the environment (docs/object_storage.md)",
        )
    bucket, *parts = text[scheme.end() :].rstrip("/").split("/")
    named = [part for part in parts if _PART.fullmatch(part) and part.strip(".")]
    if not _BUCKET.fullmatch(bucket) or not parts or len(named) < len(parts):
        expected = f"{scheme[1]}://BUCKET/PREFIX of letters, digits and . _ = + , -"
        raise UsageError("not a valid prefix of a bucket", value=text, expected=expected)
    return ObjectUrl(scheme[1], bucket, "/".join(parts))
