"""Decimal numbers in the lines of a text table, for the spellings that are exact to convert.

An integer of at most 2^53 (the digits of a number, without its decimal point), times or divided by
a power of ten up to 10^22, is a product or quotient of two exact floats, and so is rounded once, as
Python's `float` rounds (Clinger, "How to read floating point numbers accurately", PLDI 1990). Every
other cell is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from primo_scale.kernels.compiling import compiled, inlined

_POWERS = np.array([10.0**exponent for exponent in range(23)])
_LARGEST, _MOST_DIGITS = 1 << 53, 18
_MINUS, _PLUS, _POINT, _ZERO, _NINE, _E, _N, _A = b"-+.09ena"
_LOWER_CASE = 32  # bit that upper-case letters lack
_SPACE, _TAB, _NEWLINE, _RETURN = b" \t\n\r"


@inlined
def _is_blank(byte: Any) -> Any:
    return byte == _SPACE or _TAB <= byte <= _RETURN


@inlined
def _digits(text: Any, at: Any, stop: Any, mantissa: Any) -> Any:
    """Append decimal digits, of at most 18, to an integer; return it and the place after them."""
    most = at + _MOST_DIGITS
    while at < stop and at < most and _ZERO <= text[at] <= _NINE:
        mantissa, at = 10 * mantissa + np.int64(text[at] - _ZERO), at + 1
    return mantissa, at


@inlined
def _number(text: Any, start: Any, stop: Any) -> Any:
    """Return the number at `start`, and the place after it: `start` if it is another spelling."""
    negative = text[start] == _MINUS
    first = start + (negative or text[start] == _PLUS)
    mantissa, at = _digits(text, first, stop, np.int64(0))
    digits, power = at - first, 0
    if at < stop and text[at] == _POINT:
        mantissa, end = _digits(text, at + 1, stop, mantissa)
        power = at + 1 - end
        digits, at = digits - power, end
    if not 0 < digits <= _MOST_DIGITS or mantissa > _LARGEST:
        return np.nan, start
    if at + 1 < stop and text[at] | _LOWER_CASE == _E:
        exponent, end = _signed(text, at + 1, stop)
        if end == at + 1:
            return np.nan, start
        power, at = power + exponent, end
    if abs(power) >= len(_POWERS):
        return np.nan, start
    size = np.float64(mantissa)
    value = size / _POWERS[-power] if power < 0 else size * _POWERS[power]
    return -value if negative else value, at


@inlined
def _signed(text: Any, start: Any, stop: Any) -> Any:
    """Return the integer at `start`, and the place after it: `start` if there is none."""
    first = start + (text[start] == _MINUS or text[start] == _PLUS)
    size, at = _digits(text, first, stop, np.int64(0))
    if at == first:
        return 0, start
    return -size if text[start] == _MINUS else size, at


@inlined
def _after_cell(text: Any, at: Any, stop: Any) -> Any:
    """Return the place after a cell."""
    while at < stop and not _is_blank(text[at]):
        at += 1
    return at


@inlined
def _is_missing(text: Any, start: Any, stop: Any) -> Any:
    """Return whether a cell is NA, in any case."""
    return (
        stop - start == 2
        and text[start] | _LOWER_CASE == _N
        and text[start + 1] | _LOWER_CASE == _A
    )


@inlined
def _read_line(text: Any, at: Any, stop: Any, places: Any, row: Any) -> Any:
    """Write the numbers of a line to a row, and return whether all cells are as they must be."""
    column = 0
    while True:
        while at < stop and _is_blank(text[at]):
            at += 1
        if at == stop:
            return column == len(places)
        if column == len(places):
            return False
        if places[column] < 0:
            at = _after_cell(text, at, stop)
        else:
            value, end = _number(text, at, stop)
            if end == at:
                end = _after_cell(text, at, stop)
                if not _is_missing(text, at, end):
                    return False
            elif end < stop and not _is_blank(text[end]):
                return False
            row[places[column]], at = value, end
        column += 1


@inlined
def _copy_cells(text: Any, at: Any, count: Any, copy: Any, end: Any) -> Any:
    """Copy the first cells of a line to `copy`, from `end` on, and return its new end."""
    for cell in range(count):
        while _is_blank(text[at]):
            at += 1
        while at < len(text) and not _is_blank(text[at]):
            copy[end] = text[at]
            at, end = at + 1, end + 1
        copy[end] = _SPACE if cell < count - 1 else _NEWLINE
        end += 1
    return end


@compiled
def read_decimals(text: Any, places: Any, rows: Any, is_plain: Any, count: Any, people: Any) -> Any:
    """Write cells of lines, separated by blanks, to rows of float64; nan where a cell is NA.

    `text` has the bytes of the lines, in ASCII or UTF-8, and `places` the place in its row of each
    column of the table, or -1 if it is not read. `is_plain` becomes false for a line with another
    number of columns, or with a cell that is read and is neither NA nor a plain decimal number; its
    row then means nothing. The first `count` cells of all other lines go to `people`, an array one
    byte longer than `text`, with blanks between the cells and line ends between the lines. The used
    size of `people` is returned.
    """
    start = size = 0
    for line in range(len(rows)):
        stop = start
        while stop < len(text) and text[stop] != _NEWLINE:
            stop += 1
        is_plain[line] = _read_line(text, start, stop, places, rows[line])
        if is_plain[line]:
            size = _copy_cells(text, start, count, people, size)
        start = stop + 1
    return size
