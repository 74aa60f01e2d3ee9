"""``python -m experiments.public_scores``: what a public score as a prior is worth.

Three cohorts are mosaics of a panel of real genotypes: a public one, a private one, and fresh
people in whom scores are evaluated. The effects in the public cohort have genetic correlation 0.7
with those in the private one; the panels of the two may differ. The public score is a release
without noise of the public cohort. Everything else is done by the product's own functions: for each
cell, the private cohort is summed once, paid for once, and finalized three times from the same
noise: without a prior, with the public scores of its traits, and with the public scores of other
traits. R^2 is that of the true genetic values times the heritability. A second run continues the
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import primo_scale as ps
from experiments.gaussian_noise import Float64
from experiments.releases import mosaic_of, write_frequencies
from experiments.result_tables import markdown_table
from primo_scale.simulation.cohort import (
    Effects,
    ReferencePanel,
    TraitModel,
    draw_effects,
    genotype_slabs,
    read_panel,
    simulate_people,
    write_bounds,
    write_genotypes,
    write_people,
)

HERITABILITY, CORRELATION = 0.3, 0.7
# Seeds of the people of each cohort, and of the effects and of those of the public cohort alone.
SEEDS = {"private": 1, "public": 2, "fresh": 3}
EFFECTS_SEED, OTHER_EFFECTS_SEED = 11, 12
N_FRESH = 6_000
PRIORS = ("none", "public", "useless")
_SCORE_COLUMNS = [
    "rsID", "chr_name", "chr_position", "effect_allele", "other_allele", "effect_weight"
]  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """Privacy parameter, phenotypes of a release, and number of releases of different traits."""

    epsilon: float
    n_phenotypes: int
    n_releases: int


CELLS = (Cell(1, 1, 20), Cell(5, 1, 20), Cell(5, 10, 4), Cell(5, 100, 1))


OF_PANEL = "panel"
"""Value of ``--ld-blocks`` for LD components of the panel behind the private cohort."""


@dataclass(frozen=True)
class Study:
    """Files of the experiment, in one folder, and the sizes of the two cohorts."""

    folder: Path
    panel: Path  # prefix of the fileset behind the private cohort and the fresh people
    public_panel: Path  # prefix of that behind the public cohort, with the same variants
    ld_blocks: str
    n_private: int
    n_public: int
    traits: TraitModel

    @property
    def delta(self) -> float:
        """Parameter delta of every release, 1 / n^2."""
        return float(self.n_private) ** -2

    def outcomes(self, cohort: str, traits: range) -> dict[str, Any]:
        """Return the tables of a cohort's phenotypes."""
        pheno, bounds = (self.folder / f"{cohort}.{kind}.tsv" for kind in ("pheno", "pheno-bounds"))
        return {"pheno": pheno, "pheno_bounds": bounds, "pheno_name": tuple(map(self.name, traits))}

    def name(self, trait: int) -> str:
        """Return the name of a trait."""
        return self.traits.names[trait]

    def model(self, cohort: str) -> dict[str, Any]:
        """Return the public choices, with the frequencies of the cohort's panel."""
        name = "public" if cohort == "public" else "private"
        of_panel = self.ld_blocks == OF_PANEL
        return {
            "ref_freq": self.folder / f"{name}.afreq",
            "ld_blocks": None if of_panel else self.ld_blocks,
            "ld_panel": self.panel if of_panel else None,
        }


# ---- Cohorts -------------------------------------------------------------------------------------


def simulate_cohorts(study: Study) -> None:
    """Write the three cohorts and the frequencies of their panels."""
    panels = {
        "private": read_panel(str(study.panel)),
        "public": read_panel(str(study.public_panel)),
    }
    own, other = (
        draw_effects(
            mosaic_of(panels["private"], 0), panels["private"].a1_frequency, study.traits, seed=seed
        )
        for seed in (EFFECTS_SEED, OTHER_EFFECTS_SEED)
    )
    public = sum_of_effects(own, other, CORRELATION)
    frequency = panels["public"].a1_frequency[public.variant]
    public = replace(public, a1_frequency=frequency)
    for name, n_people, effects in (
        ("private", study.n_private, own),
        ("public", study.n_public, public),
        ("fresh", N_FRESH, own),
    ):
        panel = panels["public" if name == "public" else "private"]
        write_frequencies(study.folder / f"{name}.afreq", panel)
        if not (study.folder / f"{name}.pheno.tsv").exists():
            _simulate(study, panel, name, n_people, effects)


