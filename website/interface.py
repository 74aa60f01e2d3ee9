"""Print the pages of the Python interface as JSON: Markdown by path in the site.

It runs in the environment of the product, because signatures and defaults of requests are made when
the package is imported.
"""

from __future__ import annotations

import inspect
import json
import re
from enum import Enum
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import primo_scale
from primo_scale import PrimoError
from primo_scale.run.fields import HEADINGS, declared

TOPICS = {
    "release": (
        "Release and its stages",
        "release ReleaseRequest ingest IngestRequest accumulate AccumulateRequest finalize "
        "FinalizeRequest",
    ),
    "plan": ("Plan and forecast", "plan forecast ForecastRequest ForecastRow"),
    "read": (
        "Read, verify and evaluate",
        "open_release Release verify Verification evaluate EvaluationRequest Evaluation "
        "open_genotypes from_pandas_plink",
    ),
    "parties": (
        "Ledger and parties",
        "ledger party_roster party_release PartyReleaseRequest open_party_release PartyRelease "
        "party_fit PartyFitRequest PartyModel",
    ),
    "errors": (
        "Errors",
        "PrimoError UsageError InputError ResourceError InterruptedRun BudgetRefused",
    ),
}
"""Title of a page, and the names on it in their order."""
_UNDERLINE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n((?:(?: +.*)?\n)*)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return the text of every page."""
    top = _paragraphs(inspect.getdoc(primo_scale) or "")
    topics = "\n".join(
        f"* [{title}]({name}.md): {', '.join(f'`{each}`' for each in names.split())}"
        for name, (title, names) in TOPICS.items()
    )
    texts = {"api/index.md": f"# Python interface\n\n{top}\n\n{topics}\n"}
    for name, (title, names) in TOPICS.items():
        entries = [_entry(each, getattr(primo_scale, each)) for each in names.split()]
        texts[f"api/{name}.md"] = "\n\n".join([f"# {title}", *entries, ""])
    return texts


def _entry(name: str, thing: Any) -> str:
    """Describe a public function, class or module, and the unnamed type that it returns."""
    if inspect.ismodule(thing) and not callable(thing):
        functions = (
            _described(f"{name}.{each}", function, 3)
            for each, function in sorted(vars(thing).items())
            if inspect.isfunction(function)
            and function.__module__ == thing.__name__
            and not each.startswith("_")
        )
        heading = f"## {name} {{#primo_scale.{name}}}"
        return "\n\n".join([heading, _paragraphs(inspect.getdoc(thing) or ""), *functions])
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        thing = inspect.unwrap(primo_scale.verify.release.verify)  # a package that can be called
    text = _described(name, thing, 2)
    returned = _returned(thing)
    if returned is not None:
        text += "\n\n" + _described(returned.__name__, returned, 3)
    return text


def _returned(function: Any) -> type | None:
    """Return the class that a function returns, if `primo_scale` does not export it."""
    if inspect.isclass(function):
        return None
    name = str(inspect.signature(function).return_annotation)
    found = vars(inspect.getmodule(inspect.unwrap(function))).get(name)
    public = name in primo_scale.__all__ or not str(getattr(found, "__module__", "")).startswith(
        "primo_scale"
    )
    return None if public else found


def _described(name: str, thing: Any, level: int) -> str:
    """Return heading, signature, text and entries of a function or a class."""
    parts = [f"{'#' * level} {name} {{#primo_scale.{name}}}"]
    parameters = inspect.signature(thing).parameters
    request = None if inspect.isclass(thing) else _request_of(thing)
    if request is not None:
        result = inspect.signature(thing).return_annotation
        parts.append(_code(f"{name}(request: {request}, /) -> {result}\n{name}(**fields)"))
        parts.append(f"Keywords are the fields of [{request}](#primo_scale.{request}).")
    elif not inspect.isclass(thing) or thing is PrimoError:
        parts.append(_code(_signature(name, thing)))
    text, *sections = _UNDERLINE.split((inspect.getdoc(thing) or "") + "\n")
    parts.append(_paragraphs(text))
    if name.endswith("Request"):
        return "\n\n".join([*parts, *_fields(thing)])
    for title, content in zip(sections[::2], sections[1::2], strict=True):
        parts += [f"**{title}**", _items(content, parameters)]
    if inspect.isclass(thing) and not name.endswith(("Request", "Error")):
        parts += _members(thing)
    return "\n\n".join(part for part in parts if part.strip())


def _request_of(function: Any) -> str | None:
    """Return the name of the request whose fields are the keywords of a function."""
    own = [*inspect.signature(function).parameters]
    requests = [each for each in primo_scale.__all__ if each.endswith("Request")]
    same = [
        each
        for each in requests
        if [*inspect.signature(getattr(primo_scale, each)).parameters] == own
    ]
    return same[0] if same else None


def _signature(name: str, thing: Any) -> str:
    """Return the call, one parameter a line if it is long."""
    signature = inspect.signature(thing)
    words, kinds = [], inspect.Parameter
    values = [value for key, value in signature.parameters.items() if key != "self"]
    for before, value in pairwise([None, *values]):
        assert value is not None
        if value.kind is kinds.KEYWORD_ONLY and (before is None or before.kind is not value.kind):
            words.append("*")
        type_name = "" if value.annotation is kinds.empty else f": {value.annotation}"
        default = "" if value.default is kinds.empty else f" = {_value(value.default)}"
        words.append(f"{value.name}{type_name}{default}")
    empty = signature.return_annotation in (inspect.Signature.empty, None, "None")
    end = "" if inspect.isclass(thing) or empty else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(words)}){end}"
    if len(line) <= 80:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){end}"])


def _value(default: object) -> str:
    plain = default.value if isinstance(default, Enum) else default
    return repr(str(plain) if isinstance(plain, PurePath) else plain)


def _members(kind: type) -> list[str]:
    """Return a list of the public properties and methods of a class."""
    lines = []
    for name, member in vars(kind).items():
        text = inspect.getdoc(member) or ""
        if name.startswith("_") or not text or isinstance(member, str | int | float | tuple):
            continue
        call = _signature(name, member) if inspect.isfunction(member) else name
        lines.append(f"* `{' '.join(call.split())}`: {_one_line(_UNDERLINE.split(text)[0])}")
    return ["**Properties and methods**", "\n".join(lines)] if lines else []


def _fields(request: type) -> list[str]:
    """Return the fields of a request by heading, with types, defaults and intervals."""
    lines: dict[str, list[str]] = {}
    parameters = inspect.signature(request).parameters
    for name, (field, _) in declared(request).items():
        parameter = parameters[name]
        required = parameter.default is inspect.Parameter.empty
        default = " (required)" if required else f" = {_value(parameter.default)}"
        interval = field.kind.interval
        shown = "" if interval in ("", "[1, inf)", "(-inf, inf)") else f" *{interval}*"
        text = f"* `{name}: {parameter.annotation}{default}`  \n    {_one_line(field.help)}{shown}"
        lines.setdefault(field.heading or "Other fields", []).append(text)
    order = [*(each for each in HEADINGS if each in lines), *(lines.keys() - {*HEADINGS})]
    return [part for each in order for part in (f"**{each}**", "\n".join(lines[each]))]


def _items(content: str, parameters: Any) -> str:
    """Return a section of a docstring as a list, with types and defaults of the signature."""
    lines = []
    for head, text in _ENTRY.findall(content.strip("\n") + "\n"):
        name, _, type_name = head.partition(" : ")
        parameter = parameters.get(name)
        if parameter is not None and parameter.annotation is not inspect.Parameter.empty:
            type_name = str(parameter.annotation)
        default = ""
        if parameter is not None and parameter.default is not inspect.Parameter.empty:
            default = f" = {_value(parameter.default)}"
        shown = f"{name}: {type_name}{default}" if type_name else name
        lines.append(f"* `{shown}`  \n    {_one_line(text)}")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return _paragraphs(" ".join(text.split()))


def _paragraphs(text: str) -> str:
    """Return a docstring as Markdown, with links to the pages that it names."""
    return re.sub(r"(?<![\w/])`*docs/([\w/-]+\.md)`*", r"[\1](../\1)", inspect.cleandoc(text))


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


if __name__ == "__main__":
    print(json.dumps(pages()))
