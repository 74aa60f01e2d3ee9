"""``python -m experiments.misspecification FOLDER``: what wrong public inputs and odd cohorts cost.

Cohorts of 20,000 people and fresh people are mosaics of real genotypes: the 3,000 variants of the
demo on chromosome 22 in 343 Europeans, and those of HapMap3, thinned by LD, on chromosomes 1 and 2
in several populations. Each cell is a private release of 10 traits (epsilon 5, delta 1/n^2, full
privacy, LD components) by the product's own functions, scored in fresh people, and compared with a
release without noise of the same cohort with the right public inputs. A second run continues the
first.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from bed_reader import open_bed, to_bed
from scipy.stats import sem

import primo_scale as ps
from experiments.gaussian_noise import Float64
from experiments.releases import (
    DEMO,
    HAPMAP,
    People,
    accuracy_in,
    budget_of,
    clear,
    write_frequencies,
)
from experiments.result_tables import markdown_table
from primo_scale.simulation.cohort import read_panel

_TRAITS = 10
_COHORT = People(20_000, 41, phenotypes=_TRAITS, effects_seed=3)
_PEOPLE = {"cohort": _COHORT, "fresh": replace(_COHORT, samples=6_000, seed=42)}
_EUROPE, _AFRICA = ("CEU", "TSI"), ("YRI", "LWK")
_RARE = 0.05
_MISSING = 0.3


@dataclass(frozen=True)
class Cell:
    """One release, and what is unusual about it.

    `of` and `panel` are filesets: of the people whom the cohort copies, and the LD panel. The
    frequencies are those of `frequencies`, by default of the people.
    """

    name: str
    of: str
    panel: str
    frequencies: str | None = None
    heritability: float = 0.3
    blocks: str | None = None
    covariates: bool = False
    missing: bool = False
    shift: float = 0.0  # difference of means from the public ones, in sd, upwards and downwards
    mean_segment: float = 200  # number of variants that a person copies from one of the panel

    @property
    def cohort(self) -> str:
        """Name of the cohort's files."""
        return f"{self.of}-{self.heritability:g}"


_BASE = Cell("well specified", "demo", "demo")
# Long segments of variants thinned by LD would have much more LD than a population.
_HAPMAP_BASE = Cell("HapMap3, well specified", "europe", "europe", mean_segment=3)
CELLS = (
    _BASE,
    replace(_BASE, name="heritability .05", heritability=0.05),
    replace(_BASE, name="heritability .8", heritability=0.8),
    replace(_BASE, name="blocks of 500 variants", blocks="window:500"),
    replace(_BASE, name="blocks with cuts in the middle of the panel's", blocks="shifted"),
    replace(_BASE, name="age and sex as covariates", covariates=True),
    replace(_BASE, name="30% of the phenotypes missing", missing=True),
    replace(_BASE, name="means half an sd off", shift=0.5),
    Cell("rare variants alone", "rare", "rare"),
    _HAPMAP_BASE,
    replace(_HAPMAP_BASE, name="HapMap3, means half an sd off", shift=0.5),
    replace(_HAPMAP_BASE, name="HapMap3, panel of 84 Tuscans", panel="tsi"),
    replace(_HAPMAP_BASE, name="HapMap3, panel of Gujaratis", panel="gih"),
    replace(_HAPMAP_BASE, name="HapMap3, panel of Africans", panel="africa"),
    replace(
        _HAPMAP_BASE,
        name="HapMap3, panel and frequencies of Africans",
        panel="africa",
        frequencies="africa",
    ),
)


def write_filesets(folder: Path) -> None:
    """Write the filesets of the cells, with their frequencies, unless they are there."""
    demo = open_bed(DEMO.with_suffix(".bed"))
    frequency = pd.read_csv(DEMO.with_suffix(".afreq"), sep="\t").ALT_FREQS.to_numpy()
    rarer = np.minimum(frequency, 1 - frequency)
    everybody = np.arange(demo.iid_count)
    _write_fileset(folder / "demo", demo, everybody, np.arange(demo.sid_count))
    _write_fileset(folder / "rare", demo, everybody, np.flatnonzero((rarer > 0) & (rarer < _RARE)))
    hapmap = open_bed(HAPMAP / "hm3_chr1-10.bed")
    population = pd.read_csv(HAPMAP / "samples.tsv", sep="\t").POP
    variants = np.flatnonzero(np.isin(hapmap.chromosome, ["1", "2"]))
    groups = {"europe": _EUROPE, "africa": _AFRICA, "gih": ("GIH",), "tsi": ("TSI",)}
    for name, members in groups.items():
        people = np.flatnonzero(population.isin(members))
        _write_fileset(folder / name, hapmap, people, variants)