def sum_of_effects(first: Effects, second: Effects, correlation: float) -> Effects:
    """Return effects that have a genetic correlation with the first, and the same heritability."""
    both = [
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("variant", "trait", "a1_frequency")
    ]
    beta = [correlation * first.beta, np.sqrt(1 - correlation**2) * second.beta]
    order = np.argsort(both[0], kind="stable")
    return Effects(*(values[order] for values in (*both, np.concatenate(beta))))


def _simulate(
    study: Study, panel: ReferencePanel, name: str, n_people: int, effects: Effects
) -> None:
    """Write a cohort; the phenotypes of the fresh people are their genetic values."""
    prefix, model = str(study.folder / name), study.traits
    mosaic = mosaic_of(panel, SEEDS[name])
    write_genotypes(prefix, genotype_slabs(mosaic, n_people), panel.variants, n_people)
    write_bounds(prefix, model)
    people = simulate_people(mosaic, n_people, model, effects)
    if name == "fresh":
        people = ((*slab[:4], slab[3]) for slab in people)
    write_people(prefix, people, model, SEEDS[name])


# ---- Releases ------------------------------------------------------------------------------------


def release_without_noise(study: Study, cohort: str) -> Path:
    """Return the release without noise of all traits of a cohort."""
    out = study.folder / f"{cohort}-exact"
    if not out.exists():
        ps.release(
            bfile=study.folder / cohort,
            **study.outcomes(cohort, range(study.traits.n_quantitative)),
            **study.model(cohort),
            non_private=True,
            out=out,
        )
    return out


def write_public_scores(study: Study) -> None:
    """Write the public cohort's score of each trait as one that somebody has published."""
    folder = study.folder / "public-scores"
    if folder.exists():
        return
    weights = ps.open_release(release_without_noise(study, "public")).weights
    temporary = folder.with_suffix(".tmp")
    temporary.mkdir(exist_ok=True)
    for name in study.traits.names:
        write_score(weights, name, temporary / f"{name}.txt.gz")
    temporary.rename(folder)


def write_score(weights: pd.DataFrame, name: str, path: Path) -> None:
    """Write the weights of a phenotype as a scoring file of the PGS Catalog."""
    score = weights[["ID", "chrom", "pos", "effect_allele", "other_allele", name]]
    score.set_axis(_SCORE_COLUMNS, axis=1).to_csv(path, sep="\t", index=False)


def release_cell(study: Study, cell: Cell, number: int) -> Iterator[tuple[str, Path]]:
    """Yield the name of each prior and its release, all from the same noise."""
    traits = range(number * cell.n_phenotypes, (number + 1) * cell.n_phenotypes)
    name = f"{cell.epsilon:g}-{cell.n_phenotypes}-{number}"
    work_dir, ledger = study.folder / f"{name}.work", study.folder / f"{name}.sqlite"
    outs = {prior: study.folder / f"{name}-{prior}" for prior in PRIORS}
    if not all(out.exists() for out in outs.values()):
        ps.accumulate(
            genotypes=study.folder / "private-exact.work" / "genotypes.zarr",
            **study.outcomes("private", traits),
            **study.model("private"),
            epsilon=cell.epsilon,
            delta=study.delta,
            work_dir=work_dir,
            ledger=ledger,
            accept_noise=True,
        )
    for prior, out in outs.items():
        if not out.exists():
            ps.finalize(
                work_dir=work_dir,
                out=out,
                ledger=ledger,
                accept_noise=True,
                prior_weights=_prior_files(study, prior, traits),
                epsilon=cell.epsilon,
                delta=study.delta,
            )
        yield prior, out


