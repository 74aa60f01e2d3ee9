"""Decimal numbers in the lines of a text table, for the spellings that are exact to convert.

A number of at most 2^53 without its decimal point, times or divided by a power of ten up to 10^22,
is a quotient or product of two exact floats, and so is rounded once, as Python's `float` rounds
(Clinger, "How to read floating point numbers accurately", PLDI 1990). Every other cell is left to
the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from primo_scale.kernels.compiling import compiled
from primo_scale.kernels.inlining import inlined

_POWERS = np.array([10.0**exponent for exponent in range(23)])
_LARGEST, _MOST_DIGITS = 1 << 53, 18
_MINUS, _PLUS, _POINT, _ZERO, _NINE = b"-+.09"
_SPACE, _TAB, _NEWLINE, _RETURN = b" \t\n\r"


@inlined
def _is_blank(byte: Any) -> Any:
    return byte == _SPACE or _TAB <= byte <= _RETURN


@inlined
def _number(text: Any, start: Any, stop: Any) -> Any:
    """Return the number in a cell, or an infinity if it is none of the spellings."""
    negative = text[start] == _MINUS
    at = start + (negative or text[start] == _PLUS)
    mantissa, digits, point = np.int64(0), 0, -1
    while at < stop and digits < _MOST_DIGITS:
        byte = text[at]
        if _ZERO <= byte <= _NINE:
            mantissa, digits = 10 * mantissa + np.int64(byte - _ZERO), digits + 1
        elif byte == _POINT and point < 0:
            point = digits
        else:
            break
        at += 1
    decimals = digits - point if point >= 0 else 0
    if at < stop or digits == 0 or mantissa > _LARGEST:
        return np.inf
    value = np.float64(mantissa) / _POWERS[decimals]
    return -value if negative else value


@inlined
def _is_missing(text: Any, start: Any, stop: Any) -> Any:
    """Return whether a cell is NA, in any case."""
    return stop - start == 2 and text[start] | 32 == 110 and text[start + 1] | 32 == 97


@inlined
def _read_line(text: Any, at: Any, stop: Any, places: Any, row: Any) -> Any:
    """Write the numbers of a line to a row, and return whether all cells are as they must be."""
    column = 0
    while True:
        while at < stop and _is_blank(text[at]):
            at += 1
        if at == stop:
            return column == len(places)
        start = at
        while at < stop and not _is_blank(text[at]):
            at += 1
        if column == len(places):
            return False
        if places[column] >= 0:
            value = np.nan if _is_missing(text, start, at) else _number(text, start, at)
            if value == np.inf:
                return False
            row[places[column]] = value
        column += 1


@compiled
def read_decimals(text: Any, places: Any, rows: Any, is_plain: Any) -> None:
    """Write cells of lines, separated by blanks, to rows; nan where a cell is NA.

    Parameters
    ----------
    text : ndarray of uint8
        Lines of a table, whose bytes are ASCII or UTF-8.
    places : ndarray of int64, shape (columns,)
        Place in its row of each column of the table, or -1 if it is not read.
    rows : ndarray of float64, shape (lines, places)
        Numbers that are read.
    is_plain : ndarray of bool, shape (lines,)
        Set to false for a line with another number of columns, or with a cell that is read and is
        neither NA nor a plain decimal number; its row then means nothing. Set to true for others.
    """
    start = 0
    for line in range(len(rows)):
        stop = start
        while stop < len(text) and text[stop] != _NEWLINE:
            stop += 1
        is_plain[line] = _read_line(text, start, stop, places, rows[line])
        start = stop + 1
