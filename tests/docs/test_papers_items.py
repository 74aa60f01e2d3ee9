"""Every numbered item of the papers has a row in docs/papers."""

import re

import pytest
from support.documented_code import ROOT

# Numbers of the papers' items, from 1; the thesis numbers its statements in one sequence.
ITEMS = {
    "PRIMO": {"Definition": 6, "Lemma": 15, "Theorem": 6, "Algorithm": 4, "Figure": 6, "Table": 1},
    "The thesis": {
        "Algorithm": 4, "Figure": 6, "Proposition": {1, 2, 16}, "Definition": {3, 6},
        "Theorem": {4, 5}, "Lemma": {*range(7, 16), 17, 18},
    },
    "Wu et al.": {
        "Definition": 1, "Assumption": 3, "Lemma": 2, "Theorem": 2, "Algorithm": 2, "Figure": 3,
        "Table": 1,
    },
}  # fmt: skip

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
    found = named_in(rows_of(paper))
    for kind, numbers in ITEMS[paper].items():
        expected = set(range(1, numbers + 1)) if isinstance(numbers, int) else numbers
        assert expected <= found.get(kind, set()), kind
