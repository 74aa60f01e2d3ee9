"""release.json, and paths to the values in it and in other JSON documents."""

import copy
import functools
import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from primo_scale.verify.document import RELEASE, DocumentKind, parse, serialise


def read_document(directory: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / "release.json").read_bytes())
    return document


def put(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy of a document with another value at a path such as ``files.0.name``."""
    document = copy.deepcopy(document)
    above, _, last = path.rpartition(".")
    holder = value_at(document, above)
    holder[int(last) if isinstance(holder, list) else last] = value
    return document


def value_at(document: Any, path: str | tuple[Any, ...]) -> Any:
    if isinstance(path, str):
        path = tuple(int(key) if key.isdigit() else key for key in path.split(".") if key)
    return functools.reduce(operator.getitem, path, document)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def schema_problems(document: dict[str, Any], kind: DocumentKind = RELEASE) -> list[str]:
    """Return what is wrong with the form of a document, in a list that is empty if it is valid."""
    try:
        parse(serialise(document), kind)
    except ValueError as error:
        return [str(error)]
    return []
