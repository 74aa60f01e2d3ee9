"""Description of the sampler of noise: the only texts that release.json may have for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampler:
    """Description of a sampler, whose exactness docs/maths/sampler.md proves."""

    name: str
    exactness: str  # distance of its noise to the ideal distribution
    rng: str  # source of its randomness


KEYSTREAM_DISTANCE = 4e-119
"""Total variation between a keystream draw and the rounded Gaussian (docs/maths/sampler.md)."""

KEYSTREAM = Sampler(
    "Gaussian from an AES-256-CTR keystream on a fine lattice, rounded to integers",
    "Gaussian rounded to a lattice with at least 2^32 steps to a standard deviation, each draw "
    f"within {KEYSTREAM_DISTANCE:g} of it in total variation, proved in docs/maths/sampler.md",
    "AES-256-CTR under a fresh key from operating system entropy, so that the guarantee is "
    "computational (docs/maths/sampler.md)",
)
