"""Sources of genotypes: what an ingest asks of a file format, and the table of formats."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.store import HARD_CALLS, PackedBytes, Packing
from primo_scale.genotypes.tables import Index, SampleTable, VariantTable
from primo_scale.ranges import runs_of
from primo_scale.verify.chromosomes import canonical_chromosome

REF_FIRST = "ref-first"
"""plink2's word for the place of the reference allele in .bgen files; the other one is counted."""


@dataclass(frozen=True, eq=False)
class GenotypeSource(ABC):
    """Genotypes of people at variants, as an ingest reads them.

    Several threads read at the same time. Hard calls are PLINK 1 codes of two bits: 0 for two
    copies of allele 1, 1 for missing, 2 for one copy, 3 for none. Four of them make a byte, the
    first in its lowest bits. Dosages are bytes as in `kernels.dosage_bytes`.
    """

    where: Path  # that error messages name
    samples: SampleTable  # all people, in the order of the files
    variants: VariantTable  # all variants, in the order of the files; allele 1 is the counted one
    _: KW_ONLY
    packing: Packing = HARD_CALLS  # of the genotypes that are read
    # Whether a few variants of all people are read faster than many variants of a few.
    variant_major: bool = True

    @abstractmethod
    def files(self) -> list[Path]:
        """Return all files, whose SHA-256 digests the store records."""

    def copied_files(self) -> list[Path]:
        """Return the large files, which are hashed while they are copied in their order.

        All other files are hashed before the copy.
        """
        return [self.where] if self.where.is_file() else []

    @abstractmethod
    def read_into(self, result: PackedBytes, variants: Index, samples: Index) -> None:
        """Read genotypes of increasing positions into a C-contiguous array, variant-major.

        `result` has the shape (v, ceil(k / 4)), and its padding bits become 0; of dosages, (v, k).
        `variants` and `samples` are positions in the tables. A file that became shorter, or whose
        content is malformed, is refused.
        """


@dataclass(frozen=True)
class SourceFiles:
    """Genotype files of one format and of the same people."""

    paths: tuple[Path, ...]  # files or prefixes, whose variants are joined in this order
    format: str = "bfile"  # key of `SOURCES`
    sample: Path | None = None  # table of the people of .bgen files
    allele_order: str = REF_FIRST  # of .bgen files; also ref-last and ref-unknown
    packing: Packing = HARD_CALLS  # of the genotypes that are read


SOURCES = {
    "bfile": "primo_scale.genotypes.bed:open_fileset",
    "pfile": "primo_scale.genotypes.pgen:open_pgen",
    "bgen": "primo_scale.genotypes.bgen:open_bgen",
    "vcf": "primo_scale.genotypes.vcf:open_vcf",
    "vcz": "primo_scale.genotypes.vcf:open_vcz",
}
"""Opener of one file, or of the fileset of one prefix, by the option that names the format."""


def import_library(name: str, package: str, option: str, remedy: str) -> Any:
    """Import a library that reads a format, or name the package that has it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{package} is not installed, and these files need it",
            where=option,
            remedy=f"pip install {package}, or convert with {remedy}",
        ) from error


def open_source(files: SourceFiles) -> GenotypeSource:
    """Open the files and join their variants, in which every chromosome is contiguous.

    A path that is given twice, malformed files, and files that cannot be joined are refused.
    """
    opener: Callable[[Path, SourceFiles], GenotypeSource]
    opener = pkgutil.resolve_name(SOURCES[files.format])
    resolved = [path.resolve() for path in files.paths]
    for number, path in enumerate(files.paths):
        if resolved[number] in resolved[:number]:
            what = "the same fileset is given twice"
            remedy = "Give each one once"
            raise UsageError(what, where=f"--{files.format}", value=path, remedy=remedy)
    parts = tuple(opener(path, files) for path in files.paths)
    for part in parts[1:]:
        _check_same_people(parts[0].samples, part.samples, part.where)
    _check_contiguous_chromosomes(parts)
    if len(parts) == 1:
        return parts[0]
    return _JoinedSources(
        parts[0].where,
        parts[0].samples,
        VariantTable.concatenate([part.variants for part in parts]),
        parts,
        np.cumsum([0, *(len(part.variants) for part in parts)], dtype=np.intp),
        packing=files.packing,
        variant_major=all(part.variant_major for part in parts),
    )


@dataclass(frozen=True, eq=False)
class _JoinedSources(GenotypeSource):
    """Sources of the same people, usually one for each chromosome."""

    parts: Sequence[GenotypeSource]
    starts: Index  # the first variant of each part, and then the number of variants

    def files(self) -> list[Path]:
        """Return the files of all parts, in order; parts may share a file."""
        return list(dict.fromkeys(file for part in self.parts for file in part.files()))

    def copied_files(self) -> list[Path]:
        """Return the large files of all parts, in order."""
        return [file for part in self.parts for file in part.copied_files()]

    def read_into(self, result: PackedBytes, variants: Index, samples: Index) -> None:
        """Read genotypes by positions in the joined tables."""
        bounds = pairwise(np.searchsorted(variants, self.starts).tolist())
        for part, first, (begin, end) in zip(self.parts, self.starts[:-1], bounds, strict=True):
            if begin < end:
                part.read_into(result[begin:end], variants[begin:end] - first, samples)


def _check_same_people(expected: SampleTable, found: SampleTable, path: Path) -> None:
    where: Path | str = path
    value, right = f"{len(found)} people", f"{len(expected)} people"
    if len(expected) == len(found):
        differs = (expected.family != found.family) | (expected.individual != found.individual)
        if not differs.any():
            return
        row = int(np.argmax(differs))
        where = f"{path}, person {row + 1}"
        value, right = (f"{t.family[row]} {t.individual[row]}" for t in (found, expected))
    raise InputError(
        "the people, their FIDs or their order differ from those of the first fileset",
        where=where,
        value=value,
        expected=right,
        remedy="All filesets must hold the same people in the same order (plink2 --update-ids "
        "changes FIDs)",
    )


def _check_contiguous_chromosomes(parts: Sequence[GenotypeSource]) -> None:
    codes = np.concatenate([part.variants.chromosome for part in parts])
    seen: set[str] = set()
    previous = None
    for start, _ in runs_of(codes):
        chromosome = canonical_chromosome(codes[start])
        if chromosome in seen and chromosome != previous:
            raise InputError(
                f"chromosome {codes[start]} is split: its variants are not next to each other",
                where=", ".join(str(part.where) for part in parts),
                value=f"variant number {start + 1} comes after another chromosome",
                remedy="Sort the variants first (plink2 --make-pgen --sort-vars, or --make-bed)",
            )
        seen.add(chromosome)
        previous = chromosome
