"""Strict reading of TOML into frozen dataclasses: unknown keys and wrong types are errors."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, Field, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from primo_scale.errors import InputError

T = TypeVar("T")

_KINDS = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    Path: "a path",
    dict: "a table",
}


def text(pattern: str, meaning: str, default: Any = MISSING) -> Any:
    """Declare a text field that must fully match `pattern`; `meaning` describes it in errors."""
    return field(default=default, metadata={"pattern": re.compile(pattern), "meaning": meaning})


def at_least(least: int, default: Any = MISSING) -> Any:
    """Declare an integer field with a smallest value."""
    return field(default=default, metadata={"least": least})


def load_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises
    ------
    InputError
        The file is not valid TOML.
    OSError
        The file cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also of a number with thousands of digits
        raise InputError(f"is no TOML: {error}", where=path) from error
    except RecursionError as error:
        raise InputError("is no TOML: tables or lists are nested too deeply", where=path) from error


def read_table(wanted: type[T], table: dict[str, Any], file: Path, above: str = "") -> T:
    """Return a dataclass with the values of a TOML table.

    Parameters
    ----------
    wanted : type of T
        Dataclass whose fields are the allowed keys and whose type hints are their types. A `Path`
        is relative to the directory of the file.
    table : dict of str to Any
        Parsed table.
    file : Path
        Path of the TOML file, for errors and relative paths.
    above : str
        Names of the enclosing tables, with a final dot.

    Returns
    -------
    T
        Instance of `wanted`.

    Raises
    ------
    InputError
        A key is unknown or missing, or a value has a wrong type or is not allowed.
    """
    known = {declared.name: declared for declared in fields(wanted)}  # type: ignore[arg-type]
    unknown = next((key for key in table if key not in known), None)
    if unknown is not None:
        raise InputError(
            f"unknown key {above}{unknown}", where=file, limit=f"one of {', '.join(known)}"
        )
    hints = get_type_hints(wanted)
    values = {}
    for name, declared in known.items():
        if name in table:
            values[name] = _value(hints[name], table[name], file, above + name)
            _check(declared, values[name], file, above + name)
        elif declared.default is MISSING and declared.default_factory is MISSING:
            raise InputError(f"{above}{name} is missing", where=file)
    return wanted(**values)


def _value(hint: Any, value: Any, file: Path, name: str) -> Any:
    options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    for option in options:
        origin, arguments = get_origin(option), get_args(option)
        if is_dataclass(option) and isinstance(value, dict):
            return read_table(option, value, file, f"{name}.")  # type: ignore[arg-type]
        if option is Path and isinstance(value, str):
            return file.parent / Path(value).expanduser()
        if option in (str, int, bool) and type(value) is option:
            return value
        if origin is tuple and isinstance(value, list):
            return tuple(_value(arguments[0], part, file, name) for part in value)
        if origin is dict and isinstance(value, dict):
            return {key: _value(arguments[1], part, file, name) for key, part in value.items()}
    raise InputError(f"{name} is of a wrong type", where=file, value=value, limit=_named(options))


def _named(options: tuple[Any, ...]) -> str:
    names = []
    for option in options:
        if get_origin(option) is tuple:
            names.append(f"a list, each {_named(get_args(option)[:1])}")
        elif option is not NoneType:
            kind = get_origin(option) or (dict if is_dataclass(option) else option)
            names.append(_KINDS[kind])
    return " or ".join(names)


def _check(declared: Field[Any], value: Any, file: Path, name: str) -> None:
    pattern, least = declared.metadata.get("pattern"), declared.metadata.get("least")
    for part in value if isinstance(value, tuple) else (value,):
        if pattern is not None and isinstance(part, str) and not pattern.fullmatch(part):
            limit = declared.metadata["meaning"]
            raise InputError(f"{name} is not allowed", where=file, value=repr(part), limit=limit)
    if least is not None and isinstance(value, int) and value < least:
        raise InputError(f"{name} is too small", where=file, value=value, limit=f"at least {least}")
