"""Commands whose options are the fields of a request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from glob import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from primo_scale.cli.command_line import ContractCommand
from primo_scale.errors import Field, with_options

if TYPE_CHECKING:
    from primo_scale.run.fields import Option


class RequestCommand(ContractCommand):
    """Command with the options of a request, which it makes; its function gets it as `asked`.

    Of several kinds of request, such as ``request.ReleaseRequest``, it has the options of all, and
    its function gets the values by their names as `given`. Fields without an option are given by
    the `obj` of the context, which a program sets that calls the command.
    """

    def __init__(self, *args: Any, kinds: Sequence[str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._names = kinds

    @cached_property
    def kinds(self) -> list[Any]:
        """Classes of the requests."""
        parts = (name.split(".") for name in self._names)
        return [getattr(import_module(f"primo_scale.run.{home}"), name) for home, name in parts]

    @cached_property
    def options(self) -> list[FieldOption]:
        """Options of the fields, in the order of their headings; the first of equal names."""
        from primo_scale.run.fields import HEADINGS, declared  # loads attrs

        fields = {
            name: FieldOption(name, *declaration)
            for kind in reversed(self.kinds)
            for name, declaration in declared(kind).items()
            if not declaration[0].expert
        }
        order = {heading: rank for rank, heading in enumerate(HEADINGS)}
        return sorted(fields.values(), key=lambda option: order.get(option.heading, -1))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the fields and the others."""
        return [*self.options, *super().get_params(ctx)]

    def run(self, ctx: click.Context) -> Any:
        """Make the request, and call the function."""
        from primo_scale.run.fields import request_of

        values = {option.name: ctx.params.pop(option.name) for option in self.options}
        given = {
            name: value
            for name, value in values.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        } | (ctx.obj or {})
        one = len(self.kinds) == 1
        ctx.params |= {"asked": request_of(self.kinds[0], given)} if one else {"given": given}
        return super().run(ctx)


class RegularFile(click.Path):
    """Path of a file that is regular, or does not exist yet."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        from primo_scale.run.fields import regular_file  # loads attrs

        return regular_file(super().convert(value, param, ctx), (param and param.name) or "path")


class FieldOption(click.Option):
    """Option of a field of a request, which reads its text."""

    name: str

    def __init__(self, name: str, field: Option, default: object) -> None:
        from primo_scale.run.fields import FLAG, NEEDED, PATHS, PUBLIC_FILES

        flag, kind = Field(name).option, field.kind
        self.heading = field.heading
        self._splits = kind.several and not kind.repeats
        self._splits_paths = kind in (PATHS, PUBLIC_FILES)
        shown = "" if default in (None, False, True, (), NEEDED) else _text_of(default)
        facts = [kind.interval] if kind.interval not in ("", "[1, inf)", "(-inf, inf)") else []
        facts += [f"default: {shown}"] if shown else []
        facts += ["required"] if default is NEEDED else []
        super().__init__(
            [f"{flag}/--no-{flag.removeprefix('--')}" if default is True else flag, name],
            is_flag=kind is FLAG,
            multiple=kind.repeats,
            metavar=None if kind is FLAG else field.metavar,
            help=with_options(field.help) + (f"  [{'; '.join(facts)}]" if facts else ""),
            callback=self._split,
            show_default=False,
        )

    def _split(self, context: click.Context, _: click.Parameter, value: Any) -> Any:
        """Split a text at commas, unless it is the beginning of a path that exists."""
        if not self._splits or not isinstance(value, str):
            return value
        parts = tuple(part.strip() for part in value.split(","))
        if not all(parts):
            raise click.BadParameter(f"{value!r} has an empty part.", context, self)
        if len(parts) > 1 and self._splits_paths and _begins_a_path(Path(value)):
            what = f"{value!r} is one path, and a comma separates paths. Write it into a file"
            remedy = "whose name ends in .list, and give that file."
            raise click.BadParameter(f"{what} {remedy}", context, self)
        return parts


def _begins_a_path(text: Path) -> bool:
    in_directory = "," in str(text.parent) and text.parent.is_dir()
    return in_directory or any(text.parent.glob(f"{escape(text.name)}*"))


def _text_of(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(_text_of, default))
    return f"{default:g}" if isinstance(default, float) else str(default)
