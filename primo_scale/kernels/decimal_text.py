"""Decimal numbers in the lines of a text table, for the spellings that are exact to convert.

An integer of at most 2^53 (the digits of a number, without its decimal point), times or divided by
a power of ten up to 10^22, is a product or quotient of two exact floats, and so is rounded once, as
Python's `float` rounds (Clinger, "How to read floating point numbers accurately", PLDI 1990). Every
other cell is left to the caller.

A number is written with nine significant digits, those of ``"%.9g"``. Times or divided by a power
of ten, it is below 10^9 and rounded once, by at most 2^-24. Its nearest integer is therefore that
of the exact product, unless it is within `_DOUBT` of halfway: Python writes one in two million.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from primo_scale.kernels.compiling import compiled, inlined

_POWERS = np.array([10.0**exponent for exponent in range(23)])
_LARGEST, _MOST_DIGITS = 1 << 53, 18
_MINUS, _PLUS, _POINT, _ZERO, _NINE, _E, _N, _A = b"-+.09ena"
_LOWER_CASE = 32  # bit that upper-case letters lack
_DIGITS = 9
_LEAST, _MOST = 1e8, 1e9  # integers of nine digits
_DOUBT = 2.0**-22
_LEAST_FIXED = -4  # exponent of the smallest number without an exponent in its text
_LONGEST_NUMBER = 17  # characters, with the tab before it
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


@inlined
def _write_digits(text: Any, at: Any, digits: Any, count: Any, before: Any) -> Any:
    """Write an integer of `count` digits, with a point after those `before` it if more follow."""
    place = stop = at + count + (before < count)
    for digit in range(count, 0, -1):
        if digit == before and before < count:
            place -= 1
            text[place] = _POINT
        place -= 1
        text[place] = _ZERO + digits % 10
        digits //= 10
    return stop


@inlined
def _write_zeros(text: Any, at: Any, stop: Any) -> Any:
    while at < stop:
        text[at] = _ZERO
        at += 1
    return at


@inlined
def _nine_digits(size: Any) -> Any:
    """Return the integer of nine digits of a positive number, and its exponent; 0 if in doubt."""
    power, scaled = _DIGITS - 1, size * _LEAST
    while scaled < _LEAST and power < len(_POWERS) - 1:
        power += 1
        scaled = size * _POWERS[power]
    while scaled >= _MOST and power > 1 - len(_POWERS):
        power -= 1
        scaled = size * _POWERS[power] if power >= 0 else size / _POWERS[-power]
    digits = np.int64(scaled)
    past_half = scaled - np.float64(digits) - 0.5
    if not _LEAST <= scaled < _MOST or abs(past_half) < _DOUBT:
        return 0, 0
    digits += past_half > 0
    if digits == _MOST:
        return digits // 10, _DIGITS - power
    return digits, _DIGITS - 1 - power


@inlined
def _write_number(text: Any, at: Any, value: Any) -> Any:
    """Write a finite number, and return the end, or -1 if a digit is in doubt."""
    if value == 0:
        text[at] = _ZERO
        return at + 1
    if value < 0:
        text[at] = _MINUS
        at += 1
    digits, exponent = _nine_digits(abs(value))
    if digits == 0:
        return -1
    count = _DIGITS
    while digits % 10 == 0:
        digits, count = digits // 10, count - 1
    if _LEAST_FIXED <= exponent < 0:
        text[at], text[at + 1] = _ZERO, _POINT
        at = _write_zeros(text, at + 2, at + 1 - exponent)
        return _write_digits(text, at, digits, count, count)
    if 0 <= exponent < _DIGITS:
        stop = _write_digits(text, at, digits, count, exponent + 1)
        return _write_zeros(text, stop, at + exponent + 1)
    at = _write_digits(text, at, digits, count, 1)
    text[at], text[at + 1] = _E, _MINUS if exponent < 0 else _PLUS
    return _write_digits(text, at + 2, abs(exponent), 2, 2)


@compiled
def _write_rows(beginnings: Any, ends: Any, values: Any, text: Any) -> Any:
    """Write rows as `decimal_rows` returns them, and return their size, or -1 if one is in doubt.

    `beginnings` are those of all rows, as bytes, and `ends` are where each one ends.
    """
    start = at = 0
    for row in range(len(values)):
        for place in range(start, ends[row]):
            text[at] = beginnings[place]
            at += 1
        start = ends[row]
        for column in range(values.shape[1]):
            if column:
                text[at] = _TAB
                at += 1
            at = _write_number(text, at, values[row, column])
            if at < 0:
                return -1
        text[at] = _NEWLINE
        at += 1
    return at


def decimal_rows(beginnings: Any, ends: Any, values: Any) -> bytes:
    """Return rows of finite numbers, each with nine significant digits as in ``"%.9g"``.

    A zero has no sign. `beginnings` are the bytes of all rows before their numbers, and `ends` the
    place there where the text of each row ends. The numbers of a row have tabs between them and a
    line end after the last one.
    """
    values = values + 0.0  # no zero is negative
    most = len(beginnings) + len(values) + _LONGEST_NUMBER * values.size
    text = np.empty(most, np.uint8)
    size = _write_rows(beginnings, ends, values, text)
    if size >= 0:
        return text[:size].tobytes()
    numbers = "\t".join(["%.9g"] * values.shape[1]) + "\n"
    parts = np.split(beginnings, ends[:-1])
    return b"".join(
        part.tobytes() + (numbers % tuple(row)).encode()
        for part, row in zip(parts, values.tolist(), strict=True)
    )
