"""Statement of a party's release: the dataclasses of which party.json consists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from primo_scale.publication.samplers import KEYSTREAM
from primo_scale.publication.schema_types import (
    AtLeastOne,
    Digest,
    Number,
    Positive,
    Scale,
    Text,
    one_of,
)
from primo_scale.publication.statement import Guarantee, LedgerEntry, Software


@dataclass(frozen=True)
class PartyColumn:
    """Released column: its name and public bounds; values beyond them were clamped."""

    name: Text
    lower: Number
    upper: Number


@dataclass(frozen=True)
class Mixtures:
    """Random mixtures of the people (Wu et al., Algorithm 2).

    Attributes
    ----------
    count : int
        Number of mixtures k.
    seed : str
        Public seed of the signs, 32 hexadecimal digits.
    """

    count: Positive
    seed: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


@dataclass(frozen=True)
class PartyMechanism:
    """Noise of the released values.

    Attributes
    ----------
    unit : int
        Lattice units of half the range of a column.
    sensitivity : float
        Largest l2 distance, in lattice units, between the values of this party on neighbouring
        cohorts.
    sigma : float
        Standard deviation of the noise on every value, in lattice units.
    fine_bits : int
        The noise was drawn on multiples of 2^-fine_bits, and the sum rounded to integers.
    sampler, sampler_exactness, rng : str
        Sampler of the noise (`primo_scale.publication.samplers`).
    """

    unit: Positive
    sensitivity: Scale
    sigma: Scale
    fine_bits: Annotated[int, Meta(ge=0, le=62)]
    sampler: Annotated[str, one_of([KEYSTREAM.name])]
    sampler_exactness: Annotated[str, one_of([KEYSTREAM.exactness])]
    rng: Annotated[str, one_of([KEYSTREAM.rng])]


@dataclass(frozen=True)
class PartyStatement:
    """All of party.json except the stamp, the list of files and the signature.

    Attributes
    ----------
    software : Software
        Program that computed the release.
    created : str
        UTC date, ``YYYY-MM-DD``.
    party : str
        Public name of the party.
    guarantee : Guarantee
        Requested epsilon and delta, and the cost of this party's release.
    person_columns : int
        Number of columns that epsilon and delta cover: those of this release, or those of all
        parties.
    n_people : int
        Number of people of the roster.
    alignment : str
        Keyed digest of the roster, equal for all parties that use the same one.
    columns : tuple of PartyColumn
        Released columns.
    mixtures : Mixtures or None
        Mixtures that were released; None where the rows of the people were.
    mechanism : PartyMechanism
        Noise of the released values.
    ledger : LedgerEntry
        Payment for the release.
    public_by_assumption : tuple of str
        Assumptions of the guarantee.
    """

    software: Software
    created: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    party: Text
    guarantee: Guarantee
    person_columns: Positive
    n_people: Positive
    alignment: Digest
    columns: Annotated[tuple[PartyColumn, ...], AtLeastOne]
    mixtures: Mixtures | None
    mechanism: PartyMechanism
    ledger: LedgerEntry
    public_by_assumption: tuple[Text, ...]
