"""Links and references to the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

from primo_scale import __version__

REPOSITORY = Path(__file__).resolve().parents[2]
_INLINE = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DEFINITION = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
_DOCS_PATH = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")


FOLDERS = (
    *(".github", "benchmarks", "cluster", "demo", "docs", "experiments"),
    *("news", "pipelines", "primo_scale", "tests", "website", "workflows"),
)


def source_files(*suffixes):
    """Return the files of the source tree, without reference data."""
    found = [path for path in REPOSITORY.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_relative_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_documentation_named_in_the_code_exists():
    named = {
        (path.relative_to(REPOSITORY).as_posix(), reference)
        for path in source_files(".py", ".md", ".toml", ".json", ".j2", "Makefile")
        if path.name != "CHANGELOG.md"  # which names deleted pages
        for reference in _DOCS_PATH.findall(path.read_text(encoding="utf-8"))
    }
    assert sorted(item for item in named if not (REPOSITORY / item[1]).exists()) == []


def test_the_citation_and_the_image_names_have_this_version():
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(rf"^## {re.escape(__version__)} \((.+)\)$", changelog, re.MULTILINE)
    assert re.findall(r"^date-released: (.+)$", citation, re.MULTILINE) == released
    pages = [path for path in source_files("") if REPOSITORY / "cluster" in path.parents]
    pages.append(REPOSITORY / "docs/installation.md")
    named = re.findall(r"primo-scale:([\d.]+\d)", "".join(map(Path.read_text, pages)))
    assert set(named) == {__version__}
