"""Selection of chromosomes: by default those of which ``plink2 --score`` counts two copies.

A genotype counts the copies of an allele as 0, 1 or 2. PLINK 2 counts autosomes, the
pseudo-autosomal regions and, with its default ``--xchr-model 2``, X in the same way; men have 0 or
2 copies on X. PLINK 2 counts one copy on Y and MT, so that weights for them would give other
scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from primo_scale.errors import UsageError
from primo_scale.genotypes.tables import StringColumn, VariantTable
from primo_scale.verify.chromosomes import (
    CHROMOSOME_X,
    HUMAN_CHROMOSOMES,
    PSEUDO_AUTOSOMAL,
    UNPLACED,
    canonical_chromosome,
)

SCORED_CHROMOSOMES = frozenset(
    [*(str(number) for number in range(1, 23)), CHROMOSOME_X, *PSEUDO_AUTOSOMAL]
)
"""Chromosomes that are used unless ``--chr`` selects others."""

_ONE_COPY = {
    "Y": "plink2 --score counts one copy in men and none in others",
    "MT": "plink2 --score counts one copy",
}
_NOT_PLACED = "not placed on a chromosome"
_RANGE = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")
_LAST_NUMBER = 26  # MT


def parse_chromosomes(text: str) -> tuple[str, ...]:
    """Parse a list of chromosomes in the syntax of ``plink2 --chr``, such as ``1-4,22,X,PAR1``.

    The result has canonical codes in the given order, without repetitions. A name that is no human
    chromosome, and one of which ``plink2 --score`` counts one copy, are usage errors.
    """
    names = dict.fromkeys(name for part in text.split(",") for name in _expand(part.strip()))
    for name in names:
        if name not in HUMAN_CHROMOSOMES:
            raise UsageError(
                "not a human chromosome, or a range of numbers",
                where="--chr",
                value=name or "nothing",
                expected="0-22, X, XY, PAR1, PAR2",
                remedy="Write for example --chr 1-4,22,X",
            )
        if name in _ONE_COPY:
            raise UsageError(
                f"chromosome {name} cannot be used: {_ONE_COPY[name]}, and weights assume two "
                "copies",
                where="--chr",
                remedy=f"Leave {name} out",
            )
    return tuple(names)


def canonical_chromosomes(variants: VariantTable) -> StringColumn:
    """Return the canonical code of every variant."""
    codes, names = factorize_chromosomes(variants)
    return np.asarray(np.array(names, dtype=object)[codes], dtype=object)


def factorize_chromosomes(variants: VariantTable) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the index of every variant's canonical chromosome code, and the distinct codes."""
    spellings = variants.chromosome.tolist()
    canonical = {code: canonical_chromosome(code) for code in dict.fromkeys(spellings)}
    names = {name: index for index, name in enumerate(dict.fromkeys(canonical.values()))}
    indices = {code: names[name] for code, name in canonical.items()}
    codes = np.fromiter(map(indices.__getitem__, spellings), dtype=np.int64, count=len(spellings))
    return codes, tuple(names)


def left_out(chromosome: str) -> tuple[str, str] | None:
    """Return name and reason, for a log line, if a canonical chromosome is left out by default."""
    if chromosome in SCORED_CHROMOSOMES:
        return None
    if chromosome in _ONE_COPY:
        return f"chromosome {chromosome}", _ONE_COPY[chromosome]
    return "chromosome 0" if chromosome == UNPLACED else "other contigs", _NOT_PLACED


def _expand(part: str) -> Iterator[str]:
    """Yield the canonical codes of one entry of the list."""
    ends = _RANGE.fullmatch(part)
    if ends is None:
        yield canonical_chromosome(part)
        return
    first, last = int(ends[1]), int(ends[2])
    if not first <= last <= _LAST_NUMBER:
        yield part  # the caller refuses it
        return
    yield from (canonical_chromosome(str(number)) for number in range(first, last + 1))
