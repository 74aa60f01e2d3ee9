"""Genome build of the positions in .bim files: given, or inferred from known variants.

`known_positions.tsv` holds the positions of 880 HapMap3 variants in GRCh37 and GRCh38. A cohort of
one of these builds has many variants at that build's positions, and few by chance at those of the
other. Only the public list of variants is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.chromosomes import factorize_chromosomes
from primo_scale.genotypes.tables import VariantTable

GRCH37, GRCH38, NCBI36 = "GRCh37", "GRCh38", "NCBI36"
NOT_REPORTED = "NR"
"""Name of an unknown build in the PGS Catalog."""

_ALIASES = {
    "grch37": GRCH37, "hg19": GRCH37, "b37": GRCH37,
    "grch38": GRCH38, "hg38": GRCH38, "b38": GRCH38,
    "ncbi36": NCBI36, "hg18": NCBI36, "b36": NCBI36,
    "nr": NOT_REPORTED,
}  # fmt: skip
BUILD_NAMES = (GRCH37, GRCH38, NCBI36, NOT_REPORTED)

_TABLE = Path(__file__).with_name("known_positions.tsv")
# Smallest number of known variants at a build's positions; among millions of variants, a few are
# there by chance.
_FEWEST = 5
# Smallest ratio of known variants at the positions of one build and of the other.
_TIMES_MORE = 4


@dataclass(frozen=True)
class GenomeBuild:
    """Genome build of a cohort, one of `BUILD_NAMES`, and the source of the name for the report."""

    name: str
    source: str


def build_name(text: str) -> str | None:
    """Return the name of the build with the alias `text` (such as ``hg19``), or None."""
    return _ALIASES.get(text.lower())


def find_known_variants(variants: VariantTable) -> dict[str, int]:
    """Count, by build, the known variants whose position in it is that of one of `variants`."""
    found = {GRCH37: 0, GRCH38: 0}
    codes, names = factorize_chromosomes(variants)
    for code, name in enumerate(names):
        positions = variants.position[codes == code]
        for build, known in _known_positions().get(name, {}).items():
            found[build] += len(np.unique(positions[np.isin(positions, known)]))
    return found


def build_of(found: dict[str, int]) -> str | None:
    """Return the build of the positions, or None if too few known variants match."""
    for name, here in found.items():
        there = sum(found.values()) - here
        if here >= _FEWEST and here >= _TIMES_MORE * there:
            return name
    return None


def settle_genome_build(given: str | None, variants: VariantTable) -> GenomeBuild:
    """Return the given build, one of `BUILD_NAMES`, or the one inferred from known variants.

    A given build is refused if known variants are at their positions of another one.
    """
    found = find_known_variants(variants)
    inferred = build_of(found)
    if given is None:
        if inferred is None:
            return GenomeBuild(NOT_REPORTED, "not given, and too few known variants to infer it")
        return GenomeBuild(inferred, "positions of known variants")
    if given != NOT_REPORTED and inferred not in (None, given):
        raise InputError(
            f"known variants are at their {inferred} positions ({found[GRCH37]} match GRCh37, "
            f"{found[GRCH38]} match GRCh38)",
            where="--genome-build",
            value=given,
            expected=inferred,
            remedy=f"Give --genome-build {inferred}, or leave it out",
        )
    return GenomeBuild(given, "--genome-build")


@cache
def _known_positions() -> dict[str, dict[str, npt.NDArray[np.int64]]]:
    """Return the positions of the known variants by chromosome and build."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    header, *known = (line.split("\t") for line in lines if not line.startswith("#"))
    positions: dict[str, dict[str, list[int]]] = {}
    for row in known:
        for build in (GRCH37, GRCH38):
            of_build = positions.setdefault(row[0], {}).setdefault(build, [])
            of_build.append(int(row[header.index(build)]))
    return {name: {b: np.array(p) for b, p in of.items()} for name, of in positions.items()}
