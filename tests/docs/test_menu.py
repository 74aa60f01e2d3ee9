"""Every page of the documentation is in the menu of the site."""

import re

from support.documented_code import ROOT

DOCS = ROOT / "docs"
MENU = (ROOT / "website/mkdocs.yml").read_text().partition("\nnav:\n")[2]
NAMED = re.findall(r"[\w./-]+\.md$", MENU, re.MULTILINE)
FOLDERS = re.findall(r"([\w-]+)/\*$", MENU, re.MULTILINE)


def test_every_page_is_in_the_menu_once():
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    in_folders = {page for page in pages if page.rpartition("/")[0] in FOLDERS}
    assert sorted(pages - in_folders - {*NAMED}) == []
    assert len(NAMED) == len(set(NAMED))


def test_the_menu_names_no_page_that_is_gone():
    made = {"quick-start.md"}
    gone = [name for name in NAMED if not (DOCS / name).exists() and not (ROOT / name).exists()]
    assert [name for name in gone if name not in made and not name.startswith("api/")] == []


def test_the_menu_has_six_tabs():
    tabs = re.findall(r"^  - (.+):$", MENU, re.MULTILINE)
    assert tabs == ["Start", "How to", "Reference", "Privacy", "Mathematics", "Contribute"]
