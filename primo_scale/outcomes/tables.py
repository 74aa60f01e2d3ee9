"""Streaming of phenotype and covariate tables, matched with the people of the genotypes.

A table has a header ``FID IID NAME...``, ``#FID IID NAME...`` or ``#IID NAME...`` and one line for
each person, with cells separated by blanks, tabs or commas, plain or gzipped
(`primo_scale.genotypes.tables`). As in plink2, ``NA`` and ``nan`` in any case are missing, and
so is an empty cell of a CSV. `primo_scale.outcomes.coding` handles numeric codes of missing values.

Unlike plink2, this module refuses a row that is longer than the header, because a missing name
would shift the columns, and text in a numeric column, which is no categorical phenotype here.

Pandas is not used: its C reader silently accepts short rows, ``True`` and quoted cells. Lines of
plain decimal numbers are converted by `primo_scale.kernels.decimal_text`, all others cell by cell.
"""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes import tables as text_tables
from primo_scale.humanize import examples
from primo_scale.kernels.decimal_text import read_decimals
from primo_scale.machine import read_ahead
from primo_scale.verify.held_out_accuracy import EVERYBODY, WITHIN_GROUPS

CELLS_PER_GROUP = 1 << 19
ROWS_PER_GROUP = 1 << 13
"""Largest numbers of cells and of rows in a group of lines; the smaller limit applies."""

_CONVERTERS = 2  # threads that convert groups of lines while another one reads
_MISSING = frozenset({b"NA", b"Na", b"nA", b"na", b""})  # only a CSV has empty cells
_EXAMPLES = 5
_SIMILAR = 0.6
_SHOWN = 60


