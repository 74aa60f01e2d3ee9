"""Copies of PLINK 1 filesets, and tables of people and variants."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from bed_reader import to_bed

from primo_scale.genotypes.source import GenotypeSource, SourceFiles, open_source
from primo_scale.genotypes.tables import SampleTable, VariantTable, string_column


def written(path: Path, content: str | bytes) -> Path:
    """Write a file, and return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def copy_fileset(source: Path, target: Path, *, random_genotypes: bool = False) -> Path:
    """Copy a fileset, optionally with random genotypes, and return the prefix of the copy."""
    for kind in (".bed", ".bim", ".fam"):
        shutil.copy(f"{source}{kind}", f"{target}{kind}")
    if random_genotypes:
        content = np.fromfile(f"{target}.bed", dtype=np.uint8)
        content[3:] = np.random.default_rng(1).integers(0, 256, len(content) - 3)
        content.tofile(f"{target}.bed")
    return target


def sample_table(people: Iterable[tuple[str, str]]) -> SampleTable:
    """Return people of unknown sex by their FIDs and IIDs."""
    family, individual = zip(*people, strict=True)
    return SampleTable(
        string_column(family), string_column(individual), np.zeros(len(family), dtype=np.int8)
    )


def variants_with(d: int, **columns: object) -> VariantTable:
    """Return d variants with the given columns; others are constant, and positions count from 1."""
    constant = {"chromosome": "1", "identifier": "v", "allele1": "A", "allele2": "G"}
    position = columns.pop("position", np.arange(1, d + 1))
    text = {name: np.full(d, value, object) for name, value in {**constant, **columns}.items()}
    return VariantTable(centimorgan=np.zeros(d), position=np.asarray(position), **text)


def open_filesets(prefixes: list[Path]) -> GenotypeSource:
    """Open PLINK 1 filesets as one source."""
    return open_source(SourceFiles(tuple(prefixes)))


def write_fileset_of(
    prefix: Path, dosages: np.ndarray, positions: Sequence[int], chromosome: str = "1"
) -> Path:
    """Write a fileset of dosages, shape (variants, people), with -1 for missing ones."""
    n_variants, count = dosages.shape
    to_bed(
        prefix.with_suffix(".bed"),
        np.where(dosages < 0, -127, dosages).T.astype(np.int8),
        properties={
            "iid": [f"I{i}" for i in range(count)],
            "chromosome": [chromosome] * n_variants,
            "sid": [f"{chromosome}:{position}" for position in positions],
            "bp_position": list(positions),
            "allele_1": ["A"] * n_variants,
            "allele_2": ["G"] * n_variants,
        },
    )
    return prefix
