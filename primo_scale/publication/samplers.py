"""Description of the sampler of noise: the only texts that release.json may have for it."""

from __future__ import annotations

from types import MappingProxyType

KEYSTREAM_DISTANCE = 4e-119
"""Total variation between a keystream draw and the rounded Gaussian (docs/maths/sampler.md)."""

KEYSTREAM = MappingProxyType(
    {
        "sampler": "Gaussian from an AES-256-CTR keystream on a fine lattice, rounded to integers",
        "sampler_exactness": "Gaussian rounded to a lattice with at least 2^32 steps to a standard "
        f"deviation, each draw within {KEYSTREAM_DISTANCE:g} of it in total variation, proved in "
        "docs/maths/sampler.md",
        "rng": "AES-256-CTR under a fresh key from operating system entropy, so that the guarantee "
        "is computational (docs/maths/sampler.md)",
    }
)
"""Members of a mechanism: the sampler, its distance to the ideal distribution, its randomness."""
