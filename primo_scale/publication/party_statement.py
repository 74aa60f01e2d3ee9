"""Statement of a party's release: the dataclasses of which party.json consists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

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
from primo_scale.publication.wording import KEYSTREAM


@dataclass(frozen=True)
class PartyColumn:
    """Released column: its name and public bounds; values beyond them were clamped."""

    name: Text
    lower: Number
    upper: Number


@dataclass(frozen=True)
class Mixtures:
    """Random mixtures of the people (Wu et al., Algorithm 2)."""

    count: Positive  # number of mixtures k
    # Public seed of the signs, 32 hexadecimal digits.
    seed: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


@dataclass(frozen=True)
class PartyMechanism:
    """Noise of the released values."""

    unit: Positive  # lattice units of half the range of a column
    # Largest l2 distance, in lattice units, between the values of this party on neighbouring
    # cohorts.
    sensitivity: Scale
    sigma: Scale  # standard deviation of the noise on every value, in lattice units
    # The noise was drawn on multiples of 2^-fine_bits, and the sum rounded to integers.
    fine_bits: Annotated[int, Meta(ge=0, le=62)]
    # Sampler of the noise (`primo_scale.publication.wording`).
    sampler: Annotated[str, one_of([KEYSTREAM["sampler"]])]
    sampler_exactness: Annotated[str, one_of([KEYSTREAM["sampler_exactness"]])]
    rng: Annotated[str, one_of([KEYSTREAM["rng"]])]


@dataclass(frozen=True)
class PartyStatement:
    """All of party.json except the stamp, the list of files and the signature."""

    software: Software
    # UTC date, ``YYYY-MM-DD``.
    created: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    party: Text  # public name of the party
    guarantee: Guarantee  # requested epsilon and delta, and the cost of this party's release
    # Number of columns that epsilon and delta cover: those of this release, or those of all
    # parties.
    person_columns: Positive
    n_people: Positive  # of the roster
    alignment: Digest  # keyed digest of the roster, equal for all parties that use the same one
    columns: Annotated[tuple[PartyColumn, ...], AtLeastOne]
    mixtures: Mixtures | None  # None where the rows of the people are released
    mechanism: PartyMechanism
    ledger: LedgerEntry
    public_by_assumption: tuple[Text, ...]  # assumptions of the guarantee
