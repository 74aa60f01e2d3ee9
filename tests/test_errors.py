"""Errors between processes, and with longer remedies."""

import errno
import os
import pickle
from pathlib import Path

import pytest

from primo_scale.errors import (
    InputError,
    InterruptedRun,
    ResourceError,
    anticipated,
    remedy_extended,
)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("has the wrong size", value=1, expected=2, remedy="Restore it"),
         "noise: has the wrong size (found 1, expected 2). Restore it. Budget was spent"),
        (InterruptedRun("interrupted"), "interrupted"),
    ],
    ids=["extended", "an interruption is not changed"],
)  # fmt: skip
def test_a_sentence_is_added_to_the_remedy(error, line):
    extended = remedy_extended(lambda: "Budget was spent", where=Path("noise"))
    with pytest.raises(type(error)) as raised, extended:
        raise error
    assert str(raised.value) == line


def test_an_error_with_an_expected_value_survives_between_processes():
    error = InputError("has another size", where="x.bed", value=3, expected=4, remedy="Look")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "x.bed: has another size (found 3, expected 4). Look"
    assert isinstance(again, InputError)


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (errno.EFBIG, ResourceError, "ulimit -f"),
        (errno.ENAMETOOLONG, InputError, "shorter path"),
        (errno.EACCES, InputError, "Check the permissions"),
    ],
)
def test_an_error_of_the_system_names_the_file_and_what_to_do(code, kind, remedy):
    found = anticipated(OSError(code, os.strerror(code), "a"))
    assert type(found) is kind
    assert str(found).startswith("a: ") and remedy in str(found)
