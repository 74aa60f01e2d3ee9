"""Errors that gain a sentence on their way to the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from primo_scale.errors import InputError, InterruptedRun, remedy_extended


def test_a_sentence_is_added_and_nothing_is_lost():
    with (
        pytest.raises(InputError) as raised,
        remedy_extended(lambda: "Budget was spent", where=Path("noise")),
    ):
        raise InputError("has the wrong size", value=1, expected=2, remedy="Restore it")
    line = "noise: has the wrong size (found 1, expected 2). Restore it. Budget was spent"
    assert str(raised.value) == line


def test_an_interruption_keeps_its_one_line():
    with (
        pytest.raises(InterruptedRun) as raised,
        remedy_extended(lambda: "Budget was spent", where=Path("noise")),
    ):
        raise InterruptedRun("interrupted")
    assert str(raised.value) == "interrupted"
