"""Genome build of positions, given or inferred from known variants.

`known_positions.tsv` holds the positions of 880 HapMap3 variants in GRCh37 and GRCh38. A cohort of
one of these builds has many variants at that build's positions, and few by chance at those of the
other. Only the public list of variants is read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import (
    GRCH37,
    GRCH38,
    NOT_REPORTED,
    VariantTable,
    canonical_chromosomes,
)

_TABLE = Path(__file__).with_name("known_positions.tsv")
# Smallest number of known variants at a build's positions; among millions of variants, a few are
# there by chance.
_FEWEST = 5
# Smallest ratio of known variants at the positions of one build and of the other.
_TIMES_MORE = 4


def genome_build(given: str | None, variants: VariantTable) -> str:
    """Return the given build, one of `BUILD_NAMES`, or the one inferred from known variants.

    It is `NOT_REPORTED` if none is given and too few known variants match. A given build is refused
    if known variants are at their positions of another one.
    """
    found = find_known_variants(variants)
    inferred = build_of(found)
    if given not in (None, NOT_REPORTED) and inferred not in (None, given):
        raise InputError(
            f"known variants are at their {inferred} positions ({found[GRCH37]} match GRCh37, "
            f"{found[GRCH38]} match GRCh38)",
            where="--genome-build",
            value=given,
            expected=inferred,
            remedy=f"Give --genome-build {inferred}, or leave it out",
        )
    return given or inferred or NOT_REPORTED


def find_known_variants(variants: VariantTable) -> dict[str, int]:
    """Count, by build, the known variants whose position in it is that of one of `variants`."""
    chromosomes, _, *positions = np.loadtxt(_TABLE, dtype=str, skiprows=5, unpack=True)
    found = {}
    for build, known in zip((GRCH37, GRCH38), np.array(positions, dtype=np.int64), strict=True):
        near = variants.select(np.flatnonzero(np.isin(variants.position, known)))
        places = set(zip(canonical_chromosomes(near), near.position.tolist(), strict=True))
        found[build] = len(places & set(zip(chromosomes, known.tolist(), strict=True)))
    return found


def build_of(found: dict[str, int]) -> str | None:
    """Return the build of the positions, or None if too few known variants match."""
    for name, here in found.items():
        there = sum(found.values()) - here
        if here >= _FEWEST and here >= _TIMES_MORE * there:
            return name
    return None