def _prior_files(study: Study, prior: str, traits: range) -> tuple[str, ...]:
    """Return the files for ``--prior-weights``; a useless score is that of another trait."""
    if prior == "none":
        return ()
    count = study.traits.n_quantitative
    step = 0 if prior == "public" else count // 2
    folder = study.folder / "public-scores"
    return tuple(
        f"{study.name(t)}={folder}/{study.name((t + step) % count)}.txt.gz" for t in traits
    )


def accuracy(study: Study, release: Path) -> pd.Series:
    """Return the R^2 in fresh people of each trait of a release."""
    out = release.with_name(f"{release.name}-evaluation")
    if not out.exists():
        ps.evaluate(
            weights=(release,),
            bfile=(study.folder / "fresh",),
            pheno=study.folder / "fresh.pheno.tsv",
            out=out,
        )
    table = pd.read_csv(out / "evaluation.tsv", sep="\t", skiprows=1)
    return table.set_index("phenotype")["r2"] * HERITABILITY


# ---- Table ---------------------------------------------------------------------------------------


def report(study: Study, cells: tuple[Cell, ...]) -> str:
    """Run what is missing and return the table as Markdown."""
    exact = accuracy(study, release_without_noise(study, "private"))
    public = accuracy(study, release_without_noise(study, "public"))
    write_public_scores(study)
    rows = []
    for cell in cells:
        found: dict[str, list[pd.Series]] = {prior: [] for prior in PRIORS}
        for number in range(cell.n_releases):
            for prior, out in release_cell(study, cell, number):
                found[prior].append(accuracy(study, out))
        values = {prior: pd.concat(parts) for prior, parts in found.items()}
        reference = exact[values["none"].index]
        shown = (values["none"], public[reference.index], values["public"], values["useless"])
        rows.append(
            [
                f"{cell.epsilon:g}, {cell.n_phenotypes}",
                str(len(reference)),
                *(_fraction(value, reference) for value in shown),
                _fraction(values["useless"] - values["none"], reference, "+.3f"),
            ]
        )
    header = (
        "epsilon, l",
        "traits",
        "private alone",
        "public alone",
        "both",
        "useless",
        "its cost",
    )
    return markdown_table(header, rows)


def _fraction(values: pd.Series, reference: pd.Series, form: str = ".3f") -> str:
    """Return a mean as a fraction of the mean reference, with a 95% interval over traits."""
    paired: Float64 = np.array(values / reference.mean())
    fraction = paired.mean()
    if len(paired) == 1:
        return f"{fraction:{form}}"
    spread = np.array(paired - fraction * (reference / reference.mean())).std(ddof=1)
    half = 1.96 * spread / np.sqrt(len(paired))
    return f"{fraction:{form}} +- {half:.3f}"


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="Files of the runs.")
@click.option("--panel", type=click.Path(path_type=Path), required=True, metavar="PREFIX")
@click.option("--public-panel", type=click.Path(path_type=Path), metavar="PREFIX")
@click.option(
    "--ld-blocks",
    default="window:500",
    show_default=True,
    help=f"{OF_PANEL!r}: LD components of --panel.",
)
@click.option("--private-people", "n_private", default=20_000, show_default=True)
@click.option("--public-people", "n_public", default=100_000, show_default=True)
@click.option("--traits", default=100, show_default=True, help="Number of simulated traits.")
@click.option("--causal-fraction", default=0.1, show_default=True)
@click.option("--most-releases", default=20, show_default=True, help="Releases of each cell.")
@click.option("--cell", type=(float, int), multiple=True, help="Epsilon and l; all if absent.")
def main(
    panel: Path,
    public_panel: Path | None,
    traits: int,
    causal_fraction: float,
    most_releases: int,
    cell: tuple[tuple[float, int], ...],
    **others: Any,
) -> None:
    """Measure what public scores are worth as a prior, and print the table."""
    model = TraitModel(traits, None, HERITABILITY, causal_fraction)
    study = Study(panel=panel, public_panel=public_panel or panel, traits=model, **others)
    study.folder.mkdir(parents=True, exist_ok=True)
    simulate_cohorts(study)
    cells = tuple(
        replace(c, n_releases=min(c.n_releases, most_releases))
        for c in CELLS
        if not cell or (c.epsilon, c.n_phenotypes) in cell
    )
    click.echo(report(study, cells))


if __name__ == "__main__":
    main()
