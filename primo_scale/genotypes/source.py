"""Sources of genotypes: what an ingest asks of a file format, and the table of formats."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from primo_scale.genotypes.tables import Index, SampleTable, VariantTable
from primo_scale.kernels.packed import PackedGenotypes


class GenotypeSource(Protocol):
    """Genotypes of people at variants, as an ingest reads them.

    Several threads read at the same time. Genotypes are PLINK 1 codes of two bits: 0 for two copies
    of allele 1, 1 for missing, 2 for one copy, 3 for none. Four of them make a byte, the first in
    its lowest bits.
    """

    @property
    def samples(self) -> SampleTable:
        """All people, in the order of the files."""

    @property
    def variants(self) -> VariantTable:
        """All variants, in the order of the files; allele 1 is the counted one."""

    @property
    def odd_positions(self) -> int:
        """Number of variants whose position is not a plain integer in the file."""

    @property
    def variant_major(self) -> bool:
        """Whether a few variants of all people are read faster than many variants of a few."""

    @property
    def where(self) -> Path:
        """Path that error messages name."""

    def files(self) -> list[Path]:
        """Return all files, whose SHA-256 digests the store records."""

    def leading_bytes(self, n_variants: int) -> Iterator[tuple[Path, int]]:
        """Yield the files that are hashed while they are copied, not before.

        Each comes with its number of leading bytes that hold the first `n_variants` variants.
        Nothing needs to be yielded: all other files are hashed before the copy.
        """

    def read_ahead(self, variants: Index) -> None:
        """Start to read these variants into the page cache, or do nothing."""

    def read_into(self, result: PackedGenotypes, variants: Index, samples: Index) -> None:
        """Read genotypes of increasing positions into a C-contiguous array, variant-major.

        `result` has the shape (v, ceil(k / 4)), and its padding bits become 0. `variants` and
        `samples` are positions in the tables.

        Raises
        ------
        InputError
            A file became shorter, or its content is malformed.
        """

    def raw_value(self, variant: int, sample: int) -> int:
        """Read the code of one genotype, slowly and independently of `read_into`.

        The self-test of the ingest compares it with the finished store.
        """


SOURCES = {
    "": "primo_scale.genotypes.filesets:open_filesets",
}
"""Opener of each format by the ending of its file names; a prefix of a PLINK 1 fileset has none."""


def open_source(paths: Sequence[Path]) -> GenotypeSource:
    """Open files of one format, whose variants are joined in the given order.

    Raises
    ------
    UsageError, InputError
        As the opener of the format. Paths of several formats are taken as PLINK 1 prefixes.
    """
    endings = (ending for ending in SOURCES if all(path.name.endswith(ending) for path in paths))
    opener: Callable[[Sequence[Path]], GenotypeSource]
    opener = pkgutil.resolve_name(SOURCES[max(endings, key=len)])
    return opener(paths)
