"""Reading of profile files; a profile open to other users of a network is an error."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.inspect import is_struct_type

from primo_scale.cluster.profile import PROFILES, TEXTS, Profile
from primo_scale.errors import InputError
from primo_scale.storage.documents import converted
from primo_scale.storage.files import refuse_missing_file

# Words of msgspec, and the words for the user of a TOML file.
_WORDS = {f"`str` matching regex {text.pattern!r}": str(text.description) for text in TEXTS} | {
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
    "Expected": "expected",
    "`object`": "a table",
}


def read_profile(file: Path) -> Profile:
    """Read and check a profile, whose directories are relative to the directory of the file."""
    refuse_missing_file(file)
    table = _load_toml(file)
    kind = table.get("kind")
    if kind not in list(PROFILES):
        raise InputError("kind is unknown", where=file, value=kind, limit=", ".join(PROFILES))
    for place, key in ((table, "tls"), (table.get("jobs"), "logs")):
        if isinstance(place, dict) and isinstance(place.get(key), str):
            place[key] = str(file.absolute().parent / os.path.expanduser(place[key]))
    try:
        return converted(table, PROFILES[kind])
    except msgspec.ValidationError as error:
        raise _refusal(str(error), table, file) from error


def _load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also of a number with thousands of digits
        raise InputError(f"is not TOML: {error}", where=path) from error
    except RecursionError as error:
        raise InputError(
            "is not TOML: tables or lists are nested too deeply", where=path
        ) from error


def _refusal(message: str, table: dict[str, Any], file: Path) -> InputError:
    """Return the error for a message of msgspec, such as ``Expected `int` - at `$.jobs.cores```."""
    problem, _, place = message.partition(" - at `$.")
    place, value, limit = place.rstrip("`"), None, None
    if problem.startswith("Expected"):
        value = repr(_value_at(place, table))
    elif "unknown field" in problem:
        limit = f"one of {', '.join(_keys_at(place, PROFILES[table['kind']]))}"
    for theirs, ours in _WORDS.items():
        problem = problem.replace(theirs, ours)
    what = f"{place}: {problem}" if place else problem
    return InputError(what, where=file, value=value, limit=limit)


def _value_at(place: str, table: dict[str, Any]) -> Any:
    value: Any = table
    for step in re.findall(r"\w+", place):
        value = value[int(step) if isinstance(value, list) else step]
    return value


def _keys_at(place: str, table: type[Struct]) -> tuple[str, ...]:
    """Return the keys that the table at a place such as ``pods.volumes[0]`` may contain."""
    for step in re.findall(r"[a-z_]+", place):
        hint = get_type_hints(table)[step]
        table = next(kind for kind in (hint, *get_args(hint)) if is_struct_type(kind))
    return table.__struct_fields__
