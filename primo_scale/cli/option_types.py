"""Types of option values: each converts the text of an option, or refuses it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

import click

from primo_scale.storage.files import refuse_special_file

DIRECTORY = click.Path(file_okay=False, path_type=Path)


class Number(click.FloatRange):
    """Finite number in a range: `click.FloatRange` accepts ``nan``, and infinity in an open one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class AutoNumber(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``auto``, which becomes None, or a number."""

    name = "auto|number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return None or the number, whose range the request checks."""
        try:
            return None if value == "auto" else float(value)
        except ValueError:
            self.fail(f"{value!r} is neither auto nor a number.", param, ctx)


class RegularFile(click.Path):
    """Path of a file that is regular, or does not exist yet."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.parts[:1] == ("~",):
            self.fail(f"{path} begins with ~, which the shell did not expand.", param, ctx)
        refuse_special_file(path)
        return path


FILE_PATH = RegularFile(dir_okay=False, path_type=Path)

flag = partial(click.option, is_flag=True)
count_option = partial(click.option, type=click.IntRange(min=1))
file_option = partial(click.option, type=FILE_PATH)
"""Decorators that add an option of one type."""


class LocalPath(click.Path):
    """Path on this machine: a URL would otherwise become a directory with a strange name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if "://" in str(value):
            self.fail(
                f"{value} is a URL, and this is written to a disk (docs/object_storage.md lists "
                "what object stores can hold).", param, ctx,
            )  # fmt: skip
        return super().convert(value, param, ctx)


class CommaSeparated(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``a,b,c`` as a tuple of strings, or of another kind of value."""

    name = "a,b,..."

    def __init__(self, kind: Callable[[str], Any] = str) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split at commas, and refuse empty parts."""
        if isinstance(value, tuple):
            return value
        parts = tuple(part.strip() for part in str(value).split(","))
        if not all(parts):
            self.fail(f"{value!r} has an empty part.", param, ctx)
        try:
            return tuple(map(self._kind, parts))
        except ValueError:
            self.fail(f"{value!r} has a part that is not a number.", param, ctx)


class CommaSeparatedPaths(CommaSeparated):
    """Paths or patterns of paths, separated by commas."""

    name = "path,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split at commas, unless the whole text is the beginning of a path that exists."""
        parts = super().convert(value, param, ctx)
        if len(parts) > 1 and not isinstance(value, tuple):
            whole = Path(value)
            in_directory = "," in str(whole.parent) and whole.parent.is_dir()
            if in_directory or any(whole.parent.glob(f"{escape(whole.name)}*")):
                self.fail(
                    f"{value!r} is one path, and a comma separates paths. Write it into a file "
                    "whose name ends in .list, and give that file.", param, ctx,
                )  # fmt: skip
        return parts