def _write_fileset(
    prefix: Path, source: open_bed, people: np.ndarray[Any, Any], variants: np.ndarray[Any, Any]
) -> None:
    if Path(f"{prefix}.afreq").exists():
        return
    dosages = source.read(index=np.s_[people, variants], dtype="int8")
    names = ("chromosome", "sid", "bp_position", "allele_1", "allele_2")
    properties = {name: getattr(source, name)[variants] for name in names}
    to_bed(f"{prefix}.bed", dosages, {**properties, "iid": source.iid[people]})
    write_frequencies(Path(f"{prefix}.afreq"), read_panel(str(prefix)))


def measured(folder: Path, cell: Cell, *, private: bool) -> Float64:
    """Make the release of a cell, and return the R^2 of every trait in fresh people."""
    for name, people in _PEOPLE.items():
        people = replace(people, heritability=cell.heritability, mean_segment=cell.mean_segment)
        people.write(folder / cell.of, folder / f"{name}-{cell.cohort}")
    clear(*(folder / name for name in ("work", "release", "ledger")))
    cohort = folder / f"cohort-{cell.cohort}"
    budget = budget_of(5.0 if private else np.inf, _COHORT.samples)
    ps.release(
        bfile=cohort,
        **_outcomes(cohort, cell),
        **budget,
        ref_freq=folder / f"{cell.frequencies or cell.of}.afreq",
        ld_panel=folder / cell.panel,
        ld_blocks=_blocks(folder, cell),
        ledger=folder / "ledger",
        out=folder / "release",
        work_dir=folder / "work",
        accept_noise=True,
    )
    fresh = folder / f"fresh-{cell.cohort}"
    return accuracy_in(fresh, folder / "release", folder / "evaluation").r2[:_TRAITS]


def _outcomes(cohort: Path, cell: Cell) -> dict[str, Any]:
    pheno = Path(f"{cohort}.pheno.tsv")
    if cell.missing or cell.shift:
        table = pd.read_csv(pheno, sep="\t")
        traits = [f"QT{number}" for number in range(1, _TRAITS + 1)]
        missing = np.random.default_rng(4).random((len(table), len(traits))) < _MISSING
        table[traits] = table[traits].mask(missing & cell.missing)
        table[traits] += cell.shift * np.resize([1, -1], _TRAITS)
        pheno = Path(f"{cohort}.changed.tsv")
        table.to_csv(pheno, sep="\t", index=False, na_rep="NA")
    return {
        "pheno": pheno,
        "pheno_bounds": f"{cohort}.pheno-bounds.tsv",
        "covar": f"{cohort}.covar.tsv" if cell.covariates else None,
        "covar_bounds": f"{cohort}.covar-bounds.tsv" if cell.covariates else None,
    }


def _blocks(folder: Path, cell: Cell) -> str | None:
    """Return the blocks of a cell; shifted ones begin in the middle of the panel's."""
    if cell.blocks != "shifted":
        return cell.blocks
    table = pd.read_csv(f"{DEMO}.blocks.tsv", sep="\t", comment=None)
    chromosome, start, stop = table.columns
    middles = ((table[start] + table[stop]) // 2).tolist()
    ends = [int(table[start].iloc[0]), *middles, int(table[stop].iloc[-1])]
    shifted = pd.DataFrame(
        {chromosome: table[chromosome].iloc[0], start: ends[:-1], stop: ends[1:]}
    )
    path = folder / "shifted.blocks.tsv"
    shifted.to_csv(path, sep="\t", index=False)
    return str(path)


def report(table: Path) -> str:
    """Return the fractions of the R^2 without noise, with standard errors over the traits."""
    rows = pd.read_csv(table).pivot_table(index="trait", columns=["cell", "private"], values="r2")
    lines: list[tuple[str, ...]] = []
    for cell in CELLS:
        base = next(c for c in CELLS if c.cohort == cell.cohort).name
        if (cell.name, True) not in rows or (base, False) not in rows:
            continue
        found, best = rows[cell.name, True], rows[base, False]
        fraction = float(found.mean() / best.mean())
        error = float(sem(found - fraction * best) / best.mean())
        own = f"{rows[cell.name, False].mean():.3f}" if (cell.name, False) in rows else ""
        lines.append((cell.name, f"{found.mean():.3f}", own, f"{fraction:.3f} +- {error:.3f}"))
    return markdown_table(("cell", "R^2", "without noise", "fraction"), lines)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--draws", default=2, show_default=True, help="Private releases of each cell.")
def main(folder: Path, draws: int) -> None:
    """Make the releases that FOLDER/misspecification.csv lacks, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    write_filesets(folder)
    path = folder / "misspecification.csv"
    if not path.exists():
        path.write_text("cell,private,draw,trait,r2\n")
    for cell in CELLS:
        done = pd.read_csv(path)
        for private, draw in ((False, 0), *((True, draw) for draw in range(draws))):
            here = (done.cell == cell.name) & (done.private == private) & (done.draw == draw)
            if here.any():
                continue
            values = measured(folder, cell, private=private)
            with path.open("a", newline="") as file:
                csv.writer(file).writerows(
                    (cell.name, private, draw, trait, value) for trait, value in enumerate(values)
                )
    click.echo(report(path))


if __name__ == "__main__":
    main()
