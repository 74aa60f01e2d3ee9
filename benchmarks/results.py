"""The file of results: for each benchmark the machine, the date and everything measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.machine import description

Section = dict[str, Any]


def stored(path: Path) -> dict[str, Section]:
    """All sections, by the benchmark's name; none where there is no file yet."""
    if not path.is_file():
        return {}
    found: dict[str, Section] = json.loads(path.read_text())
    return found


def record(path: Path, name: str, measure: Callable[[], dict[str, object]]) -> None:
    """Measure, and replace the section of that name when it ended well."""
    machine = description()  # before: the load of others, not ours
    section = {"machine": machine, "measured": measure()}
    text = json.dumps({**stored(path), name: section}, indent=1)
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(text + "\n")
    os.replace(temporary, path)
