"""Links and references to the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

from primo_scale import __version__
from primo_scale.publication import file_names

REPOSITORY = Path(__file__).resolve().parents[2]
_INLINE = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DEFINITION = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
_TEST = re.compile(r"\[`(test_\w+)`\](?:\[(\w+)\]|\(([^)\s]+)\))")
_DOCS_PATH = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")
_LONGEST_LINE = 119


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
MATHS = [page for page in PAGES if page.parent == REPOSITORY / "docs" / "maths"]


def without_code(text):
    """Return the text of a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def broken_links(page):
    """Return the relative links of a page that lead nowhere."""
    text = without_code(page.read_text(encoding="utf-8"))
    targets = _INLINE.findall(text) + [target for _, target in _DEFINITION.findall(text)]
    relative = [target for target in targets if "://" not in target and target[0] != "#"]
    return [t for t in relative if not (page.parent / t.split("#")[0]).exists()]


def missing_tests(page):
    """Return the tests that a page names and that are not where its link leads."""
    text = page.read_text(encoding="utf-8")
    definitions = dict(_DEFINITION.findall(text))
    missing = []
    for name, label, target in _TEST.findall(text):
        file = page.parent / (target or definitions.get(label, "undefined"))
        if not file.is_file() or f"\ndef {name}(" not in file.read_text(encoding="utf-8"):
            missing.append(f"{name} in {file.name}")
    return missing


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


@pytest.mark.parametrize("page", MATHS, ids=lambda page: page.stem)
def test_tests_named_by_the_mathematics_exist(page):
    assert missing_tests(page) == []


@pytest.mark.parametrize("page", MATHS, ids=lambda page: page.stem)
def test_every_theorem_page_has_its_parts_and_short_lines(page):
    text = page.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= _LONGEST_LINE
    parts = () if page.stem == "README" else ("## Setting", "## Tested by", "## Source")
    if "## Theorem" in text:
        parts += ("**Proof", "## On the lattice")
    assert [part for part in parts if part not in text] == []


def test_a_broken_link_and_a_missing_test_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](none.md) [`test_gone`][file]\n\n[file]: page.md\n", encoding="utf-8")
    assert broken_links(page) == ["none.md"]
    assert missing_tests(page) == ["test_gone in page.md"]


def test_the_citation_and_the_image_names_have_this_version():
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(rf"^## {re.escape(__version__)} \((.+)\)$", changelog, re.MULTILINE)
    assert re.findall(r"^date-released: (.+)$", citation, re.MULTILINE) == released
    cluster = [path for path in source_files("") if REPOSITORY / "cluster" in path.parents]
    named = re.findall(r"primo-scale:([\d.]+\d)", "".join(map(Path.read_text, cluster)))
    assert len(named) >= 4 and set(named) == {__version__}


def test_the_picture_of_the_data_flow_shows_every_file_of_a_release():
    """`file_names` has those of a party's release too."""
    picture = (REPOSITORY / "docs/data-flow.svg").read_text(encoding="utf-8")
    of_party = {file_names.PARTY_FILE, file_names.VALUES_FILE, file_names.COLUMNS_FILE}
    names = {value for name, value in vars(file_names).items() if name.isupper()} - of_party
    assert [name for name in sorted(names) if name not in picture] == []
