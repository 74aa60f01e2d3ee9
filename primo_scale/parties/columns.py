"""People and columns of one party, and one pass over their exact values. PRIVATE.

A roster is the people whom several parties have in common, as keyed hashes of their IIDs. The
parties share a secret key of 32 bytes: whoever has it can test whether a person is in the roster.
Only parties exchange rosters, and no release contains one.

The columns are phenotypes of a table, or variants of a genotype store. Every value is coded as an
integer from -2^20 to 2^20 by public bounds alone. A missing value, and every value of a person of
the roster whom the party does not know, is 0, the middle of the bounds.

The k x n matrix of signs of a mixture release (Wu et al., Algorithm 2) is never held: the Philox
generator is a function of a key and a counter. The public seed is the key, and a person's position
in the roster is the counter, so that every party finds the same k signs of a person, in any order
of the people and in any number of pieces. A sum with signs is twice the sum with bits, 0 or 1, less
the sum over all people.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import call
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.kernels.products import Int64
from primo_scale.machine import read_ahead, usable_cpus
from primo_scale.outcomes.coding import BOUNDED_UNIT, PhenotypeBounds, code_within_bounds
from primo_scale.outcomes.tables import OutcomeTable, RowGroup
from primo_scale.storage import files, stores
from primo_scale.verify.document import Mixtures, PartyColumn

Hashes = npt.NDArray[np.bytes_]
Positions = npt.NDArray[np.int64]

_HEADER = b"#primo_scale roster 1"
_DIGITS = 32
_PERSON, _ROSTER = b"primo_scale roster, person\0", b"primo_scale roster, whole\0"
_BITS_PER_COUNT = 256  # Philox gives four words of 64 bits for each value of its counter
_BYTES_OF_SIGNS = 32  # 256 mixtures of 8,192 people are 16 MiB as float64
_LARGEST_DOSAGE = 2.0
_ROW_DIGEST_BYTES = 16
# IIDs of some people, and their values in units of half the range of a column, times 2^20, int64 of
# shape (people, columns). PRIVATE.
CodedPeople = tuple[Sequence[str], Int64]


@dataclass(frozen=True, eq=False, repr=False)
class Roster:
    """People of all parties, in the order that every party uses."""

    # Keyed hashes of the IIDs, 32 hexadecimal digits each, sorted, shape (n,).
    people: Hashes
    key: bytes  # secret, of the hashes

    def __repr__(self) -> str:
        return f"Roster({len(self)} people)"  # a notebook would show the key

    def __len__(self) -> int:
        """Return the number of people n."""
        return len(self.people)

    def positions(self, individuals: Sequence[str]) -> Positions:
        """Return the position of each person, int64 of shape (people,); -1 where not listed."""
        hashes = hash_people(individuals, self.key)
        nearest = np.minimum(np.searchsorted(self.people, hashes), len(self.people) - 1)
        return np.where(self.people[nearest] == hashes, nearest, -1)

    @property
    def tag(self) -> str:
        """Keyed digest of the roster, equal for all parties that use the same one.

        It reveals nothing about the people without the key.
        """
        return hmac.digest(self.key, _ROSTER + self.people.tobytes(), "sha256").hex()


def hash_people(individuals: Iterable[str], key: bytes) -> Hashes:
    """Return HMAC-SHA256 of each IID under the parties' key, cut to 128 bits.

    Two of n people share a hash with probability below ``n^2 / 2^129``: 4e-28 for 500,000.
    """
    hashes = [
        hmac.digest(key, _PERSON + iid.encode(), "sha256").hex()[:_DIGITS] for iid in individuals
    ]
    return np.array(hashes, dtype=f"S{_DIGITS}")


def make_roster(individuals: Sequence[str], key_file: Path, others: Sequence[Path] = ()) -> Roster:
    """Return the roster of the people who are also in all `others`, roster files of other parties.

    `key_file` holds the key that the parties share. A roster of another key has nobody in common.
    """
    key = stores.read_key_file(key_file)
    hashes = hash_people(individuals, key)
    people = np.unique(hashes)
    if len(people) < len(hashes):
        raise InputError(
            "two people have the same IID",
            value=f"{len(hashes) - len(people)} of {len(hashes)} repeat another one",
            remedy="Give every person an IID that all parties use",
        )
    for path in others:
        people = np.intersect1d(people, _read_people(path), assume_unique=True)
    if not len(people):
        raise InputError(
            "the parties have nobody in common",
            where=", ".join(map(str, others)),
            remedy="Check that all parties use the same IIDs and the same key",
        )
    return Roster(people, key)


def write_roster(roster: Roster, path: Path) -> None:
    """Write a roster to a file with mode 0600, one person a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, b"\n".join([_HEADER, *roster.people.tolist(), b""]))


