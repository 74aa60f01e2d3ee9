"""Columns that one party holds: phenotypes of a table, or variants of a genotype store.

Every value is coded as an integer from -2^20 to 2^20 by public bounds alone. A missing value, and
every value of a person of the roster whom the party does not know, is 0, the middle of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.store import GenotypeStore
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import BOUNDED_UNIT, code_within_bounds
from primo_scale.outcomes.tables import OutcomeTable, RowGroup

Units = npt.NDArray[np.int64]

_LARGEST_DOSAGE = 2.0


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


class PartyColumns(Protocol):
    """Columns of one party, whose people are read in pieces."""

    @property
    def columns(self) -> tuple[PublicColumn, ...]:
        """Names and public bounds."""

    def pieces(self) -> Iterator[Callable[[], CodedPeople]]:
        """Yield functions that read the next people, to be called on any thread."""


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
        """Yield functions that code the next rows of the table."""
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
        """Yield functions that read the next chunk of people, with all variants."""
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
