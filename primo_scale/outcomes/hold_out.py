"""Choice of the people who are held out: left out of every sum, to measure the weights with them.

The choice depends on the IDs and on a random key alone, never on a value of a person, so that two
neighbouring cohorts hold out the same people (docs/maths/hold-out.md).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import SampleTable

KEY_BYTES = 32
LEAST_HELD_OUT = 30
"""Smallest number of people that a release may hold out."""


@dataclass(frozen=True)
class HoldOutChoice:
    """Number of people to hold out, and the key that chooses them."""

    people: int
    key: bytes = field(repr=False)  # random, of `KEY_BYTES` bytes

    def members(self, samples: SampleTable) -> npt.NDArray[np.bool_]:
        """Return the mask of the people whose IDs have the smallest keyed hashes, shape (n,)."""
        hashes = [hmac.digest(self.key, each.encode(), "sha256") for each in samples.people()]
        order = sorted(range(len(hashes)), key=hashes.__getitem__)
        chosen = np.zeros(len(hashes), dtype=np.bool_)
        chosen[order[: self.people]] = True
        return chosen
