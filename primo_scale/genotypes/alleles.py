"""Comparison of the alleles of a variant in two files, which may name either strand."""

from __future__ import annotations

_COMPLEMENT = str.maketrans("ACGT", "TGCA")

Alleles = tuple[str, str]
"""Counted allele and other allele of a variant."""


def compare_alleles(found: Alleles, wanted: Alleles) -> tuple[bool, bool] | None:
    """Return whether `found` has the alleles of `wanted` swapped and flipped, or None if neither.

    Swapped alleles have the other allele counted; flipped ones are those of the other strand.
    Alleles A/T and C/G are taken as labelled, because their strand is unknown.
    """
    alleles: tuple[str | None, str | None] = found
    # An ambiguous pair is its own complement, so that it matches unflipped or not at all.
    for flipped in (False, True):
        if alleles == wanted:
            return False, flipped
        if alleles == wanted[::-1]:
            return True, flipped
        alleles = (_other_strand(found[0]), _other_strand(found[1]))
    return None


def strand_is_unknown(allele1: str, allele2: str) -> bool:
    """Return whether the alleles are A and T, or C and G."""
    return _other_strand(allele1) == allele2


def _other_strand(allele: str) -> str | None:
    """Return the allele on the other strand, or None if it has letters other than A, C, G, T."""
    return None if set(allele) - set("ACGT") else allele[::-1].translate(_COMPLEMENT)