# Consecutive people of a table: "FID IID" of each person, or IID if the table has no FID; line
# numbers in the file, the first of which is 1; and values of the chosen columns, nan where missing,
# shape (people, columns).
RowGroup = tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class OutcomeTable:
    """Phenotype or covariate file whose header was read."""

    path: Path
    names: tuple[str, ...]  # of the phenotypes or covariates, in file order
    has_family: bool  # whether people are identified by FID and IID; otherwise by IID alone
    _is_csv: bool
    _header_line: int
    _identity_columns: int

    def row_groups(self, names: Sequence[str]) -> Iterator[RowGroup]:
        """Stream the columns `names`, in that order, in groups of rows.

        Memory does not depend on the number of rows. A name that the header lacks or repeats, a row
        shorter or longer than the header, and a cell neither a number nor missing are refused.
        """
        places = np.full(self._width, -1)
        places[self._positions(names)] = np.arange(len(names))
        limit = max(1, min(ROWS_PER_GROUP, CELLS_PER_GROUP // self._width))
        with text_tables.open_lines(self.path) as lines:
            below = islice(lines, self._header_line, None)
            parts = iter(lambda: list(islice(below, limit)), [])
            yield from read_ahead(partial(self._group, names, places), parts, _CONVERTERS)

    def _group(
        self, names: Sequence[str], places: npt.NDArray[np.int64], lines: list[tuple[int, bytes]]
    ) -> RowGroup:
        """Return the rows of those of consecutive numbered lines that are not blank.

        `places` are those of the columns for `read_decimals`.
        """
        first, group = lines[0][0], [content for _, content in lines]
        identity = 2 if self.has_family else 1
        values = np.empty((len(group), len(names)))
        kept, people = np.zeros(len(group), np.bool_), np.empty(len(group), np.object_)
        if not self._is_csv:
            text = np.frombuffer(b"".join(group), np.uint8)
            plain = np.empty(len(text) + 1, np.uint8)
            size = read_decimals(text, places, values, kept, identity, plain)
            people[kept] = plain[:size].tobytes().split(b"\n")[:-1]
        positions = self._positions(names)
        for row in np.flatnonzero(~kept).tolist():
            tokens = text_tables.cells_of(group[row], comma_separated=self._is_csv)
            if not tokens:
                continue
            if len(tokens) != self._width:
                remedy = "Write NA for a missing value"
                if not self._is_csv and b"\t\t" in group[row]:
                    remedy += ": two tabs in a row, as of an empty cell, are one separator"
                raise InputError(
                    "the row and the header differ in length",
                    where=f"{self.path}:{first + row}",
                    value=f"{len(tokens)} columns",
                    expected=self._width,
                    remedy=remedy,
                )
            values[row] = [
                self._number(tokens[i], name, first + row)
                for i, name in zip(positions, names, strict=True)
            ]
            # IDs contain no blanks, so that the joined text is unique for each pair.
            people[row] = b" ".join(tokens[:identity])
            kept[row] = True
        numbers = first + np.flatnonzero(kept)
        rows = zip(people[kept].tolist(), numbers.tolist(), strict=True)
        decoded = [text_tables.utf8_text(person, self.path, line) for person, line in rows]
        return decoded, numbers, values[kept]

    @property
    def _width(self) -> int:
        return self._identity_columns + len(self.names)

    def matching(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns that are wanted, or all, and refuse those of `_positions`.

        In a wanted name that the header lacks, ``*`` stands for any characters and ``?`` for one.
        """
        found: dict[str, None] = {}
        known = frozenset(self.names)
        for name in self.names if wanted is None else wanted:
            matches = [name]
            if name not in known:
                pattern = re.escape(name).replace(r"\*", ".*").replace(r"\?", ".")
                matches = [each for each in self.names if re.fullmatch(pattern, each)] or matches
            found.update(dict.fromkeys(matches))
        self._positions(tuple(found))
        return tuple(found)

    def _positions(self, names: Sequence[str]) -> list[int]:
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(self.names, start=self._identity_columns):
            positions.setdefault(name, []).append(position)
        for name in names:
            if name not in positions:
                near = difflib.get_close_matches(name, self.names, n=_EXAMPLES, cutoff=_SIMILAR)
                # Close matches do not always include a name that differs only in case.
                near = [known for known in self.names if known.lower() == name.lower()] or near
                raise InputError(
                    f"no column {name!r} in the header",
                    where=f"{self.path}:{self._header_line}",
                    remedy=f"Did you mean {' or '.join(near)}?"
                    if near
                    else f"The columns are: {examples(self.names)}",
                )
            if len(positions[name]) > 1:
                raise InputError(
                    f"column {name!r} is repeated in the header",
                    where=f"{self.path}:{self._header_line}",
                    value=examples(self.names),
                    remedy="Give every column a unique name",
                )
        return [positions[name][0] for name in names]

    def _number(self, cell: bytes, name: str, line: int) -> float:
        if cell in _MISSING:
            return math.nan
        try:
            return float(cell.replace(b"_", b"?"))  # float() would accept 1_000
        except ValueError as error:
            raise InputError(
                f"the value of {name} is not a number",
                where=f"{self.path}:{line}",
                value=cell.decode(errors="replace")[:40],
                remedy="Use numbers, NA for a missing value, and a 0/1 column for each category",
            ) from error


def read_groups(path: Path) -> dict[str, str]:
    """Return the group of each person of a table of IID and group."""
    group_of: dict[str, str] = {}
    for line, cells in text_tables.table_lines(path):
        if len(cells) != 2:
            raise InputError(
                "is no row of IID and group",
                where=f"{path}:{line}",
                value=f"{len(cells)} columns",
                expected=2,
            )
        person, group = (text_tables.utf8_text(cell, path, line) for cell in cells)
        if group in (EVERYBODY, WITHIN_GROUPS):
            raise InputError(
                "is no name of a group", where=f"{path}:{line}", value=group, remedy="Rename it"
            )
        if group_of.setdefault(person, group) != group:
            raise InputError("one person in two groups", where=f"{path}:{line}", value=person)
    return group_of


def open_outcome_table(path: Path) -> OutcomeTable:
    """Read the header of a phenotype or covariate file, which has a column after the IDs."""
    first = None
    for line, content, is_csv in text_tables.numbered_lines(path):
        tokens = text_tables.cells_of(content, comma_separated=is_csv)
        if not tokens or tokens[0].startswith(b"##"):
            continue
        first = b" ".join(tokens)[:_SHOWN].decode(errors="replace")
        header = [text_tables.utf8_text(token, path, line) for token in tokens]
        identity = _identity_columns(header)
        if not identity:
            break
        has_family = header[0].endswith("FID")
        if len(header) == identity:
            raise InputError("the header has no column after the IDs", where=f"{path}:{line}")
        return OutcomeTable(path, tuple(header[identity:]), has_family, is_csv, line, identity)
    raise InputError(
        "does not begin with a header",
        where=path,
        value="an empty file" if first is None else repr(first),
        remedy="The first line is: FID IID NAME..., #FID IID NAME... or #IID NAME...",
    )


def _identity_columns(header: list[str]) -> int:
    """Return the number of leading columns that identify the person; 0 without a valid header."""
    count = int(header[0] in ("IID", "#IID"))
    if header[0] in ("FID", "#FID") and header[1:2] == ["IID"]:
        count = 2
    return count and count + (header[count : count + 1] == ["SID"])


_PEOPLE_SHOWN = 3
_NOT_GENOTYPED = -1

LOGGER = logging.getLogger("primo_scale")


def match_people(
    table: OutcomeTable,
    names: tuple[str, ...],
    samples: text_tables.SampleTable,
    *,
    level: int = logging.DEBUG,
    people_file: str | None = None,
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """Stream the columns `names` of the people that are also in `samples`.

    An item has the position of each person among the genotypes and their values, shape (people,
    columns).
    People are matched by FID and IID, or by IID alone if the table has no FID. A line of the
    private log, at the given level, counts matched and unmatched people. `people_file` lists the
    people of the genotypes, for errors. A file that matches nobody
    is refused, and so are two rows of one person, and a table without FIDs if two people of the
    genotypes share an IID.
    """
    position = _positions(samples, table, people_file)
    line_of_sample = np.zeros(len(samples), dtype=np.int64)
    first_people: list[str] = []
    n_rows = 0
    for people, lines, values in table.row_groups(names):
        first_people = first_people or people[:_PEOPLE_SHOWN]
        n_rows += len(people)
        found = np.array([position.get(person, _NOT_GENOTYPED) for person in people], np.int64)
        genotyped = np.flatnonzero(found != _NOT_GENOTYPED)
        rows = found[genotyped]
        is_repeated = line_of_sample[rows].any() or len(np.unique(rows)) < len(rows)
        for row in genotyped.tolist() if is_repeated else ():
            person, line = people[row], lines[row]
            if before := line_of_sample[found[row]]:
                raise InputError(
                    f"one person in two rows: {person} is also on line {before}",
                    where=f"{table.path}:{line}",
                    remedy="Keep one row for each person",
                )
            line_of_sample[found[row]] = line
        line_of_sample[rows] = lines[genotyped]
        yield rows, values[genotyped]
    n_matched = int(np.count_nonzero(line_of_sample))
    if not n_matched:
        ids = "FID and IID" if table.has_family else "IID"
        raise InputError(
            f"no person of this file is in the genotypes, matched by {ids}",
            where=table.path,
            value=_quoted(first_people),
            expected=f"{_quoted(list(position)[:_PEOPLE_SHOWN])} as in the genotypes",
            remedy="Check the IDs; a file with the header '#IID NAME...' is matched by IID alone",
        )
    others = n_rows - n_matched, len(samples) - n_matched
    words = f"; {others[0]} rows without genotypes; {others[1]} genotyped people without a row"
    LOGGER.log(
        level, "%s: %d of %d genotyped people matched%s",
        table.path, n_matched, len(samples), words if any(others) else "",
    )  # fmt: skip


def _positions(
    samples: text_tables.SampleTable, table: OutcomeTable, people_file: str | None
) -> dict[str, int]:
    """Return the position of every person among the genotypes, by the IDs that the table has."""
    people = list(samples.people() if table.has_family else samples.individual)
    positions = dict(zip(people, range(len(people)), strict=True))
    if len(positions) < len(people):
        again = next(k for k, person in enumerate(people) if positions[person] != k)
        person, rows = people[again], f"rows {again + 1} and {positions[people[again]] + 1}"
        if table.has_family:
            raise InputError(
                f"one person in two rows of the genotypes: {person}, {rows}",
                where=people_file,
                remedy="Remove one of them with --remove or from the fileset",
            )
        raise InputError(
            f"two people of the genotypes have the IID {person} ({rows}), and the file has no FID",
            where=table.path,
            remedy="Add an FID column",
        )
    return positions


def _quoted(people: list[str]) -> str:
    return ", ".join(f"'{person}'" for person in people)
