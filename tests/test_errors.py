"""Extension of the remedies of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from primo_scale.errors import InputError, InterruptedRun, remedy_extended


def test_a_sentence_is_added_to_the_remedy():
    with (
        pytest.raises(InputError) as raised,
        remedy_extended(lambda: "Budget was spent", where=Path("noise")),
    ):
        raise InputError("has the wrong size", value=1, expected=2, remedy="Restore it")
    line = "noise: has the wrong size (found 1, expected 2). Restore it. Budget was spent"
    assert str(raised.value) == line


def test_an_interruption_is_not_changed():
    with (
        pytest.raises(InterruptedRun) as raised,
        remedy_extended(lambda: "Budget was spent", where=Path("noise")),
    ):
        raise InterruptedRun("interrupted")
    assert str(raised.value) == "interrupted"
