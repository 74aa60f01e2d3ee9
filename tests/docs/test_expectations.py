"""docs/expectations.md: 30 rows, each with its state, and tests that exist."""

import re
from collections import Counter

from test_links import REPOSITORY

PAGE = (REPOSITORY / "docs/expectations.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in re.findall(r"^\| \d.*\|$", PAGE, re.MULTILINE)]
STATES = [re.split("[:, ]", cells[2].strip())[0] for cells in ROWS]


def missing_tests(text):
    """Return the tests that a text names and that do not exist."""
    found = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    return [
        f"{path}::{name}"
        for path, name in found
        if not (file := REPOSITORY / path).is_file()
        or f"\ndef {name}(" not in file.read_text(encoding="utf-8")
    ]


def test_thirty_rows_have_a_state_and_all_but_the_missing_a_test_that_exists():
    assert [int(cells[0]) for cells in ROWS] == list(range(1, 31))
    assert set(STATES) <= {"met", "partly", "missing"}
    shown = ["::" in cells[3] for cells in ROWS]
    assert shown == [state != "missing" for state in STATES]
    assert missing_tests(PAGE) == []
    assert missing_tests("`tests/docs/test_expectations.py::test_gone`") != []


def test_the_summary_counts_the_states():
    count = Counter(STATES)
    assert (
        f"\n{count['met']} are met, {count['partly']} partly, and {count['missing']} missing"
        in PAGE
    )
