"""Pages of the site that do not lie in docs/, and links to them (a hook of MkDocs).

A link from docs/ to another file of the repository, such as a test, leads to a page of the site
with the content of that file, so that the site is complete without a code host. LaTeX becomes
MathML, which browsers draw without scripts or fonts from elsewhere.
"""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
HOME = "why.md"
MOVED = {"README.md": "quick-start.md"}
"""Pages of the repository with another name in the site, which has no folder for docs/."""
_LINK = re.compile(r"(\]\(|^\[[^\]^]+\]: )([^)\s]+)", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\\([(\[])(.*?)\\[)\]]", re.DOTALL)
_MARKED = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of docs/, and make `HOME` the first page."""
    home = files.get_file_from_path(HOME)
    assert home is not None
    home.dest_uri = "index.html"
    style = ROOT / "website" / "style.css"
    files.append(File.generated(config, "website/style.css", abs_src_path=str(style)))
    files.append(File.generated(config, "api.md", content=_interface()))
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

    parts = _CODE.split(markdown)
    return "".join(p if number % 2 else _LINK.sub(lead, p) for number, p in enumerate(parts))


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Replace LaTeX by MathML, in the page and in its table of contents."""
    entries = list(page.toc)
    while entries:
        entry = entries.pop()
        entry.title = _drawn(entry.title)
        entries += entry.children
    return _MARKED.sub(lambda marked: _drawn(marked[2]), content)


def _drawn(text: str) -> str:
    """Return a text with its formulas as MathML."""
    kinds = {"[": "block", "(": "inline"}
    return _FORMULA.sub(lambda m: convert(html.unescape(m[2]).strip(), display=kinds[m[1]]), text)


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


def _interface() -> str:
    """Return the page of the Python interface: every name that `primo_scale` exports."""
    tree = ast.parse((ROOT / "primo_scale/__init__.py").read_text("utf-8"))
    exported = (alias.asname for node in ast.walk(tree) for alias in getattr(node, "names", ()))
    names = sorted(filter(None, exported), key=lambda name: (name[0].isupper(), name))
    entries = "".join(f"\n::: primo_scale.{name}\n" for name in names)
    return f"# Python interface\n\n{ast.get_docstring(tree)}\n{entries}"