def read_roster(path: Path, key_file: Path) -> Roster:
    """Read the roster that the parties agreed on."""
    return Roster(_read_people(path), stores.read_key_file(key_file))


def _read_people(path: Path) -> Hashes:
    if not path.is_file():
        raise InputError("no such roster", where=path, remedy="Write one with party-roster")
    header, *lines = path.read_bytes().splitlines() or [b""]
    hexadecimal = set(b"0123456789abcdef")
    sound = all(len(line) == _DIGITS and hexadecimal.issuperset(line) for line in lines)
    people = np.array(lines, dtype=f"S{_DIGITS}")
    if header != _HEADER or not lines or not sound or np.any(people[1:] <= people[:-1]):
        raise InputError("is not a roster", where=path, remedy="Write one with party-roster")
    return people


# ---- Columns -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartyColumns:
    """Columns of one party, whose people are read in pieces."""

    columns: tuple[PartyColumn, ...]  # names and public bounds
    # Yields functions that read or code the next people, on any thread.
    pieces: Callable[[], Iterator[Callable[[], CodedPeople]]]


def phenotype_columns(table: OutcomeTable, bounds: tuple[PhenotypeBounds, ...]) -> PartyColumns:
    """Return the columns of a table of phenotypes or covariates that have public bounds."""

    def coded(group: RowGroup) -> CodedPeople:
        people, _, values = group
        return individuals_of(people), code_within_bounds(values, bounds)[0]

    names = [one.name for one in bounds]
    return PartyColumns(
        tuple(PartyColumn(one.name, one.lower, one.upper) for one in bounds),
        lambda: (partial(coded, group) for group in table.row_groups(names)),
    )


def individuals_of(people: list[str]) -> list[str]:
    """Return the IIDs of people, which may have FIDs before them."""
    return [person.rsplit(" ", 1)[-1] for person in people]


def genotype_columns(store: GenotypeStore) -> PartyColumns:
    """Return columns of copies of A1, from 0 to 2, one for each variant of a finished store."""
    packing, n_people, step = store.packing, store.n_samples, store.chunk_shape[1]
    from_one_copy = np.arange(2 * packing.steps + 1) - packing.steps
    units = np.rint(from_one_copy * (BOUNDED_UNIT / packing.steps)).astype(np.int64)
    table = np.append(units, 0)  # the last entry, at -1, is of a missing genotype

    def coded(start: int) -> CodedPeople:
        people = slice(start, min(start + step, n_people))
        packed = store.read_packed(slice(None), people)
        found = packing.steps_or_missing(packed, people.stop - start).T
        return store.samples.individual[people].tolist(), table[found]

    return PartyColumns(
        tuple(PartyColumn(str(name), 0.0, _LARGEST_DOSAGE) for name in store.variants.identifier),
        lambda: (partial(coded, start) for start in range(0, n_people, step)),
    )


