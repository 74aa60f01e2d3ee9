"""Every numbered item of the papers has a row in docs/papers."""

import re

import pytest
from support.documented_code import ROOT

ITEMS = {
    "PRIMO": {"Definition": 6, "Lemma": 15, "Theorem": 6, "Algorithm": 4, "Figure": 6, "Table": 1},
    "The thesis": {"Algorithm": 4, "Figure": 6},
    "Wu et al.": {
        "Definition": 1,
        "Assumption": 3,
        "Lemma": 2,
        "Theorem": 2,
        "Algorithm": 2,
        "Figure": 3,
        "Table": 1,
    },
}
"""Numbers of the papers' items, from 1; the thesis numbers its statements in one sequence."""

STATEMENTS_OF_THE_THESIS = {
    "Proposition": {1, 2, 16},
    "Definition": {3, 6},
    "Theorem": {4, 5},
    "Lemma": {7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18},
}

_KINDS = "Definition|Assumption|Lemma|Theorem|Proposition|Algorithm|Figure|Table"
_NAMED = re.compile(rf"\b({_KINDS})s? (\d+(?:(?:, | and )\d+)*)")


def rows_of(paper):
    """Return the first cells of the table of a paper."""
    page = (ROOT / "docs/papers/README.md").read_text(encoding="utf-8")
    (section,) = (part for part in page.split("\n## ") if part.startswith(paper))
    return [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]


def named_in(cells):
    """Return the numbers by the kind of items that cells name."""
    found = {}
    for cell in cells:
        for kind, numbers in _NAMED.findall(cell.replace("Lemmas", "Lemma")):
            found.setdefault(kind, set()).update(map(int, re.findall(r"\d+", numbers)))
    return found


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_has_a_row(paper):
    expected = {kind: set(range(1, last + 1)) for kind, last in ITEMS[paper].items()}
    if paper == "The thesis":
        expected |= STATEMENTS_OF_THE_THESIS
    found = named_in(rows_of(paper))
    assert {kind: numbers - found.get(kind, set()) for kind, numbers in expected.items()} == {
        kind: set() for kind in expected
    }
