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


def read(lines: bytes, places=(0,), count: int = 1) -> list[list[float] | None]:
    """Return the numbers of each line, and None for a line that is left to the caller."""
    rows, is_plain = np.full((count, max(places, default=0) + 1), 7.0), np.zeros(count, np.bool_)
    read_decimals(np.frombuffer(lines, np.uint8), np.array(places, np.int64), rows, is_plain)
    return [row.tolist() if plain else None for row, plain in zip(rows, is_plain, strict=True)]


def assert_as_python(cell: str) -> bool:
    """Return whether the cell is read, which has to give the bits of Python's float."""
    (found,) = read(cell.encode())
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
    assert assert_as_python(cell) >= plain if digits else read(cell.encode()) == [None]


@settings(max_examples=500)
@given(st.text("0123456789.+-eE_xNnAaif,\"'é", min_size=1, max_size=6))
def test_no_other_text_is_a_number(cell):
    assert_as_python(cell)


@pytest.mark.parametrize("cell", ["1e5", "nan", "inf", "1_0", "0x1", "--1", "1.2.3", "-", ".", "é"])
def test_other_spellings_are_left_to_the_caller(cell):
    assert read(cell.encode()) == [None]


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", " \t\n"])
def test_columns_go_to_their_places(ending):
    line = f"\tf é 1.5\tNA  na x -2{ending}".encode()
    (found,) = read(line, (-1, -1, 1, 2, 0, -1, 3))
    assert found is not None and found[1] == 1.5 and found[3] == -2
    assert np.isnan([found[0], found[2]]).all()
    assert read(line, (-1, -1, 1, 2, 0, -1)) == [None]
    assert read(line, (-1, -1, 1, 2, 0, -1, 3, -1)) == [None]
    assert read(b"\n", (-1,)) == [None]


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_each_line_has_its_row(ending):
    lines = b"a 1 2\n\nb 3\r\nc 4 5 6\n d\tNA -7 \ne 8 x\nf 9 10" + ending
    one, blank, short, long, missing, word, last = read(lines, (-1, 0, 1), 7)
    assert (one, blank, short, long, word, last) == ([1, 2], None, None, None, None, [9, 10])
    assert np.isnan(missing[0]) and missing[1] == -7
