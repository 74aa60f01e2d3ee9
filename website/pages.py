"""Pages of the site that do not lie in docs/, and links to them (a hook of MkDocs).

A link from docs/ to another file of the repository, such as a test, leads to a page of the site
with the content of that file, so that the site is complete without a code host. LaTeX becomes
MathML, which browsers draw without scripts or fonts from elsewhere.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PYTHON = os.environ.get("PRIMO_SCALE_PYTHON", str(ROOT / ".venv/bin/python"))
"""Python of the product, which knows the signatures of the interface."""
MOVED = {"README.md": "quick-start.md"}
"""Pages of the repository with another name in the site, which has no folder for docs/."""
_LINK = re.compile(r"(\]\(|^\[[^\]^]+\]: )([^)\s]+)", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\\([(\[])(.*?)\\[)\]]", re.DOTALL)
_MARKED = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
_FIGURE = re.compile(r'<img [^>]*src="([^"]+\.svg)"')
_MATHML = "http://www.w3.org/1998/Math/MathML"
_LONG = 24  # characters
_RELATIONS = set("=<>≤≥≈∈≠≡∼→⊂⊆∝≪≫")
_OPENING, _CLOSING = set("([{⌊⌈"), set(")]}⌋⌉")
_OPTIONS = "how-to/options.md"
_OPTION = re.compile(r"^\* `((?:--)?([\w-]+)[^`]*)`: (.*)$", re.MULTILINE)
_BOOSTS = {_OPTIONS: 2, "papers/": 0.3, "maths/": 0.5, "CHANGELOG": 0.2, "benchmarks": 0.5}
"""Weights in the search, by the beginning of the path of a page."""
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version in the footer, and complete the menu."""
    text = (ROOT / "primo_scale/version.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)
    assert version is not None
    config.copyright = f"primo_scale {version[1]}"
    config.nav = _completed(config.nav or [], set(_named(config.nav or [])))
    return config


def _named(entries: list[Any]) -> Iterator[str]:
    """Return the pages in a part of the menu."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from _named(value) if isinstance(value, list) else [value]


def _completed(entries: list[Any], named: set[str]) -> list[Any]:
    """Return a part of the menu with pages in place of each ``FOLDER/*``."""
    completed: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, inner),) = entry.items()
            is_section = isinstance(inner, list)
            completed.append({title: _completed(inner, named) if is_section else inner})
        elif entry.endswith("/*"):
            found = (ROOT / "docs" / entry[:-2]).glob("*.md")
            pages = sorted(page.relative_to(ROOT / "docs").as_posix() for page in found)
            completed += [page for page in pages if page not in named]
        else:
            completed.append(entry)
    return completed


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of docs/, and those of the Python interface."""
    for asset in ("style.css", "search.js", "iframe-worker.js", "icon.svg"):
        path = str(ROOT / "website" / asset)
        files.append(File.generated(config, f"website/{asset}", abs_src_path=path))
    command = [PYTHON, str(ROOT / "website/interface.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    interface = subprocess.run(command, env=environment, capture_output=True, check=True)
    for name, text in json.loads(interface.stdout).items():
        files.append(File.generated(config, name, content=text))
    added = {"README.md"}
    readme = (ROOT / "README.md").read_text("utf-8")
    files.append(File.generated(config, MOVED["README.md"], content=readme))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    while pages:
        page = pages.pop()
        for target in sorted(_outside(page) - added):
            added.add(target)
            path = ROOT / target
            content = path.read_text("utf-8") if path.suffix == ".md" else _shown(path)
            files.append(File.generated(config, _place(target), content=content))
            if path.suffix == ".md":
                pages.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to files of the repository to their pages in the site."""
    place = page.file.src_uri
    for beginning, boost in _BOOSTS.items():
        if place.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    source = next((old for old, new in MOVED.items() if new == place), None)
    path = ROOT / source if source else ROOT / "docs" / place
    if not path.exists():
        path = ROOT / place
    if not path.exists():
        return markdown

    def lead(match: re.Match[str]) -> str:
        target, hash_mark, anchor = match[2].partition("#")
        if not target or ":" in target:
            return match[0]
        link = relpath(_place(_in_repository(path, target)), PurePosixPath(place).parent)
        return f"{match[1]}{link}{hash_mark}{anchor}"

    if place == _OPTIONS:  # a heading for each, which the search finds and which has an address
        markdown = _OPTION.sub(r"### `\1` {#\2}\n\n\3\n", markdown)
    parts = _CODE.split(markdown)
    return "".join(p if number % 2 else _LINK.sub(lead, p) for number, p in enumerate(parts))


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Replace LaTeX by MathML, also in the table of contents, and mark figures drawn on white."""
    entries = list(page.toc)
    while entries:
        entry = entries.pop()
        entry.title = _drawn(entry.title)
        entries += entry.children
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def marked_figure(image: re.Match[str]) -> str:
        path = folder / image[1]
        knows_dark = path.exists() and "prefers-color-scheme" in path.read_text("utf-8")
        return image[0] if knows_dark else image[0].replace("<img ", '<img class="on-white" ', 1)

    content = _FIGURE.sub(marked_figure, content)
    return _MARKED.sub(lambda marked: _drawn(marked[2]), content)


def _drawn(text: str) -> str:
    """Return a text with its formulas as MathML."""

    def drawn(found: re.Match[str]) -> str:
        latex, is_block = html.unescape(found[2]).strip(), found[1] == "["
        if is_block:
            return convert(latex, display="block")
        parts = _parts(convert(latex, display="inline"))
        return "<wbr>".join(f'<span class="formula">{part}</span>' for part in parts)

    return _FORMULA.sub(drawn, text)


def _parts(mathml: str) -> list[str]:
    """Cut an inline formula before its relations and after its commas, where a line may end."""
    ElementTree.register_namespace("", _MATHML)
    formula = ElementTree.fromstring(mathml)
    if len("".join(formula.itertext())) < _LONG:
        return [mathml]
    (row,) = formula
    rows: list[list[ElementTree.Element]] = [[]]
    depth = 0
    for each in row:
        is_operator = each.tag == f"{{{_MATHML}}}mo"
        text = (each.text or "") if is_operator else ""
        depth += (text in _OPENING) - (text in _CLOSING)
        if text in _RELATIONS and rows[-1] and depth <= 0:
            each.set("form", "infix")
            rows.append([])
        rows[-1].append(each)
        if text == "," and depth <= 0:
            rows.append([])
    parts = []
    for elements in filter(None, rows):
        part = ElementTree.Element(f"{{{_MATHML}}}math", formula.attrib)
        ElementTree.SubElement(part, row.tag).extend(elements)
        parts.append(ElementTree.tostring(part, encoding="unicode"))
    return parts


def _in_repository(page: Path, target: str) -> str:
    """Return the path, from the root of the repository, of what a page links to."""
    return normpath((page.parent.relative_to(ROOT) / target).as_posix())


def _place(target: str) -> str:
    """Return the path in docs/ of the page, or file, for a path of the repository."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target.endswith(".md"):
        return MOVED.get(target, target)
    return f"source/{target}.md"


def _outside(page: Path) -> set[str]:
    """Return the paths in the repository, but not in docs/, to which a page links."""
    text = "".join(_CODE.split(page.read_text("utf-8"))[::2])
    targets = (target.partition("#")[0] for _, target in _LINK.findall(text))
    found = {_in_repository(page, target) for target in targets if target and ":" not in target}
    return {target for target in found if not target.startswith("docs/")}


def _shown(path: Path) -> str:
    """Return a page with the content of a file, or the names in a folder."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        lines = "\n".join(f"* `{entry.name}`" for entry in sorted(path.iterdir()))
        return f"{_NOT_SEARCHED}# {name}\n\n{lines}\n"
    language = {".py": "python", ".json": "json", ".toml": "toml"}.get(path.suffix, "text")
    return f"{_NOT_SEARCHED}# {name}\n\n````{language}\n{path.read_text('utf-8')}\n````\n"
