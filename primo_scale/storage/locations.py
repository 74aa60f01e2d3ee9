"""Where a store lies: a directory, or a prefix of a bucket.

A place is a name and nothing else: it can be logged, kept in a file and sent to workers. It never
holds a credential; every process finds its own in its environment (`primo_scale.storage.buckets`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from primo_scale.errors import UsageError

SCHEMES = ("s3", "gs", "az")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# What S3, Google and Azure all take in a key without quoting, and no shell reads as anything else.
_PART = re.compile(r"[A-Za-z0-9_.=+,-]+")


@dataclass(frozen=True)
class ObjectUrl:
    """A prefix of a bucket, such as ``s3://bucket/cohort/genotypes.zarr``.

    It answers to the few words of `pathlib.Path` that code about places needs.

    Attributes
    ----------
    scheme
        One of `SCHEMES`.
    bucket
        The bucket, or the container at Azure.
    key
        Parts joined by ``/``, at least one: a bucket is never taken whole.
    """

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def __truediv__(self, part: str) -> ObjectUrl:
        return ObjectUrl(self.scheme, self.bucket, f"{self.key}/{part}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    def resolve(self) -> ObjectUrl:
        """Itself: it is the same for every process on every machine."""
        return self


Location: TypeAlias = Path | ObjectUrl


def parse_location(text: str | Path) -> Location:
    """The place that a user or a file names: an URL of `SCHEMES`, or else a path.

    Raises
    ------
    UsageError
        Another scheme; an URL with a user, a password or a query, which is not repeated; no
        prefix in the bucket, or one that the services would not all keep as it is.
    """
    if isinstance(text, Path):
        return text
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1] not in SCHEMES:
        raise UsageError(
            "is no place that stores can be kept in",
            value=f"{scheme[1]}://",
            limit=", ".join(f"{known}://" for known in SCHEMES) + " or a path",
        )
    if re.search(r"[@?#]", text):
        raise UsageError(
            "an URL of a place names a bucket and a prefix, and no user, password or query",
            where=f"{scheme[1]}://",
            remedy="Give credentials in the environment (docs/object_storage.md)",
        )
    bucket, *parts = text[scheme.end() :].rstrip("/").split("/")
    named = [part for part in parts if _PART.fullmatch(part) and part.strip(".")]
    if not _BUCKET.fullmatch(bucket) or not parts or len(named) < len(parts):
        raise UsageError(
            "is no prefix of a bucket",
            value=text,
            limit=f"{scheme[1]}://BUCKET/PREFIX, of letters, digits and . _ = + , -",
        )
    return ObjectUrl(scheme[1], bucket, "/".join(parts))