def survey(
    party: PartyColumns, roster: Roster, mixtures: Mixtures | None
) -> tuple[list[str], str, Int64 | None]:
    """Read a party's columns once, and sum mixtures of people, if there are any. PRIVATE.

    Return the IIDs of the people of the roster whom the party knows, a digest of all coded values
    in the order of the roster, and the sums with the signs of each mixture, shape (k, columns).
    """
    n_columns = len(party.columns)
    unknown = hashlib.blake2b(bytes(4 * n_columns), digest_size=_ROW_DIGEST_BYTES).digest()
    digests = np.full(len(roster), unknown, dtype=f"V{_ROW_DIGEST_BYTES}")
    sums = None if mixtures is None else np.zeros((mixtures.count, n_columns), dtype=np.int64)
    individuals: list[str] = []
    for positions, (iids, units) in people_of(party, roster):
        rows = units.astype("<i4")
        digests[positions] = [
            hashlib.blake2b(row.tobytes(), digest_size=_ROW_DIGEST_BYTES).digest() for row in rows
        ]
        individuals += iids
        if mixtures is not None and sums is not None:
            add_to_mixtures(sums, mixtures, positions, units)
    return individuals, hashlib.sha256(digests.tobytes()).hexdigest(), sums


def people_of(party: PartyColumns, roster: Roster) -> Iterator[tuple[Positions, CodedPeople]]:
    """Yield the positions in the roster and the coded values of the party's people.

    They are in the order of the party's file. A party that knows nobody of the roster, or has two
    rows of one person, is refused.
    """
    seen = np.zeros(len(roster), dtype=bool)
    for everybody, units in read_ahead(call, party.pieces(), usable_cpus()):
        positions = roster.positions(everybody)
        common = np.flatnonzero(positions >= 0)
        positions, individuals = positions[common], [everybody[row] for row in common.tolist()]
        found, counts = np.unique(positions, return_counts=True)
        twice = seen[positions] | np.isin(positions, found[counts > 1])
        if twice.any():
            raise InputError(
                "one person in two rows",
                value=individuals[int(np.flatnonzero(twice)[0])],
                remedy="Keep one row for each person",
            )
        seen[positions] = True
        yield positions, (individuals, units[common])
    if not seen.any():
        raise InputError(
            "no person of the roster is in this party's file",
            remedy="Check the IIDs, and that the key is that of the roster",
        )


# ---- Mixtures ------------------------------------------------------------------------------------


def packed_signs(mixtures: Mixtures, positions: Positions) -> npt.NDArray[np.uint8]:
    """Return the signs of people in k mixtures, eight in a byte, shape (ceil(k / 8), people).

    The highest bit is the first mixture. A bit of 1 stands for the sign 1, and 0 for -1.
    `positions` are those of the people in the roster, shape (people,). The guarantee holds for
    every public seed, because it holds for every matrix of signs.
    """
    counts = math.ceil(mixtures.count / _BITS_PER_COUNT)
    words = np.empty((len(positions), 4 * counts), dtype="<u8")
    key = int(mixtures.seed, 16)
    for row, position in zip(words, positions.tolist(), strict=True):
        row[:] = np.random.Philox(key=key, counter=position * counts).random_raw(4 * counts)
    return np.ascontiguousarray(words.view(np.uint8).T[: math.ceil(mixtures.count / 8)])


def add_to_mixtures(sums: Int64, mixtures: Mixtures, positions: Positions, units: Int64) -> None:
    """Add people of these positions in the roster to the sums of mixtures, shape (k, columns).

    Their units, from -2^20 to 2^20, have the shape (people, columns).
    """
    packed, values = packed_signs(mixtures, positions), units.astype(np.float64)
    of_everybody = units.sum(axis=0)
    for start in range(0, len(packed), _BYTES_OF_SIGNS):
        part = packed[start : start + _BYTES_OF_SIGNS]
        # The first mixture is the highest bit. np.unpackbits along this axis is far slower.
        bits = (part[:, None] >> np.arange(7, -1, -1, dtype=np.uint8)[:, None]) & 1
        ones = bits.reshape(8 * len(part), len(units)).astype(np.float64)
        rows = sums[8 * start : 8 * (start + len(part))]
        # Sums with bits are integers below 2^53, and therefore exact in any order.
        rows += 2 * (ones[: len(rows)] @ values).astype(np.int64) - of_everybody
