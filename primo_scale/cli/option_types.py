"""Types of option values: each turns the text of an option into a value, or refuses it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class MemorySize(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``4GiB``, ``500MB`` and the like, spelled as in a profile."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the spelling: a number alone could be bytes, or a share of the machine."""
        from primo_scale.cluster.profile import is_size

        if not is_size(value):
            self.fail(f"{value!r} is not a size such as 4GiB", param, ctx)
        return str(value)


class Number(click.FloatRange):
    """A number in a range; ``nan``, which compares with nothing and so is in every range, is none.

    Nor is infinity, which is in a range that is open above.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class AutoNumber(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``auto``, which is None, or a number."""

    name = "auto|number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        """The number, which the request checks."""
        try:
            return None if value == "auto" else float(value)
        except ValueError:
            self.fail(f"{value!r} is neither auto nor a number", param, ctx)


class PlaceType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A path, or an URL of an object store such as ``s3://bucket/prefix``."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The place, `primo_scale.storage.locations.Location`."""
        from primo_scale.errors import UsageError
        from primo_scale.storage.locations import parse_location

        try:
            return parse_location(value) if isinstance(value, str) else value
        except UsageError as error:
            self.fail(str(error), param, ctx)


class BucketType(PlaceType):
    """An URL of an object store."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The URL, `primo_scale.storage.locations.ObjectUrl`."""
        found = super().convert(value, param, ctx)
        if isinstance(found, Path):
            self.fail(f"{value!r} is no URL such as s3://bucket/prefix", param, ctx)
        return found


class LocalPathType(click.Path):
    """A path of this machine: an URL would otherwise become a directory with a strange name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if "://" in str(value):
            self.fail(
                f"{value} is an URL, and this is written to a disk (docs/object_storage.md says "
                "what object stores are for)", param, ctx,
            )  # fmt: skip
        return super().convert(value, param, ctx)


PLACE = PlaceType()


class BuildName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A genome build under any of its names, as the PGS Catalog calls it."""

    name = "build"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the Catalog's name of the build."""
        from primo_scale.genotypes.genome_build import BUILD_NAMES, build_name

        found = build_name(str(value))
        if found is None:
            self.fail(f"{value!r} is none of {', '.join(BUILD_NAMES)}, hg19, hg38", param, ctx)
        return found


class CommaSeparated(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``a,b,c`` as a tuple of strings."""

    name = "a,b,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas; empty parts are an error."""
        if isinstance(value, tuple):
            return value
        parts = tuple(part.strip() for part in str(value).split(","))
        if not all(parts):
            self.fail(f"{value!r} has an empty part", param, ctx)
        return parts


class Chromosomes(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``1-4,22,X,PAR1`` as a tuple of canonical chromosome codes."""

    name = "list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Expand ranges; refuse what is no chromosome or cannot be scored."""
        from primo_scale.genotypes.chromosomes import parse_chromosomes

        return value if isinstance(value, tuple) else parse_chromosomes(str(value))
