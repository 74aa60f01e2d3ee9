"""``python -m experiments.population_structure FOLDER``: what projected principal components do.

The people of some HapMap3 populations are divided into a public panel (every second person, from
whom plink2 computes frequencies and loadings) and templates of a cohort and of fresh people,
mosaics within each population. Half of the traits are heritable, the other half are not; the mean
of every trait differs between the populations of the cohort, as an environment would make it. Each
release is a whole one, by the product's own functions, over variants or over LD components of the
panel, without covariates, with projected principal components, or with the people's populations as
covariates, the most that principal components can do. Scores are measured in fresh people against
their genetic values: within populations (`r2`, and `slope` of the genetic value on the score), and
over all people (`across`), where scores that follow the cohort's environment fail. `chi2` is the
mean of (effect / standard error)^2 in the summary statistics of the traits without heritability, 1
if the standard errors are right; releases over LD components have none. A second run continues the
first.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import pandas as pd

import primo_scale as ps
from experiments.gaussian_noise import Float64
from experiments.releases import HAPMAP, Codes, mosaic_of
from experiments.result_tables import markdown_table
from primo_scale.evaluation.scores import match_weights, open_files, read_scoring_file, score_people
from primo_scale.run.options import GenotypeFiles
from primo_scale.simulation.cohort import (
    Effects,
    ReferencePanel,
    TraitModel,
    draw_effects,
    genotype_slabs,
    read_panel,
    write_genotypes,
)
from primo_scale.simulation.cohort import score_people as genetic_values

_PEOPLE = {"cohort": 40_000, "fresh": 8_000}
_SEEDS = {"cohort": 1, "fresh": 2}
_N_TRAITS = 5  # heritable, and as many that are not
_MODEL = TraitModel(_N_TRAITS, None, 0.3, 0.1)
_MEANS = 0.5  # standard deviation of a trait's mean between populations
_LABELS = -1
_COVARIATES = {0: "none", 2: "2 components", 4: "4 components", 10: "10 components",
               _LABELS: "populations"}  # fmt: skip
_SHARES = {"CEU": 0.5, "TSI": 0.2, "GIH": 0.15, "MEX": 0.15}  # of the populations in a cohort


def loadings(folder: Path, n_components: int) -> Path:
    """Return the loadings of so many components of the panel, which plink2 writes once."""
    prefix = str(folder / f"panel{n_components}")
    path = Path(f"{prefix}.eigenvec.allele")
    if Path(f"{prefix}.sscore").exists():
        return path
    scored = ["variance-standardize", "no-mean-imputation", "--score-col-nums"]
    for words in (
        ["--maf", "0.01", "--freq", "counts", "--pca", "allele-wts", str(n_components)],
        ["--read-freq", f"{prefix}.acount", "--score", str(path), "2", "5", "header-read",
         *scored, f"6-{5 + n_components}"],
    ):  # fmt: skip
        _plink2("--bfile", folder / "panel", *words, "--out", prefix)
    return path


def _plink2(*words: object) -> None:
    command = ["plink2", "--threads", "1", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True)


def simulate(folder: Path) -> None:
    """Write the panel, the cohort, the fresh people and their traits."""
    people = pd.read_csv(HAPMAP / "samples.tsv", sep="\t", dtype=str)
    panel = people[::2][people["POP"][::2].isin(list(_SHARES))][["FID", "IID"]]
    panel.to_csv(folder / "panel.txt", sep=" ", header=False, index=False)
    _plink2(
        "--bfile", HAPMAP / "hm3_chr1-10", "--keep", folder / "panel.txt", "--freq",
        "--make-bed", "--out", folder / "panel",
    )  # fmt: skip
    whole = read_panel(str(HAPMAP / "hm3_chr1-10"))
    names = people["POP"].to_numpy()
    template = np.arange(len(names)) % 2 == 1
    populations = [whole.codes[:, template & (names == name)] for name in _SHARES]
    effects = draw_effects(mosaic_of(whole, 0), whole.a1_frequency, _MODEL, seed=3)
    means = np.random.default_rng(4).normal(0, _MEANS, (len(populations), 2 * _N_TRAITS))
    for cohort in _PEOPLE:
        _write_cohort(folder, cohort, whole, populations, (effects, means))


def _write_cohort(
    folder: Path,
    cohort: str,
    panel: ReferencePanel,
    populations: list[Codes],
    truth: tuple[Effects, Float64],
) -> None:
    """Write genotypes, genetic values and traits of one group of people, by population."""
    effects, means = truth
    sizes = [4 * round(_PEOPLE[cohort] * share / 4) for share in _SHARES.values()]
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    mosaics = [
        mosaic_of(panel, 100 * _SEEDS[cohort] + number, codes)
        for number, codes in enumerate(populations)
    ]
    slabs = (
        (first_variant, start + first_person, packed)
        for start, size, mosaic in zip(starts, sizes, mosaics, strict=True)
        for first_variant, first_person, packed in genotype_slabs(mosaic, size)
    )
    prefix = str(folder / cohort)
    write_genotypes(prefix, slabs, panel.variants, sum(sizes))
    people = [f"{number}_{i}" for number, size in enumerate(sizes) for i in range(size)]
    ids = pd.DataFrame({"FID": people, "IID": people})
    fam = ids.assign(father=0, mother=0, sex=0, phenotype=-9)
    fam.to_csv(f"{prefix}.fam", sep="\t", header=False, index=False)
    genetic = [
        genetic_values(mosaic, range(size), effects.scores(), _N_TRAITS)
        for size, mosaic in zip(sizes, mosaics, strict=True)
    ]
    population = np.repeat(np.arange(len(sizes)), sizes)
    values = np.hstack([np.vstack(genetic), np.zeros((len(people), _N_TRAITS))])
    spread = np.sqrt(np.where(np.arange(2 * _N_TRAITS) < _N_TRAITS, 0.7, 1.0))
    noise = np.random.default_rng(_SEEDS[cohort]).standard_normal(values.shape) * spread
    traits = values + noise + means[population] * (cohort == "cohort")
    np.savez(folder / f"{cohort}.npz", genetic=values, population=population)
    names = [*_MODEL.names, *(f"NULL{k}" for k in range(_N_TRAITS))]
    labels = {name: (population == i).astype(int) for i, name in enumerate(_SHARES) if i}
    for name, table in {
        f"{cohort}.pheno": ids.join(pd.DataFrame(traits, columns=names)),
        f"{cohort}.covar": ids.assign(**labels),
        "covar-bounds": pd.DataFrame({"name": [*labels], "lower": 0, "upper": 1}),
        "bounds": pd.DataFrame({"name": names, "lower": -6, "upper": 6, "mean": 0, "sd": 1.1}),
    }.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False, float_format="%.5g")


def release(folder: Path, covariates: int, epsilon: float | None, *, ld_panel: bool) -> Path:
    """Return the release of all traits with so many components, or with the populations."""
    out = folder / f"release-{covariates}-{epsilon}{'-panel' * ld_panel}"
    if out.exists():
        return out
    n_people = len((folder / "cohort.fam").read_text().splitlines())
    tables = {
        "pheno": folder / "cohort.pheno.tsv",
        "pheno_bounds": folder / "bounds.tsv",
        "pc_loadings": loadings(folder, covariates) if covariates > 0 else None,
    }
    if covariates == _LABELS:
        bounds = folder / "covar-bounds.tsv"
        tables = {**tables, "covar": folder / "cohort.covar.tsv", "covar_bounds": bounds}
    privacy: dict[str, float] = {"non_private": True}
    if epsilon is not None:
        privacy = {"epsilon": epsilon, "delta": n_people**-2.0}
    model = {"ref_freq": folder / "panel.afreq", "ld_blocks": "window:200"}
    if ld_panel:
        model = {**model, "ld_panel": folder / "panel"}
    ps.release(
        bfile=folder / "cohort",
        **tables,
        **model,
        **privacy,
        out=out,
        sumstats=not ld_panel,
        genome_build="NCBI36",
        ledger=folder / f"{out.name}.sqlite",
        accept_noise=True,
    )
    return out


def measure(folder: Path, published: Path) -> dict[str, float]:
    """Return the accuracy of a release in the fresh people."""
    genotypes = open_files(GenotypeFiles((folder / "fresh",)).sources)
    names = list(_MODEL.names)
    scores = score_people(
        genotypes, match_weights(read_scoring_file(published, names), genotypes.variants)
    )
    truth = np.load(folder / "fresh.npz")
    genetic, population = truth["genetic"][:, :_N_TRAITS], truth["population"]
    within = [_within(values, population) for values in (scores, genetic)]
    heritability = (within[1] ** 2).mean(axis=0) / ((within[1] ** 2).mean(axis=0) + 0.7)
    products = (within[0] * within[1]).sum(axis=0)
    r2 = products**2 / ((within[0] ** 2).sum(axis=0) * (within[1] ** 2).sum(axis=0))
    overall = [np.corrcoef(s, g)[0, 1] ** 2 for s, g in zip(scores.T, genetic.T, strict=True)]
    share = genetic.var(axis=0) / (genetic.var(axis=0) + 0.7)
    statistics = [published / "sumstats" / f"NULL{k}.tsv.gz" for k in range(_N_TRAITS)]
    squares = [_chi2(path) for path in statistics if path.exists()]
    return {
        "r2": float(np.mean(r2 * heritability)),
        "slope": float(np.mean(products / (within[0] ** 2).sum(axis=0))),
        "across": float(np.mean(overall * share)),
        "chi2": float(np.mean(squares)) if squares else np.nan,
    }


def _within(values: Float64, population: npt.NDArray[np.int64]) -> Float64:
    """Return values less the mean of their population."""
    means = pd.DataFrame(values).groupby(population).transform("mean").to_numpy()
    return np.asarray(values - means)


def _chi2(path: Path) -> float:
    table = pd.read_csv(path, sep="\t")
    return float(((table["beta"] / table["standard_error"]) ** 2).mean())


def _rows(folder: Path) -> Iterator[list[str]]:
    for epsilon, ld_panel in ((None, False), (5.0, False), (5.0, True)):
        for covariates, name in _COVARIATES.items():
            found = measure(folder, release(folder, covariates, epsilon, ld_panel=ld_panel))
            privacy = "none" if epsilon is None else f"epsilon {epsilon:g}"
            numbers = (f"{value:.3f}" for value in found.values())
            row = [privacy, "components" if ld_panel else "variants", name, *numbers]
            click.echo(" ".join(row))
            yield row


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Simulate, release, measure and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "bounds.tsv").exists():
        simulate(folder)
    header = ("privacy", "columns", "covariates", "r2", "slope", "across", "chi2")
    click.echo(markdown_table(header, list(_rows(folder))))


if __name__ == "__main__":
    main()
