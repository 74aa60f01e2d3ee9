"""The command, and the page that contains its output."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from experiments.reference_tables import main

PAGE = Path(__file__).parents[2] / "docs" / "reference_figures.md"


@pytest.mark.parametrize("section", ["1", "2"])
def test_the_page_contains_the_output_of_the_command(section):
    result = CliRunner().invoke(main, ["--section", section])
    assert result.exit_code == 0
    assert f"Section {section}" in result.output
    tables = [line for line in result.output.splitlines() if line.startswith("|")]
    assert len(tables) > 10
    page = PAGE.read_text().splitlines()
    assert [line for line in tables if line not in page] == []


def test_one_repetition_has_no_standard_error():
    assert CliRunner().invoke(main, ["--repetitions", "1"]).exit_code == 2
