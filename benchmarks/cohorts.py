"""Simulated cohorts to measure on, kept in a directory and made once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pandas as pd

from benchmarks.measurement import module_command, run_measured
from primo_scale.genotypes.store import open_genotype_store

PANEL = Path(__file__).resolve().parents[1] / "demo" / "1000g_eur343_chr22"
PHENOTYPES = 2
_SEED = 1


@dataclass(frozen=True)
class Cohort:
    """PLINK files of a cohort, and the genotype store made of them."""

    directory: Path
    samples: int
    variants: int

    @property
    def prefix(self) -> Path:
        """Prefix of the PLINK files and of the tables next to them."""
        return self.directory / f"n{self.samples}-d{self.variants}"

    @property
    def store(self) -> Path:
        """Path of the genotype store."""
        return self.prefix.with_name(self.prefix.name + ".zarr")

    def table(self, kind: str) -> Path:
        """Return the path of a table, such as ``pheno`` or ``pheno-bounds``."""
        return self.prefix.with_name(f"{self.prefix.name}.{kind}.tsv")


def simulated(directory: Path, samples: int, variants: int) -> Cohort:
    """Return the cohort of this size, with its store."""
    cohort = simulated_files(directory, samples, variants, PHENOTYPES)
    _ingest(cohort, cohort.prefix)
    return cohort


def simulated_files(directory: Path, samples: int, variants: int, phenotypes: int) -> Cohort:
    """Return the PLINK files of a cohort: mosaics of the demo's panel, tiled to `variants`."""
    cohort = Cohort(directory, samples, variants)
    if not cohort.prefix.with_suffix(".fam").is_file():  # written last
        words = ("--bfile", PANEL, "--out", cohort.prefix, "--samples", samples, "--seed", _SEED,
                 "--variants", variants, "--phenotypes", phenotypes)  # fmt: skip
        run_measured(module_command("primo_scale", "simulate", *words), directory)
    return cohort


def part_of(whole: Cohort, samples: int, variants: int) -> Cohort:
    """Return a cohort whose store holds the first people and variants of another cohort."""
    part = Cohort(whole.directory, samples, variants)
    if (samples, variants) == (whole.samples, whole.variants):
        return whole
    people, names = (part.prefix.with_suffix(suffix) for suffix in (".keep", ".extract"))
    _first_lines(whole.prefix.with_suffix(".fam"), samples, slice(0, 2), people)
    _first_lines(whole.prefix.with_suffix(".bim"), variants, slice(1, 2), names)
    _ingest(part, whole.prefix, "--keep", people, "--extract", names)
    return part


def frequencies(cohort: Cohort) -> Path:
    """Write the panel's allele frequencies, under the variant names of the cohort's store."""
    return write_frequencies(cohort, open_genotype_store(cohort.store).variants.identifier)


def write_frequencies(cohort: Cohort, names: Iterable[str]) -> Path:
    """Write the panel's allele frequencies for variants of these names, beside the cohort.

    A panel that is tiled to more variants repeats them as NAME, NAME_2, NAME_3 and so on.
    """
    path = cohort.prefix.with_suffix(".afreq")
    of_panel = pd.read_csv(PANEL.with_suffix(".afreq"), sep="\t", index_col="ID", dtype=str)
    names = list(names)
    rows = of_panel.loc[[name.partition("_")[0] for name in names]].assign(ID=names)
    rows.to_csv(path, sep="\t", index=False)
    return path


def _ingest(cohort: Cohort, prefix: Path, *selection: object) -> None:
    if cohort.store.is_dir():  # a store gets its name when it is finished
        return
    words = ("--bfile", prefix, "--out", cohort.store, *selection)
    run_measured(module_command("pipelines.ingest", *words), cohort.directory)


def _first_lines(table: Path, count: int, columns: slice, path: Path) -> None:
    with table.open() as lines, path.open("w") as selected:
        for line in islice(lines, count):
            selected.write("\t".join(line.split()[columns]) + "\n")
