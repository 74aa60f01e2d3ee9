"""Numbers of a table line are those of Python's `float`."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from primo_scale.kernels.decimal_text import read_decimals

DIGITS = st.text("0123456789", max_size=20)
DECIMALS = st.tuples(st.sampled_from(["", "-", "+"]), DIGITS, st.sampled_from(["", "."]), DIGITS)
EXPONENTS = st.builds("{}{:{}d}".format, st.sampled_from("eE"), st.integers(-40, 40), st.just("+"))


def read(lines: bytes, places=(0,), count: int = 1) -> list[list[float] | None]:
    """Return the numbers of each line, and None for a line that is left to the caller."""
    rows, is_plain = np.full((count, max(places, default=0) + 1), 7.0), np.zeros(count, np.bool_)
    text, people = np.frombuffer(lines, np.uint8), np.empty(len(lines) + 1, np.uint8)
    read_decimals(text, np.array(places, np.int64), rows, is_plain, 0, people)
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


@settings(max_examples=500)
@given(DECIMALS.map("".join), EXPONENTS | st.just("e007"))
@example("9007199254740991", "e22")
@example("1", "e-22")
def test_exponents_have_the_bits_of_python(cell, exponent):
    digits, _, decimals = cell.lstrip("+-").partition(".")
    count, power = len(digits + decimals), int(exponent[1:]) - len(decimals)
    plain = 0 < count <= 15 and abs(power) <= 22
    found = assert_as_python(cell + exponent)
    assert found >= plain and (count or not found)


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


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_the_first_cells_of_read_lines_are_copied(ending):
    lines = "f i 1\n\n a\té  2 \nx y z\n1 2 NA".encode() + ending
    text, people = np.frombuffer(lines, np.uint8), np.zeros(len(lines) + 1, np.uint8)
    rows, is_plain = np.empty((5, 1)), np.zeros(5, np.bool_)
    size = read_decimals(text, np.array([-1, -1, 0]), rows, is_plain, 2, people)
    assert people[:size].tobytes().decode() == "f i\na é\n1 2\n"
    assert is_plain.tolist() == [True, False, True, False, True]
