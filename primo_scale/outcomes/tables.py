"""Phenotype and covariate tables in the layout of PLINK 2 and REGENIE, streamed.

A header ``FID IID NAME...``, ``#FID IID NAME...`` or ``#IID NAME...``, then one person a line,
separated by blanks, tabs or commas, plain or gzipped (`primo_scale.outcomes.lines`). As in plink2,
``NA`` and ``nan`` in any case are missing, and so is an empty cell of a CSV; what
else a number means (-9, or 0 in a 1/2 trait) is for `primo_scale.outcomes.coding`.

Stricter than plink2: a row longer than its header is refused (a header that lost a name would
shift every column), and text in a numeric column is an error, not a categorical phenotype.

Lines are split here and not by pandas, whose C reader is hardly faster on wide tables (6 against
5 million cells a second) and takes short rows, ``True`` and quoted cells without a word.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.outcomes.lines import table_lines, utf8_text

CELLS_PER_GROUP = 1 << 20
ROWS_PER_GROUP = 1 << 14
"""Rows are handed on in groups of at most so many, whichever limit is met first."""

_MISSING = frozenset({b"NA", b"Na", b"nA", b"na", b""})  # only a CSV has empty cells
_EXAMPLES = 5
_SIMILAR = 0.6
_SHOWN = 60


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Some consecutive people of a table.

    Attributes
    ----------
    families : list of str, or None
        FID of each person; None if the table has no such column.
    individuals : list of str
        IID of each person.
    lines : list of int
        Where each stands in the file, from 1.
    values : ndarray of float64, shape (people, columns)
        The chosen columns; nan where missing.
    """

    families: list[str] | None
    individuals: list[str]
    lines: list[int]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True)
class OutcomeTable:
    """A phenotype or covariate file whose header has been read.

    Attributes
    ----------
    path : Path
    names : tuple of str
        Phenotypes or covariates, in file order.
    has_family : bool
        Whether people are named by FID and IID, or by IID alone.
    """

    path: Path
    names: tuple[str, ...]
    has_family: bool
    _header_line: int
    _identity_columns: int

    def row_groups(self, names: Sequence[str]) -> Iterator[RowGroup]:
        """Stream the columns `names`, in that order, in groups of rows.

        Memory does not depend on the number of rows.

        Raises
        ------
        InputError
            A name that the header does not have or has twice; a row that is shorter or longer
            than the header; a cell that is neither a number nor missing.
        """
        choose = _chooser(self._positions(names))
        limit = max(1, min(ROWS_PER_GROUP, CELLS_PER_GROUP // max(1, len(names))))
        pending: list[tuple[int, list[bytes]]] = []
        values = np.empty((limit, len(names)))
        for line, tokens in self._rows():
            values[len(pending)] = self._numbers(choose(tokens), names, line)
            pending.append((line, tokens[: self._identity_columns]))
            if len(pending) == limit:
                yield self._group(pending, values)
                pending, values = [], np.empty_like(values)
        if pending:
            yield self._group(pending, values[: len(pending)])

    def _rows(self) -> Iterator[tuple[int, list[bytes]]]:
        width = self._identity_columns + len(self.names)
        for line, tokens in table_lines(self.path):
            if line <= self._header_line:
                continue
            if len(tokens) != width:
                raise InputError(
                    "the row and the header differ in length",
                    where=f"{self.path}:{line}",
                    value=f"{len(tokens)} columns",
                    expected=width,
                    remedy="Write NA for a value that is missing",
                )
            yield line, tokens

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse names that the header does not have, or has twice.

        Raises
        ------
        InputError
            With the names that come nearest, or else the first of the header.
        """
        self._positions(names)

    def _positions(self, names: Sequence[str]) -> list[int]:
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(self.names, start=self._identity_columns):
            positions.setdefault(name, []).append(position)
        for name in names:
            found = len(positions.get(name, ()))
            if found == 0:
                raise self._no_column(name)
            if found > 1:
                raise InputError(
                    f"column {name!r} is repeated in the header",
                    where=f"{self.path}:{self._header_line}",
                    value=_examples(self.names),
                    remedy="Give every column a name of its own",
                )
        return [positions[name][0] for name in names]

    def _no_column(self, name: str) -> InputError:
        near = difflib.get_close_matches(name, self.names, n=_EXAMPLES, cutoff=_SIMILAR)
        # A name that differs in case alone is the nearest of all, and is not always found above.
        near = [known for known in self.names if known.lower() == name.lower()] or near
        return InputError(
            f"no column {name!r} in the header",
            where=f"{self.path}:{self._header_line}",
            remedy=f"Did you mean {' or '.join(near)}?"
            if near
            else f"The columns are: {_examples(self.names)}",
        )

    def _numbers(
        self, cells: Sequence[bytes], names: Sequence[str], line: int
    ) -> npt.NDArray[np.float64]:
        try:
            if b"_" not in b"".join(cells):  # float() would read 1_000 as Python does
                return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            pass  # a missing value, or the error that is named below
        pairs = zip(cells, names, strict=True)
        return np.array([self._number(cell, name, line) for cell, name in pairs])

    def _number(self, cell: bytes, name: str, line: int) -> float:
        if cell in _MISSING:
            return math.nan
        try:
            return float(cell.replace(b"_", b"?"))
        except ValueError as error:
            raise InputError(
                f"the value of {name} is not a number",
                where=f"{self.path}:{line}",
                value=cell.decode(errors="replace")[:40],
                remedy="Use numbers, and NA where a value is missing",
            ) from error

    def _group(
        self, people: list[tuple[int, list[bytes]]], values: npt.NDArray[np.float64]
    ) -> RowGroup:
        individual = 1 if self.has_family else 0
        return RowGroup(
            families=[self._text(ids[0], line) for line, ids in people]
            if self.has_family
            else None,
            individuals=[self._text(ids[individual], line) for line, ids in people],
            lines=[line for line, _ in people],
            values=values,
        )

    def _text(self, token: bytes, line: int) -> str:
        return utf8_text(token, f"{self.path}:{line}")


def open_outcome_table(path: Path) -> OutcomeTable:
    """Read the header of a phenotype or covariate file.

    Raises
    ------
    InputError
        No such file, a file that cannot be decompressed, no header, or no column after the IDs.
    """
    first = None
    for line, tokens in table_lines(path):
        if tokens[0].startswith(b"##"):
            continue
        first = b" ".join(tokens)[:_SHOWN].decode(errors="replace")
        header = [utf8_text(token, f"{path}:{line}") for token in tokens]
        identity = _identity_columns(header)
        if not identity:
            break
        has_family = header[0].endswith("FID")
        if len(header) == identity:
            raise InputError("the header names no column after the IDs", where=f"{path}:{line}")
        return OutcomeTable(path, tuple(header[identity:]), has_family, line, identity)
    raise InputError(
        "does not begin with a header",
        where=path,
        value="an empty file" if first is None else repr(first),
        remedy="The first line is: FID IID NAME..., #FID IID NAME... or #IID NAME...",
    )


def _identity_columns(header: list[str]) -> int:
    """How many columns at the front name the person; 0 if this is no header."""
    if header[0] in ("FID", "#FID") and header[1:2] == ["IID"]:
        count = 2
    elif header[0] in ("IID", "#IID"):
        count = 1
    else:
        return 0
    return count + (header[count : count + 1] == ["SID"])


def _chooser(positions: list[int]) -> Callable[[list[bytes]], Sequence[bytes]]:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda tokens: [tokens[position] for position in positions]


def _examples(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_EXAMPLES])
    return shown if len(names) <= _EXAMPLES else f"{shown}, ..."
