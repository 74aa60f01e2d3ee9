"""Rosters, which tell by IIDs alone whether two charges were for the same people.

A roster is the sorted array of the keyed digests of the IIDs of a release's people, 8 bytes each:
4 MB for 500,000 people. Only collisions make it inexact: two disjoint lists of n and m people seem
to share a person with probability below ``n m / 2^64``, 1.4e-8 for 500,000 each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from primo_scale.ledger.history import History
from primo_scale.ledger.spending import ChargeRequest

_Digests = npt.NDArray[np.uint64]
_ENTRY = np.dtype("<u8")


@dataclass(frozen=True)
class Overlap:
    """People that a request shares with other cohorts."""

    n_people: int = 0  # people of the request; 0 if the request has no roster
    # Number of people, by other cohort, for whom that cohort was charged and the request's own
    # cohort was not.
    shared: Mapping[str, int] = field(default_factory=dict)
    chargeable: tuple[str, ...] = ()  # other cohorts that the request could be charged to


def make_roster(individuals: Iterable[str], key: bytes) -> bytes:
    """Return the roster of people: the keyed BLAKE2b digests of their IIDs under a secret key."""
    size = _ENTRY.itemsize
    digests = (blake2b(iid.encode(), digest_size=size, key=key).digest() for iid in individuals)
    return np.unique(np.frombuffer(b"".join(digests), _ENTRY)).tobytes()


def find_overlap(
    history: History, request: ChargeRequest, read_roster: Callable[[str], bytes]
) -> Overlap:
    """Find the people of a request for whom other cohorts were charged.

    `read_roster` returns the roster with a given digest.
    """
    rosters: dict[str, _Digests] = {}
    for charge in history.charges.values():
        if charge.roster and charge.roster not in rosters:
            rosters[charge.roster] = np.frombuffer(read_roster(charge.roster), _ENTRY)
    counts = _count_shared(history, request, rosters)
    chargeable = [
        cohort
        for cohort in sorted(counts)
        if not _count_shared(
            history, replace(request, account=replace(request.account, cohort=cohort)), rosters
        )
    ]
    return Overlap(len(request.roster) // _ENTRY.itemsize, counts, tuple(chargeable))


def _count_shared(
    history: History, request: ChargeRequest, rosters: Mapping[str, _Digests]
) -> dict[str, int]:
    """Return the number of people, by other cohort, new to the request's own cohort."""
    people = np.frombuffer(request.roster, _ENTRY)
    others: dict[str, set[str]] = {}
    for charge in history.charges.values():
        cohort = charge.request.account.cohort
        if cohort != request.account.cohort:
            others.setdefault(cohort, set()).add(charge.roster)
        elif charge.roster:
            people = np.setdiff1d(people, rosters[charge.roster], assume_unique=True)
        elif charge.request.people_digest == request.people_digest:
            return {}  # charged for the same list by a version without rosters
    counts = {
        cohort: sum(
            int(np.isin(people, rosters[digest], assume_unique=True).sum())
            for digest in digests
            if digest
        )
        for cohort, digests in others.items()
    }
    return {cohort: count for cohort, count in counts.items() if count}
