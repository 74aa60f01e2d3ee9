"""Fields of requests: each is declared once, with its kind, default, heading and help.

The options of the command line, the checks of values, the signatures in Python, their docstrings
and docs/how-to/options.md are made from these declarations. A value may be given as the text that
the command line takes. Help and errors name a field in backticks.
"""

from __future__ import annotations

import inspect
import operator
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from numbers import Number
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import attrs

from primo_scale import errors
from primo_scale.storage import files, locations

Request = TypeVar("Request", bound=attrs.AttrsInstance)
Result = TypeVar("Result")

HEADINGS = (
    "Genotypes",
    "Phenotypes and covariates",
    "Privacy and budget",
    "Results and intermediate files",
    "Model and method",
    "Where and how to compute",
)
"""Headings of options, in the order in which they are listed."""
NEEDED = attrs.NOTHING
"""Default of a field that must be given."""
_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_AUTOSOMES = "{1..22}"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_HELP = re.compile(r"^(\w+)\n((?:    .*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Kind:
    """Kind of the values of a field; `read` gets a value and the name of the field."""

    words: str
    read: Callable[[Any, str], object]
    metavar: str = ""
    several: bool = False
    repeats: bool = False  # whether several values are several options, not one with commas
    interval: str = ""  # of numbers, such as ``(0, 0.5]``


@dataclass(frozen=True)
class Option:
    """Declaration of a field."""

    kind: Kind
    help: str
    heading: str
    expert: bool  # a field of Python alone
    metavar: str
    needs: tuple[str, ...]  # other fields without which it may not be given, or ``one|another``
    excludes: tuple[str, ...]  # other fields with which it may not be given


def option(
    kind: Kind,
    *,
    default: object = None,
    heading: str = "",
    expert: bool = False,
    metavar: str = "",
    needs: str = "",
    excludes: str = "",
) -> Any:
    """Declare a field; an `expert`'s one has no option on the command line.

    The heading is by default the ``HEADING`` of the class. `needs` and `excludes` name other
    fields, with blanks between them.
    """
    default = False if kind is FLAG and default is None else default
    others = tuple(needs.split()), tuple(excludes.split())
    declared = Option(kind, "", heading, expert, metavar or kind.metavar, *others)
    return attrs.field(default=default, metadata={"option": declared})


def read_fields(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Return fields that read their values, for attrs; the docstring of the class has their help.

    Fields that must be given come first.
    """
    by_keyword = any(each.kw_only for each in fields)
    heading = vars(cls).get("HEADING", "Options")
    texts = dict(_HELP.findall(inspect.cleandoc(cls.__doc__ or "") + "\n"))
    result = []
    for each in fields:
        if each.converter is None:
            name, declared = each.name.lstrip("_"), each.metadata["option"]
            text = " ".join(texts[name].split())
            declared = replace(declared, help=text, heading=declared.heading or heading)
            reader = _reader(declared.kind, name, each.default, each.type)
            metadata = {"option": declared}
            each = each.evolve(converter=reader, metadata=metadata, kw_only=by_keyword)
        result.append(each if each.kw_only == by_keyword else each.evolve(kw_only=by_keyword))
    return sorted(result, key=lambda each: each.default is not NEEDED)


class Checked:
    """Base of requests and their parts: the `check` of each class runs when one is made."""

    def __attrs_post_init__(self) -> None:
        fields, values = declared(type(self)), self._values().items()
        given = [name for name, v in values if v is not None and v is not False and v != ()]
        for name in given:
            for needed in fields[name][0].needs:
                if not {*needed.split("|")} & {*given}:
                    names = " or ".join(f"`{other}`" for other in needed.split("|"))
                    remedy = f"Give {names}, or leave it out"
                    raise errors.UsageError(
                        f"needs {names}", where=errors.Field(name), remedy=remedy
                    )
            for other in given:
                if other in fields[name][0].excludes:
                    what, remedy = f"`{name}` and `{other}` exclude each other", "Leave one out"
                    raise errors.UsageError(what, remedy=remedy)
        for part in reversed(type(self).__mro__):
            if "check" in vars(part):
                vars(part)["check"](self)

    def _values(self) -> dict[str, object]:
        names = declared(type(self))
        return {name: getattr(self, f"_{name}" if name == "work_dir" else name) for name in names}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._values().items())
        return f"{type(self).__name__}({values})"


def _reader(kind: Kind, name: str, default: object, annotation: object) -> Callable[[Any], object]:
    """Return the converter of a field, which raises a UsageError that names the field."""

    def read(value: Any) -> object:
        if value is None and default is None:
            return None
        try:
            if kind is not FLAG and isinstance(value, bool):
                raise TypeError
            found = kind.read(value, name)
            if found == () and default is NEEDED:
                raise errors.UsageError("is needed", value=value)
            if kind.interval and found is not None and not _is_in(kind.interval, found):
                raise errors.UsageError("is out of range", value=value, limit=kind.interval)
            return found
        except errors.PrimoError as error:
            error.where = errors.Field(name) if error.where is None else error.where
            raise
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            words = kind.words + (" or None" if default is None else "")
            raise wrong_type(name, value, words) from error
        except OSError as error:  # of a path
            raise errors.anticipated(error) or error from error

    # From it attrs annotates its constructor.
    parameter = inspect.Parameter("value", _KEYWORD, annotation=annotation)
    vars(read)["__signature__"] = inspect.Signature([parameter])
    return read


def _is_in(interval: str, value: Any) -> bool:
    low, high = map(float, interval[1:-1].split(","))
    above = low < value or (interval[0] == "[" and low == value)
    return above and (value < high or (interval[-1] == "]" and value == high))


def wrong_type(name: str, value: object, expected: str) -> errors.UsageError:
    """Return the error of a field or an argument; it shows texts and numbers, else the type."""
    found = type(value).__name__
    if value is None or isinstance(value, str | Number):
        found = reprlib.repr(value)
    elif isinstance(value, list | tuple):
        found = f"{found} of {', '.join(sorted({type(part).__name__ for part in value}))}"
    return errors.UsageError(
        "is of the wrong type", where=errors.Field(name), value=found, expected=expected
    )


# ---- Kinds ---------------------------------------------------------------------------------------


def _text(value: Any, _: str = "") -> str:
    if not isinstance(value, str):
        raise TypeError
    return str.__str__(value)  # str(value) of a member of an Enum may be its name


def one_line(value: Any, _: str = "") -> str:
    """Return a name that a release repeats, unless it has a character that no release prints."""
    from primo_scale.verify.document import ONE_LINE  # loads msgspec

    if not re.fullmatch(ONE_LINE, _text(value)):
        raise errors.UsageError(
            "a release repeats this name, which is empty or has control characters",
            value=repr(value),
            remedy="Give it another name, of printable text on one line",
        )
    return _text(value)


def _flag(value: Any, _: str) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):  # of Python or of NumPy
        raise TypeError
    return bool(value)


def local_path(value: Any, name: str) -> Path:
    """Return a path on this machine, and not a URL."""
    if "://" in str(value):
        raise errors.UsageError(
            "is a URL, and this is written to a disk (docs/object_storage.md lists what object "
            "stores can hold)",
            value=value,
        )
    return locations.usable_path(value, errors.Field(name))


def regular_file(value: Any, name: str = "path") -> Path:
    """Return the path of a file, unless it is a pipe, a socket or a device."""
    path = locations.usable_path(value, errors.Field(name))
    files.refuse_special_file(path)
    return path


def _public_file(value: Any, name: str) -> Path:
    one_line(Path(value).name)
    return regular_file(value, name)


def _location(value: Any, name: str) -> object:
    return locations.parse_location(locations.usable_location(value, errors.Field(name)))


def _parts(value: Any) -> Iterator[Any]:
    """Return one value or several as several."""
    if isinstance(value, Mapping) or hasattr(value, "columns"):  # which iterate over names
        raise TypeError
    return iter((value,) if isinstance(value, str | PathLike | Number) else value)


def several(kind: Kind, *, metavar: str = "", repeats: bool = False) -> Kind:
    """Return the kind of a tuple of values, of which one may be given alone."""

    def read(value: Any, name: str) -> tuple[object, ...]:
        return tuple(kind.read(part, name) for part in _parts(value))

    return Kind(f"one or several {kind.words}", read, metavar or kind.metavar, True, repeats)


def expanded_paths(value: Any, name: str = "path") -> tuple[Path, ...]:
    """Return the paths that one path or several stand for, in order.

    ``chr{1..22}`` stands for 22 paths, and ``@`` in a file name for ``{1..22}``. A file whose name
    ends in ``.list`` holds one path per line.
    """
    paths = [locations.usable_path(part, errors.Field(name)) for part in _parts(value)]
    return tuple(path for given in paths for path in _expand(given))


def _expand(path: Path) -> Iterator[Path]:
    if path.suffix == ".list":
        yield from (part for line in _lines(path) for part in _expand(Path(line)))
        return
    text = str(path.with_name(path.name.replace("@", _AUTOSOMES))) if path.name else str(path)
    found = _RANGE.search(text)
    if found is None:
        yield path
        return
    for number in range(int(found[1]), int(found[2]) + 1):
        yield from _expand(Path(f"{text[: found.start()]}{number}{text[found.end() :]}"))


def _lines(path: Path) -> list[str]:
    try:
        lines = regular_file(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InputError(
            f"cannot be read as a list of paths: {error}", where=path
        ) from error
    return [line.strip() for line in lines if line.strip()]


def _public_files(value: Any, name: str) -> tuple[Path, ...]:
    return tuple(_public_file(path, name) for path in expanded_paths(value, name))


def number(interval: str = "(-inf, inf)", metavar: str = "NUMBER") -> Kind:
    """Return the kind of finite numbers in an interval."""
    return Kind("float", lambda value, _: float(value), metavar, interval=interval)


def count(interval: str = "[1, inf)", metavar: str = "N") -> Kind:
    """Return the kind of whole numbers in an interval."""

    def read(value: Any, _: str) -> int:
        return int(value) if isinstance(value, str) else operator.index(value)

    return Kind("int", read, metavar, interval=interval)


def choice(values: Iterable[Any]) -> Kind:
    """Return the kind of one of several texts, which may be members of an enumeration."""
    choices = {str(value): value for value in values}

    def read(value: Any, _: str) -> object:
        if value not in choices:
            raise errors.UsageError("not a valid choice", value=value, limit=", ".join(choices))
        return choices[value]

    return Kind(" or ".join(choices), read, "|".join(choices))


FLAG = Kind("bool", _flag)
TEXT = Kind("str", _text, "TEXT")
LINE = Kind("str", one_line, "NAME")
NAMES = several(Kind("str", _text), metavar="NAME[,NAME...]")
AUTO_NUMBER = Kind(
    "float or None",
    lambda value, _: None if value == "auto" else float(value),
    "auto|VALUE",
    interval="[0, inf)",
)
PATH = Kind("path", local_path, "PATH")
FILE = Kind("path", regular_file, "FILE")
PUBLIC_FILE = Kind("path", _public_file, "FILE")
"""File of which a release repeats the name, without directories."""
PATHS = Kind("one or several path", expanded_paths, "PATH[,PATH...]", several=True)
PUBLIC_FILES = Kind("one or several path", _public_files, "PREFIX[,PREFIX...]", several=True)
SCORES = several(PATH, metavar="DIR|FILE", repeats=True)
LOCATION = Kind("path or URL", _location, "PATH|URL")


# ---- Requests from fields ------------------------------------------------------------------------


def declared(kind: type) -> dict[str, tuple[Option, object]]:
    """Return the declaration and the default of each field of a request by its name."""
    return {each.alias: (each.metadata["option"], each.default) for each in attrs.fields(kind)}


def request_of(kind: type[Request], given: Mapping[str, Any]) -> Request:
    """Return a request of fields, none of which is unknown or missing."""
    known = declared(kind)
    for name, (_, default) in known.items():
        if default is NEEDED and given.get(name) is None:
            raise errors.UsageError("is needed", where=errors.Field(name))
    for name in given.keys() - known.keys():
        raise errors.UsageError(
            "no such field", where=name, value=given[name], limit=", ".join(known)
        )
    return kind(**given)


def takes(
    kind: type[Request], *others: type[attrs.AttrsInstance]
) -> Callable[[Callable[[Any], Result]], Callable[..., Result]]:
    """Return a decorator: the function takes a request, or the fields of one as keywords.

    Errors of the system that a user can resolve become those of `primo_scale.errors`.
    """

    def decorate(function: Callable[[Any], Result]) -> Callable[..., Result]:
        @wraps(function)
        def call(request: Any = None, /, **fields: Any) -> Result:
            with errors.errors_explained():
                if request is None:
                    request = request_of(kind, fields)
                elif fields or not isinstance(request, (kind, *others)):
                    names = " or ".join(one.__name__ for one in (kind, *others))
                    raise wrong_type("request", request, f"{names}, or its fields as keywords")
                return function(request)

        fields = inspect.signature(kind).parameters.values()
        returned = inspect.signature(function).return_annotation
        vars(call)["__signature__"] = inspect.Signature([*fields], return_annotation=returned)
        return call

    return decorate


def options_of(request: attrs.AttrsInstance) -> list[tuple[str, object]]:
    """Return the name of each option of a request, also of an expert's one, with its value."""
    return [
        (errors.Field(each.alias).option.removeprefix("--"), getattr(request, each.alias))
        for each in attrs.fields(type(request))
    ]
