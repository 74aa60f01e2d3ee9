"""Types of the values in release.json, with the limits that its JSON schema states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta


def one_of(values: Iterable[str | int]) -> Meta:
    """Return the constraint that a value is one of `values`."""
    return Meta(extra_json_schema={"enum": list(dict.fromkeys(values))})


_LARGEST_INTEGER, _LARGEST_NUMBER = 2**62, 1e100

ONE_LINE = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+$"
"""Pattern of a text without control characters, line separators and bidirectional controls."""
Text = Annotated[str, Meta(pattern=ONE_LINE)]
Version = Annotated[str, Meta(pattern="^[0-9][0-9A-Za-z.!+_-]{0,39}$")]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Privacy = Annotated[str, one_of(("full", "label", "feature"))]
Adjacency = Annotated[str, one_of(("replace-one", "add-remove"))]

Natural = Annotated[int, Meta(ge=0, le=_LARGEST_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=_LARGEST_INTEGER)]

Number = Annotated[float, Meta(ge=-_LARGEST_NUMBER, le=_LARGEST_NUMBER)]
Amount = Annotated[float, Meta(ge=0, le=_LARGEST_NUMBER)]
PositiveAmount = Annotated[float, Meta(gt=0, le=_LARGEST_NUMBER)]
Scale = Annotated[float, Meta(ge=1 / _LARGEST_NUMBER, le=_LARGEST_NUMBER)]
Share = Annotated[float, Meta(ge=0, lt=1)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
Delta = Annotated[float, Meta(gt=0, lt=1)]

AtLeastOne = Meta(min_length=1)
"""Constraint that a list is not empty."""
Distinct = Meta(extra_json_schema={"uniqueItems": True})
"""Constraint that the items of a list differ."""
