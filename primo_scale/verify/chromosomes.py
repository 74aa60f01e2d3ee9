"""Names of human chromosomes, in any spelling of a .bim file."""

from __future__ import annotations

import functools

CHROMOSOME_X = "X"
PSEUDO_AUTOSOMAL = frozenset({"XY", "PAR1", "PAR2"})
UNPLACED = "0"
AUTOSOMES = frozenset(map(str, range(1, 23)))
_NUMBERS = {
    "23": CHROMOSOME_X, "24": "Y", "25": "XY", "26": "MT", "27": "PAR1", "28": "PAR2", "M": "MT",
}  # fmt: skip
HUMAN_CHROMOSOMES = frozenset([UNPLACED, *AUTOSOMES, *_NUMBERS.values()])


def canonical_chromosome(code: str) -> str:
    """Return the canonical code of a human chromosome: ``X`` for ``chr23``, ``x`` and ``X``.

    Other codes are returned unchanged.
    """
    bare = code[3:] if code[:3].lower() == "chr" else code
    bare = bare.upper()
    if bare.isdecimal() and bare.isascii():
        bare = str(int(bare))
    bare = _NUMBERS.get(bare, bare)
    return bare if bare in HUMAN_CHROMOSOMES else code


@functools.cache
def positioned_chromosome(code: str) -> str:
    """Return the chromosome on which a position counts: pseudo-autosomal regions belong to X."""
    canonical = canonical_chromosome(code)
    return CHROMOSOME_X if canonical in PSEUDO_AUTOSOMAL else canonical
