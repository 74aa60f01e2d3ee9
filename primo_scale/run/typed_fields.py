"""Fields of requests: their types, which every new request checks, and the options they state."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from enum import Enum
from numbers import Integral, Number, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import attrs
import numpy as np

from primo_scale.errors import UsageError, anticipated
from primo_scale.genotypes.pandas_plink import PlinkArray
from primo_scale.storage.locations import ObjectUrl, usable_path

# Fields whose option has another name.
_OPTIONS = {"unit": "privacy", "chromosomes": "chr"}
_NAMES = {
    NoneType: "None", Path: "path", ObjectUrl: "URL", PlinkArray: "DataArray of read_plink1_bin",
}  # fmt: skip


def typed(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Return fields that refuse a value of another type than their annotation, for attrs.

    NumPy's numbers become Python's, and a field for several values takes one alone. A field's own
    converter comes first, so that a path may be a string. Fields without a default are the first.
    """
    kinds = get_type_hints(cls)
    checked = [
        each.evolve(converter=_checked(each.name.lstrip("_"), kinds[each.name], each.converter))
        if each.name in cls.__annotations__  # others are checked by the class that they are of
        else each
        for each in fields
    ]
    return sorted(checked, key=lambda each: each.default is not attrs.NOTHING)


def check_request(request: object, *kinds: type, name: str = "request") -> None:
    """Refuse an argument that is no request of one of the kinds."""
    if not isinstance(request, kinds):
        raise wrong_type(name, request, " or ".join(map(_words, kinds)))


def options_of(request: attrs.AttrsInstance) -> list[tuple[str, object]]:
    """Return each option of a request and its parts once, with its value, in order of fields."""
    found: list[tuple[str, object]] = []
    for attribute in attrs.fields(type(request)):
        value = getattr(request, attribute.alias)
        if attrs.has(type(value)):
            found += [pair for pair in options_of(value) if pair not in found]
        else:
            name = _OPTIONS.get(attribute.alias, attribute.alias)
            found.append((name.replace("_", "-"), value))
    return found


def wrong_type(name: str, value: object, expected: str) -> UsageError:
    """Return the error of a field or an argument whose value is of another type."""
    return UsageError("is of the wrong type", where=name, value=_found(value), expected=expected)


def _checked(
    name: str, kind: Any, convert: Callable[[Any], object] | None
) -> Callable[[Any], object]:
    origins = [get_origin(one) for one in (kind, *get_args(kind))]
    takes_several = tuple in origins or Mapping in origins
    is_path = Path in (kind, *get_args(kind)) and ObjectUrl not in get_args(kind)

    def checked(value: Any) -> object:
        """Return the value of the annotated type, or raise a UsageError."""
        if is_path and isinstance(value, str | PathLike):
            usable_path(value, name)
        try:
            if isinstance(value, bool | np.bool_) and kind is not bool:
                raise TypeError
            is_table = isinstance(value, Mapping) or hasattr(value, "columns")
            if tuple in origins and is_table:  # whose iterator yields the names of its columns
                raise TypeError
            given = value
            if takes_several and isinstance(value, str | PathLike | Number):
                given = (value,)
            return _as(name, kind, given if convert is None else convert(given))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise wrong_type(name, value, _words(kind)) from error
        except OSError as error:  # of a path
            raise anticipated(error) or error from error

    notes = getattr(convert, "__annotations__", {})
    taken = [note for argument, note in notes.items() if argument != "return"]
    checked.__annotations__ = {"value": taken[0] if taken else kind}  # for the class's signature
    return checked


def _as(name: str, kind: Any, value: Any) -> object:
    """Return a value of the annotated type, or raise TypeError."""
    of = get_args(kind)
    if get_origin(kind) is UnionType:
        kind = next((one for one in of if _fits(one, value)), of[0])
        return _as(name, kind, value)
    if get_origin(kind) is tuple and isinstance(value, tuple):
        return tuple(_as(name, of[0], part) for part in value)
    if get_origin(kind) is Mapping and isinstance(value, Mapping):
        parts = value.items()
        return {_as(name, of[0], key): _as(name, of[1], part) for key, part in parts}
    if not _fits(kind, value):
        raise TypeError
    if isinstance(value, Path):
        usable_path(value, name)
    if kind is str:
        return str.__str__(value)  # str(value) of a member of an Enum may be its name
    return kind(value) if kind in (bool, int, float) else value


def _fits(kind: Any, value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return kind is bool
    wide = {int: Integral, float: Real}.get(kind, get_origin(kind) or kind)
    return isinstance(value, wide)


def _found(value: object) -> str:
    """Return a text or a number, and only the type of anything else."""
    if value is None or isinstance(value, str | Number):
        return reprlib.repr(value)
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return f"{kind} of {', '.join(sorted({type(part).__name__ for part in value}))}"
    return kind


def _words(kind: Any) -> str:
    """Return a type in words."""
    if get_origin(kind) is UnionType:
        return " or ".join(map(_words, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"one or several {_words(get_args(kind)[0])}"
    if get_origin(kind) is Mapping:
        return "mapping of {} to {}".format(*map(_words, get_args(kind)))
    if issubclass(kind, Enum):
        return " or ".join(str(one.value) for one in kind)
    return str(_NAMES.get(kind, kind.__name__))
