"""Matching of the people in a phenotype or covariate file with those of the genotypes, by ID."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import SampleTable
from primo_scale.outcomes.tables import OutcomeTable, RowGroup

_EXAMPLES = 3
_NOT_GENOTYPED = -1

LOGGER = logging.getLogger("primo_scale")


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """Rows of a file whose people have genotypes."""

    samples: npt.NDArray[np.int64]  # position of each person among the genotypes
    values: npt.NDArray[np.float64]  # of the chosen columns, shape (people, columns); nan: missing


def match_people(
    table: OutcomeTable,
    names: tuple[str, ...],
    samples: SampleTable,
    *,
    level: int = logging.DEBUG,
    people_file: str | None = None,
) -> Iterator[MatchedRows]:
    """Stream the columns `names` of the people that are also in `samples`.

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
    for group in table.row_groups(names):
        people = group.people
        first_people = first_people or people[:_EXAMPLES]
        n_rows += len(people)
        found = np.array([position.get(person, _NOT_GENOTYPED) for person in people], np.int64)
        genotyped = np.flatnonzero(found != _NOT_GENOTYPED)
        rows = found[genotyped]
        if line_of_sample[rows].any() or len(np.unique(rows)) < len(rows):
            _refuse_second_row(table, group, found, line_of_sample)
        line_of_sample[rows] = group.lines[genotyped]
        yield MatchedRows(rows, group.values[genotyped])
    n_matched = int(np.count_nonzero(line_of_sample))
    if not n_matched:
        ids = "FID and IID" if table.has_family else "IID"
        raise InputError(
            f"no person of this file is in the genotypes, matched by {ids}",
            where=table.path,
            value=_quoted(first_people),
            expected=f"{_quoted(list(position)[:_EXAMPLES])} as in the genotypes",
            remedy="Check the IDs; a file with the header '#IID NAME...' is matched by IID alone",
        )
    LOGGER.log(
        level,
        "%s: %d of %d genotyped people matched; %d rows without genotypes; "
        "%d genotyped people without a row",
        table.path, n_matched, len(samples), n_rows - n_matched, len(samples) - n_matched,
    )  # fmt: skip


def _positions(
    samples: SampleTable, table: OutcomeTable, people_file: str | None
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


def _refuse_second_row(
    table: OutcomeTable,
    group: RowGroup,
    found: npt.NDArray[np.int64],
    line_of_sample: npt.NDArray[np.int64],
) -> None:
    """Refuse the first row of a group whose person has an earlier row."""
    lines = line_of_sample.copy()
    for row in np.flatnonzero(found != _NOT_GENOTYPED):
        if lines[found[row]]:
            raise InputError(
                f"one person in two rows: {group.people[row]} is also on line {lines[found[row]]}",
                where=f"{table.path}:{group.lines[row]}",
                remedy="Keep one row for each person",
            )
        lines[found[row]] = group.lines[row]


def _quoted(people: list[str]) -> str:
    return ", ".join(f"'{person}'" for person in people)
