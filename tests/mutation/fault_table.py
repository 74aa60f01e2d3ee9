"""The faults: what is changed in the product, why it matters, and which tests must fail.

A file ``faults/*.toml`` has groups of faults that the same tests notice. A fault is a table named
after the function, class or constant that it changes, and after itself::

    [group.Layout.tiles.last-tile-lost]
    old = "range(count)"
    new = "range(count - 1)"
    why = "What the fault would cost."

The name is looked up in all modules of the product: ``tiles``, ``Layout.tiles`` and
``plan.Layout.tiles`` mean the same where it is unique. The old code is an expression, a run of
statements, an argument (``count=1``, without spaces), or what begins a compound statement (``if
count:``). The function has it once; comments and layout do not count.

``tests`` of the group or of the fault are names of test files, with ``::test`` where one is meant;
``slow_tests`` are tests of the slow tier that fail where the quick ones do not; ``explained`` is
the reason why no test can fail.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLES = Path(__file__).with_name("faults")
_KEYWORD = re.compile(r"\w+=[^=]")


class BrokenTableError(Exception):
    """The table of faults, or a test that it names, is broken."""


class StaleFaultError(BrokenTableError):
    """A fault does not fit the product any more."""


@dataclass(frozen=True)
class Fault:
    """A change of one function, class or constant of the product."""

    table: str  # stem of the file that lists it
    name: str  # unique
    function: str
    old: str
    new: str
    why: str  # what the fault would cost
    tests: tuple[str, ...]  # those most likely to fail first
    slow_tests: tuple[str, ...] = ()
    explained: str = ""

    def codes(self) -> tuple[list[ast.AST], list[ast.AST]]:
        """Return the old and the new code as syntax trees of one kind."""
        old, new = _parsed(self.old.strip()), _parsed(self.new.strip())
        if len(old) == len(new) == 1 and all(isinstance(c, ast.Expr) for c in (*old, *new)):
            return [old[0].value], [new[0].value]
        return old, new


@dataclass(frozen=True)
class Place:
    """Where code is: in an attribute of a syntax node, from an index on where that is a list."""

    path: str  # product file, relative to the root of the tree
    parent: ast.AST
    attribute: str
    start: int | None


class Product:
    """Syntax trees of the product's modules, and the definitions in them by dotted name."""

    def __init__(self, root: Path) -> None:
        self._modules: dict[str, ast.Module] = {}
        self._definitions: dict[str, tuple[str, ast.AST]] = {}
        for file in sorted((root / "primo_scale").rglob("*.py")):
            path = str(file.relative_to(root))
            self._modules[path] = ast.parse(file.read_text(encoding="utf-8"))
            self._define(self._modules[path], path.removesuffix(".py").replace("/", "."), path)

    def _define(self, node: ast.AST, above: str, path: str) -> None:
        for inner in ast.iter_child_nodes(node):
            names = [inner.name] if isinstance(inner, ast.FunctionDef | ast.ClassDef) else []
            if isinstance(node, ast.Module) and isinstance(inner, ast.Assign | ast.AnnAssign):
                left = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                nodes = (node for target in left for node in ast.walk(target))
                names = [node.id for node in nodes if isinstance(node, ast.Name)]
            for name in names:
                self._definitions[f"{above}.{name}"] = (path, inner)
            self._define(inner, ".".join([above, *names[:1]]), path)

    def with_fault(self, fault: Fault) -> tuple[str, str]:
        """Return the path of the file that a fault changes, and its content with the fault."""
        (old, new), place = fault.codes(), self.place(fault)
        before = getattr(place.parent, place.attribute)
        after: Any = new[0]
        if place.start is not None:
            if _is_head(old):
                new[0].body = before[place.start].body
                new[0].orelse = getattr(before[place.start], "orelse", [])
            after = [*before[: place.start], *new, *before[place.start + len(old) :]]
        setattr(place.parent, place.attribute, after)
        try:
            return place.path, ast.unparse(self._modules[place.path])
        finally:
            setattr(place.parent, place.attribute, before)

    def place(self, fault: Fault) -> Place:
        """Return the place that a fault changes, or raise a StaleFaultError.

        A function that moved to another module or class is found by the rest of its name.
        """
        words, (old, _) = fault.function.split("."), fault.codes()
        for name in (".".join(words[start:]) for start in range(len(words))):
            ends = [at for known, at in self._definitions.items() if known.endswith(f".{name}")]
            found = (place for at in ends for place in _places(old, *at))
            places = {(id(place.parent), place.attribute, place.start): place for place in found}
            if len(places) == 1:
                return places.popitem()[1]
        raise StaleFaultError(f"{len(ends)} definitions of {name}, {len(places)} such places")

    def homes(self, fault: Fault) -> list[str]:
        """Return the smallest definitions that have the old code of a fault now."""
        old, _ = fault.codes()
        homes = [name for name, at in self._definitions.items() if any(_places(old, *at))]
        return [home for home in homes if not any(n.startswith(f"{home}.") for n in homes)]


def _parsed(code: str) -> list[Any]:
    if _KEYWORD.match(code):
        return [*ast.parse(f"call({code})", mode="eval").body.keywords]
    return ast.parse(f"{code} ..." if code.endswith(":") else code).body


def _places(old: list[ast.AST], path: str, definition: ast.AST) -> Iterator[Place]:
    wanted, first = [ast.dump(node) for node in old], type(old[0])
    head = _head(old[0]) if _is_head(old) else None
    for parent in ast.walk(definition):
        for attribute, value in ast.iter_fields(parent):
            nodes = value if isinstance(value, list) else [value]
            for start, node in enumerate(nodes):
                if type(node) is not first:
                    continue
                if head is None:
                    same = [ast.dump(n) for n in nodes[start : start + len(old)]] == wanted
                else:
                    same = _head(node) == head
                if same:
                    yield Place(path, parent, attribute, start if nodes is value else None)


def _is_head(code: list[ast.AST]) -> bool:
    """Return whether code is one compound statement whose body is the ``...`` of `_parsed`."""
    body = getattr(code[0], "body", None)
    return isinstance(body, list) and [ast.unparse(node) for node in body] == ["..."]


def _head(statement: ast.AST) -> list[str]:
    inner = ast.iter_child_nodes(statement)
    return [ast.dump(node) for node in inner if not isinstance(node, ast.stmt)]


def read_faults() -> list[Fault]:
    """Return all faults, table by table.

    Two faults of one name, and an unknown or missing entry, raise a BrokenTableError.
    """
    faults = [fault for path in sorted(TABLES.glob("*.toml")) for fault in _faults_in(path)]
    names = [fault.name for fault in faults]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BrokenTableError(f"names of several faults: {', '.join(twice)}")
    return faults


def _faults_in(path: Path) -> Iterator[Fault]:
    for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
        tests = group.pop("tests")
        for words, entry in _entries(group, []):
            entry = {"tests": tests, **entry}
            lists = {key: tuple(entry[key]) for key in ("tests", "slow_tests") if key in entry}
            try:
                yield Fault(path.stem, words[-1], ".".join(words[:-1]), **{**entry, **lists})
            except TypeError as error:
                raise BrokenTableError(f"{path.name}: {words[-1]}: {error}") from error


def _entries(table: dict[str, Any], above: list[str]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    for word, inner in table.items():
        if "old" in inner:
            yield [*above, word], inner
        else:
            yield from _entries(inner, [*above, word])
