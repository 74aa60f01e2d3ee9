"""Exact values of a party's columns in the order of the roster, and mixtures of them. PRIVATE."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.machine import usable_cpus
from primo_scale.parties.columns import CodedPeople, PartyColumns, Units
from primo_scale.parties.mixture_sums import MixtureSums
from primo_scale.parties.random_signs import RandomSigns
from primo_scale.parties.roster import Positions, Roster

_ROW_DIGEST_BYTES = 16


@dataclass(frozen=True, eq=False)
class PartyPeople:
    """Coded values of people of the roster. PRIVATE."""

    positions: Positions  # position of each person in the roster, shape (people,)
    individuals: list[str]  # IIDs
    units: Units  # coded values, from -2^20 to 2^20, shape (people, columns)


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a party's columns finds. PRIVATE."""

    individuals: list[str]  # IIDs of the people of the roster whom the party knows
    # SHA-256 digest of all coded values in the order of the roster. It does not depend on the order
    # of the party's file.
    digest: str
    # Sums of the coded values with the signs of each mixture, shape (k, columns).
    mixtures: Units | None


def survey(party: PartyColumns, roster: Roster, signs: RandomSigns | None) -> Survey:
    """Read a party's columns once, and sum mixtures with `signs`, if there are any.

    Raises
    ------
    InputError
        The party knows nobody of the roster, or has two rows of one person.
    """
    n_columns = len(party.columns)
    unknown = hashlib.blake2b(bytes(4 * n_columns), digest_size=_ROW_DIGEST_BYTES).digest()
    digests = np.full(len(roster), unknown, dtype=f"V{_ROW_DIGEST_BYTES}")
    sums = None if signs is None else MixtureSums(signs, n_columns)
    individuals: list[str] = []
    for people in people_of(party, roster):
        rows = people.units.astype("<i4")
        digests[people.positions] = [
            hashlib.blake2b(row.tobytes(), digest_size=_ROW_DIGEST_BYTES).digest() for row in rows
        ]
        individuals += people.individuals
        if sums is not None:
            sums.add(people.positions, people.units)
    mixtures = None if sums is None else sums.total()
    return Survey(individuals, hashlib.sha256(digests.tobytes()).hexdigest(), mixtures)


def people_of(party: PartyColumns, roster: Roster) -> Iterator[PartyPeople]:
    """Yield the party's people who are in the roster, in the order of the party's file.

    Raises
    ------
    InputError
        The party knows nobody of the roster, or has two rows of one person.
    """
    import dask

    seen = np.zeros(len(roster), dtype=bool)
    pieces = party.pieces()
    with ThreadPoolExecutor(usable_cpus()) as threads:
        while batch := [dask.delayed(piece)() for piece in islice(pieces, usable_cpus())]:
            for coded in dask.compute(*batch, scheduler="threads", pool=threads):
                yield _of_roster(coded, roster, seen)
    if not seen.any():
        raise InputError(
            "no person of the roster is in this party's file",
            remedy="Check the IIDs, and that the key is that of the roster",
        )


def _of_roster(coded: CodedPeople, roster: Roster, seen: npt.NDArray[np.bool_]) -> PartyPeople:
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
    return PartyPeople(positions, individuals, coded.units[common])
