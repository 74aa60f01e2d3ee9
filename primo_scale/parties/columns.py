"""Columns that one party holds, and one pass over their exact values. PRIVATE.

The columns are phenotypes of a table, or variants of a genotype store. Every value is coded as an
integer from -2^20 to 2^20 by public bounds alone. A missing value, and every value of a person of
the roster whom the party does not know, is 0, the middle of the bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from operator import call

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.machine import usable_cpus
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import BOUNDED_UNIT, code_within_bounds
from primo_scale.outcomes.tables import OutcomeTable, RowGroup
from primo_scale.parties.mixtures import MixtureSums, RandomSigns
from primo_scale.parties.roster import Positions, Roster

Units = npt.NDArray[np.int64]

_LARGEST_DOSAGE = 2.0
_ROW_DIGEST_BYTES = 16


@dataclass(frozen=True)
class PublicColumn:
    """Name and public bounds of a column; values beyond the bounds are clamped."""

    name: str
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class CodedPeople:
    """Coded values of some people. PRIVATE."""

    individuals: Sequence[str]  # IIDs
    # Values in units of half the range of a column, times 2^20, shape (people, columns).
    units: Units


@dataclass(frozen=True, eq=False)
class PhenotypeColumns:
    """Columns of a phenotype table."""

    table: OutcomeTable  # of phenotypes or covariates
    bounds: tuple[PhenotypeBounds, ...]  # public, of the columns to release

    @property
    def columns(self) -> tuple[PublicColumn, ...]:
        """Names and public bounds."""
        return tuple(PublicColumn(one.name, one.lower, one.upper) for one in self.bounds)

    def pieces(self) -> Iterator[Callable[[], CodedPeople]]:
        """Yield functions that code the next rows of the table, on any thread."""
        for group in self.table.row_groups([one.name for one in self.bounds]):
            yield partial(self._coded, group)

    def _coded(self, group: RowGroup) -> CodedPeople:
        return CodedPeople(individuals_of(group), code_within_bounds(group.values, self.bounds)[0])


def individuals_of(group: RowGroup) -> list[str]:
    """Return the IIDs of a group of rows, which may have FIDs before them."""
    return [person.rsplit(" ", 1)[-1] for person in group.people]


@dataclass(frozen=True, eq=False)
class GenotypeColumns:
    """Columns of copies of A1, from 0 to 2, one for each variant of a store."""

    store: GenotypeStore  # finished

    @cached_property
    def columns(self) -> tuple[PublicColumn, ...]:
        """Identifiers of the variants, and the bounds 0 and 2."""
        names = self.store.variants.identifier
        return tuple(PublicColumn(str(name), 0.0, _LARGEST_DOSAGE) for name in names)

    def pieces(self) -> Iterator[Callable[[], CodedPeople]]:
        """Yield functions that read the next chunk of people, with all variants, on any thread."""
        n_people, step = self.store.n_samples, self.store.chunk_shape[1]
        for start in range(0, n_people, step):
            yield partial(self._coded, slice(start, min(start + step, n_people)))

    def _coded(self, people: slice) -> CodedPeople:
        packing, packed = self.store.packing, self.store.read_packed(slice(None), people)
        found = packing.steps_or_missing(packed, people.stop - people.start).T
        from_one_copy = np.arange(2 * packing.steps + 1) - packing.steps
        units = np.rint(from_one_copy * (BOUNDED_UNIT / packing.steps)).astype(np.int64)
        table = np.append(units, 0)  # the last entry, at -1, is of a missing genotype
        return CodedPeople(self.store.samples.individual[people].tolist(), table[found])


PartyColumns = PhenotypeColumns | GenotypeColumns
"""Columns of one party, whose people are read in pieces."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Result of one pass over a party's columns. PRIVATE."""

    individuals: list[str]  # IIDs of the people of the roster whom the party knows
    # SHA-256 digest of all coded values in the order of the roster. It does not depend on the order
    # of the party's file.
    digest: str
    # Sums of the coded values with the signs of each mixture, shape (k, columns).
    mixtures: Units | None


def survey(party: PartyColumns, roster: Roster, signs: RandomSigns | None) -> Survey:
    """Read a party's columns once, and sum mixtures with `signs`, if there are any."""
    n_columns = len(party.columns)
    unknown = hashlib.blake2b(bytes(4 * n_columns), digest_size=_ROW_DIGEST_BYTES).digest()
    digests = np.full(len(roster), unknown, dtype=f"V{_ROW_DIGEST_BYTES}")
    sums = None if signs is None else MixtureSums(signs, n_columns)
    individuals: list[str] = []
    for positions, people in people_of(party, roster):
        rows = people.units.astype("<i4")
        digests[positions] = [
            hashlib.blake2b(row.tobytes(), digest_size=_ROW_DIGEST_BYTES).digest() for row in rows
        ]
        individuals += people.individuals
        if sums is not None:
            sums.add(positions, people.units)
    mixtures = None if sums is None else sums.total()
    return Survey(individuals, hashlib.sha256(digests.tobytes()).hexdigest(), mixtures)


def people_of(party: PartyColumns, roster: Roster) -> Iterator[tuple[Positions, CodedPeople]]:
    """Yield the positions in the roster and the coded values of the party's people.

    They are in the order of the party's file. A party that knows nobody of the roster, or has two
    rows of one person, is refused.
    """
    seen = np.zeros(len(roster), dtype=bool)
    pieces = party.pieces()
    with ThreadPoolExecutor(usable_cpus()) as threads:
        while batch := list(islice(pieces, usable_cpus())):
            for coded in threads.map(call, batch):
                yield _of_roster(coded, roster, seen)
    if not seen.any():
        raise InputError(
            "no person of the roster is in this party's file",
            remedy="Check the IIDs, and that the key is that of the roster",
        )


def _of_roster(
    coded: CodedPeople, roster: Roster, seen: npt.NDArray[np.bool_]
) -> tuple[Positions, CodedPeople]:
    """Return the people of a piece who are in the roster, and note that they were seen."""
    positions = roster.positions(coded.individuals)
    common = np.flatnonzero(positions >= 0)
    positions = positions[common]
    individuals = [coded.individuals[row] for row in common.tolist()]
    found, counts = np.unique(positions, return_counts=True)
    twice = seen[positions] | np.isin(positions, found[counts > 1])
    if twice.any():
        raise InputError(
            "one person in two rows",
            value=individuals[int(np.flatnonzero(twice)[0])],
            remedy="Keep one row for each person",
        )
    seen[positions] = True
    return positions, CodedPeople(individuals, coded.units[common])
