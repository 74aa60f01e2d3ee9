"""Roster: the people whom several parties have in common, as keyed hashes of their IIDs.

The parties share a secret key of 32 bytes. A roster is PRIVATE: whoever has the key can test
whether a person is in it. Only parties exchange rosters, and no release contains one.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.storage.encryption import read_key_file
from primo_scale.storage.files import write_atomically

Hashes = npt.NDArray[np.bytes_]
Positions = npt.NDArray[np.int64]

_HEADER = b"#primo_scale roster 1"
_DIGITS = 32
_PERSON, _ROSTER = b"primo_scale roster, person\0", b"primo_scale roster, whole\0"


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
    key = read_key_file(key_file).secret
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
    write_atomically(path, b"\n".join([_HEADER, *roster.people.tolist(), b""]))


def read_roster(path: Path, key_file: Path) -> Roster:
    """Read the roster that the parties agreed on."""
    return Roster(_read_people(path), read_key_file(key_file).secret)


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
