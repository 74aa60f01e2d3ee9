"""People whom charges were for, recognised by their IIDs alone.

A roster is the sorted keyed digests of the IIDs of a release's people, 8 bytes each: 4 MB for
500,000 people. It is exact but for collisions: two lists of n and m different people seem to share
one with probability below ``n m / 2^64``, 1.4e-8 for 500,000 each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from primo_scale.ledger.history import History
from primo_scale.ledger.spending import ReleaseRequest

_Digests = npt.NDArray[np.uint64]
_ENTRY = np.dtype("<u8")


@dataclass(frozen=True)
class Overlap:
    """How the people of a request are shared with other cohorts.

    Attributes
    ----------
    people
        Number of people of the request; 0 where they are not known one by one.
    elsewhere
        Number of them, by cohort, that another cohort was charged for and the request's was not.
    homes
        Those of the other cohorts to which the request could be charged.
    """

    people: int = 0
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    homes: tuple[str, ...] = ()


def make_roster(individuals: Iterable[str], key: bytes) -> bytes:
    """Return the roster of people: the keyed BLAKE2b digests of their IIDs under a secret key."""
    size = _ENTRY.itemsize
    digests = (blake2b(iid.encode(), digest_size=size, key=key).digest() for iid in individuals)
    return np.unique(np.frombuffer(b"".join(digests), _ENTRY)).tobytes()


def overlap(history: History, request: ReleaseRequest, read: Callable[[str], bytes]) -> Overlap:
    """Find the people of a request for whom other cohorts were charged.

    Parameters
    ----------
    history
        Everything charged so far.
    request
        Request whose roster is known.
    read
        Function that returns the roster of a given digest.
    """
    rosters: dict[str, _Digests] = {}
    for charge in history.charges.values():
        if charge.roster and charge.roster not in rosters:
            rosters[charge.roster] = np.frombuffer(read(charge.roster), _ENTRY)
    counts = _elsewhere(history, request, rosters)
    homes = [
        cohort
        for cohort in sorted(counts)
        if not _elsewhere(
            history, replace(request, account=replace(request.account, cohort=cohort)), rosters
        )
    ]
    return Overlap(len(request.roster) // _ENTRY.itemsize, counts, tuple(homes))


def _elsewhere(
    history: History, request: ReleaseRequest, rosters: Mapping[str, _Digests]
) -> dict[str, int]:
    """Return how many people are new to the request's cohort and charged to another, by cohort."""
    people = np.frombuffer(request.roster, _ENTRY)
    others: dict[str, set[str]] = {}
    for charge in history.charges.values():
        cohort = charge.request.account.cohort
        if cohort != request.account.cohort:
            others.setdefault(cohort, set()).add(charge.roster)
        elif charge.roster:
            people = np.setdiff1d(people, rosters[charge.roster], assume_unique=True)
        elif charge.request.people_digest == request.people_digest:
            return {}  # charged by a version without rosters, for the very same list
    counts = {
        cohort: sum(
            int(np.isin(people, rosters[digest], assume_unique=True).sum())
            for digest in digests
            if digest
        )
        for cohort, digests in others.items()
    }
    return {cohort: count for cohort, count in counts.items() if count}
