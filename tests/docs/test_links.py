"""Links, references and the menu of the documentation lead somewhere."""

import re
from pathlib import Path

import pytest
from support.documented_code import ROOT

from primo_scale import __version__

DOCS = ROOT / "docs"
_INLINE = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DEFINITION = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
_DOCS_PATH = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")


FOLDERS = (
    *(".github", "benchmarks", "cluster", "demo", "docs", "experiments"),
    *("news", "pipelines", "primo_scale", "tests", "website", "workflows"),
)


def source_files(*suffixes):
    """Return the files of the source tree, without reference data."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(p for p in found if p.name.endswith(suffixes) and "reference" not in p.parts)


PAGES = source_files(".md")


def without_code(text):
    """Return the text of a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def broken_links(page):
    """Return the relative links of a page that lead nowhere."""
    text = without_code(page.read_text(encoding="utf-8"))
    targets = _INLINE.findall(text) + [target for _, target in _DEFINITION.findall(text)]
    relative = [target for target in targets if "://" not in target and target[0] != "#"]
    return [t for t in relative if not (page.parent / t.split("#")[0]).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_documentation_named_in_the_code_exists():
    named = {
        (path.relative_to(ROOT).as_posix(), reference)
        for path in source_files(".py", ".md", ".toml", ".json", ".j2", "Makefile")
        if path.name != "CHANGELOG.md"  # which names deleted pages
        for reference in _DOCS_PATH.findall(path.read_text(encoding="utf-8"))
    }
    assert sorted(item for item in named if not (ROOT / item[1]).exists()) == []


def test_the_citation_and_the_image_names_have_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(rf"^## {re.escape(__version__)} \((.+)\)$", changelog, re.MULTILINE)
    assert re.findall(r"^date-released: (.+)$", citation, re.MULTILINE) == released
    pages = [path for path in source_files("") if ROOT / "cluster" in path.parents]
    pages.append(ROOT / "docs/installation.md")
    named = re.findall(r"primo-scale:([\d.]+\d)", "".join(map(Path.read_text, pages)))
    assert set(named) == {__version__}


MENU = (ROOT / "website/mkdocs.yml").read_text().partition("\nnav:\n")[2]
NAMED = re.findall(r"[\w./-]+\.md$", MENU, re.MULTILINE)
MENU_FOLDERS = re.findall(r"([\w-]+)/\*$", MENU, re.MULTILINE)


def test_every_page_is_in_the_menu_once():
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    in_folders = {page for page in pages if page.rpartition("/")[0] in MENU_FOLDERS}
    assert sorted(pages - in_folders - {*NAMED}) == []
    assert len(NAMED) == len(set(NAMED))


def test_the_menu_names_no_page_that_is_gone():
    made = {"quick-start.md"}
    gone = [name for name in NAMED if not (DOCS / name).exists() and not (ROOT / name).exists()]
    assert [name for name in gone if name not in made and not name.startswith("api/")] == []


def test_the_menu_has_six_tabs():
    tabs = re.findall(r"^  - (.+):$", MENU, re.MULTILINE)
    assert tabs == ["Start", "How to", "Reference", "Privacy", "Mathematics", "Contribute"]
