"""Copies of PLINK 1 filesets, and tables of people and variants."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from bed_reader import to_bed

from primo_scale.genotypes.source import GenotypeSource, SourceFiles, open_source
from primo_scale.genotypes.tables import SampleTable, VariantTable, string_column

COMPONENTS = ["PC1", "PC2", "PC3"]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def copy_fileset(source: Path, target: Path, *, random_genotypes: bool = False) -> Path:
    for kind in (".bed", ".bim", ".fam"):
        shutil.copy(f"{source}{kind}", f"{target}{kind}")
    if random_genotypes:
        content = np.fromfile(f"{target}.bed", dtype=np.uint8)
        content[3:] = np.random.default_rng(1).integers(0, 256, len(content) - 3)
        content.tofile(f"{target}.bed")
    return target


def sample_table(people: Iterable[tuple[str, str]]) -> SampleTable:
    return SampleTable(*map(string_column, zip(*people, strict=True)))


def variants_with(d: int, **columns: object) -> VariantTable:
    """Return d variants with the given columns; others are constant, and positions count from 1."""
    constant = {"chromosome": "1", "identifier": "v", "allele1": "A", "allele2": "G"}
    position = columns.pop("position", np.arange(1, d + 1))
    text = {name: np.full(d, value, object) for name, value in {**constant, **columns}.items()}
    return VariantTable(position=np.asarray(position), **text)


def open_filesets(prefixes: list[Path]) -> GenotypeSource:
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


def name_variants(prefix: Path) -> None:
    table = pd.read_csv(f"{prefix}.bim", sep="\t", header=None)
    table[1] = [f"rs{j}" for j in range(len(table))]
    table.to_csv(f"{prefix}.bim", sep="\t", header=False, index=False)


def write_loadings(
    prefix: Path,
    frequency: np.ndarray,
    loadings: np.ndarray,
    alleles: int = 1000,
    scores: pd.DataFrame | None = None,
) -> Path:
    """Write loadings, counts and panel scores as plink2 does, for variants rs0, rs1, ... A/G."""
    names = COMPONENTS[: loadings.shape[1]]
    rows = pd.DataFrame({"#CHROM": 1, "ID": [f"rs{j}" for j in range(len(loadings))]})
    rows = rows.assign(REF="G", ALT="A")
    counts = rows.assign(ALT_CTS=np.rint(alleles * frequency).astype(int), OBS_CT=alleles)
    counts.to_csv(f"{prefix}.acount", sep="\t", index=False)
    of_alleles = [
        rows.assign(A1=allele, **dict(zip(names, sign * loadings.T, strict=True)))
        for allele, sign in (("G", -1), ("A", 1))
    ]
    path = prefix.with_name(f"{prefix.name}.eigenvec.allele")
    pd.concat(of_alleles).sort_index(kind="stable").to_csv(path, sep="\t", index=False)
    if scores is None:
        spread = {name: [-0.1 * k, 0.3 * k] for k, name in enumerate(names, start=1)}
        scores = pd.DataFrame(spread, index=["a", "b"])
    scores = scores.add_suffix("_AVG").rename_axis("#IID")
    scores.to_csv(f"{prefix}.sscore", sep="\t")
    return path
