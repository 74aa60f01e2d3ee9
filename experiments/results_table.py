"""Tables of results, with which a second run of an experiment continues the first."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any


def settings_done(table: Path, row: type[Any], setting: type[Any]) -> set[tuple[str, ...]]:
    """Return the settings, as texts, in a table of `row` dataclasses, which is begun if missing."""
    if not table.exists():
        table.write_text(",".join(field.name for field in fields(row)) + "\n")
    keys = [field.name for field in fields(setting)]
    with table.open(newline="") as file:
        return {tuple(line[key] for key in keys) for line in csv.DictReader(file)}


def append_rows(table: Path, rows: Iterable[Any]) -> None:
    """Add rows, which are dataclasses, to a table."""
    with table.open("a", newline="") as file:
        csv.writer(file).writerows(map(astuple, rows))
