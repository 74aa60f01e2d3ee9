"""Numbers of a table line are those of Python's `float`, or the line is left to the caller."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from primo_scale.kernels.decimal_text import read_decimals

DIGITS = st.text("0123456789", max_size=20)
DECIMALS = st.tuples(st.sampled_from(["", "-", "+"]), DIGITS, st.sampled_from(["", "."]), DIGITS)


def read(line: bytes, places=(0,)) -> list[float] | None:
    row = np.full(max(places, default=0) + 1, 7.0)
    text = np.frombuffer(line, np.uint8)
    return row.tolist() if read_decimals(text, np.array(places, dtype=np.int64), row) else None


def assert_as_python(cell: str) -> bool:
    """Return whether the cell is read, which has to give the bits of Python's float."""
    found = read(cell.encode())
    if found is not None:
        expected = math.nan if cell.strip().upper() == "NA" else float(cell)
        assert np.array(found).tobytes() == np.array([expected]).tobytes()
    return found is not None


@settings(max_examples=500)
@given(DECIMALS.map("".join))
@example("9007199254740993")  # 2^53 + 1
@example("9999999999999999999")  # beyond 2^63
@example("-0")
@example("000000000000000000000000.5")
def test_decimals_have_the_bits_of_python(cell):
    digits = cell.lstrip("+-").replace(".", "")
    plain = 0 < len(digits) <= 15
    assert assert_as_python(cell) >= plain if digits else read(cell.encode()) is None


@settings(max_examples=500)
@given(st.text("0123456789.+-eE_xNnAaif,\"'é", min_size=1, max_size=6))
def test_no_other_text_is_a_number(cell):
    assert_as_python(cell)


@pytest.mark.parametrize("cell", ["1e5", "nan", "inf", "1_0", "0x1", "--1", "1.2.3", "-", ".", "é"])
def test_other_spellings_are_left_to_the_caller(cell):
    assert read(cell.encode()) is None


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", " \t\n"])
def test_columns_go_to_their_places(ending):
    line = f"\tf é 1.5\tNA  na x -2{ending}".encode()
    found = read(line, (-1, -1, 1, 2, 0, -1, 3))
    assert found is not None and found[1] == 1.5 and found[3] == -2
    assert np.isnan([found[0], found[2]]).all()
    assert read(line, (-1, -1, 1, 2, 0, -1)) is None
    assert read(line, (-1, -1, 1, 2, 0, -1, 3, -1)) is None
    assert read(b"\n", (-1,)) is None
