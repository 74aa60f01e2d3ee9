"""Validated reading of the private JSON documents of a work directory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from primo_scale.errors import InputError

T = TypeVar("T")
DecHook = Callable[[Any, Any], object]

_converting = threading.RLock()


@overload
def converted(value: object, kind: type[T], *, dec_hook: DecHook | None = None) -> T: ...
@overload
def converted(value: object, kind: Any, *, dec_hook: DecHook | None = None) -> Any: ...
def converted(value: object, kind: Any, *, dec_hook: DecHook | None = None) -> Any:
    """Return the members of a document as a value of a type, as `msgspec.convert` does.

    One thread converts at a time, because the process crashes if two threads convert values of one
    dataclass for the first time (msgspec 0.22).
    """
    import msgspec  # not needed to verify a release

    with _converting:
        return msgspec.convert(value, kind, dec_hook=dec_hook)  # noqa: TID251


def read_document(path: Path, parse: Callable[[dict[str, Any]], T], *, remedy: str) -> T:
    """Read a JSON object from an existing file and parse it, or refuse a file that is damaged.

    `parse` raises ValueError (as msgspec does), LookupError, TypeError or AttributeError where a
    member is missing or of another type. `remedy` is what the user can do about a damaged file.
    """
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise TypeError("not a JSON object")
        return parse(document)
    except (
        ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise InputError("is damaged", where=path, remedy=remedy) from error


def read_fields(path: Path, kind: type[T], *, remedy: str, dec_hook: DecHook | None = None) -> T:
    """Read a document whose members are the fields of a type, as `read_document` does."""
    return read_document(
        path, lambda stored: converted(stored, kind, dec_hook=dec_hook), remedy=remedy
    )
