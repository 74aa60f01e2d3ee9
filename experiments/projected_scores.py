"""``python -m experiments.projected_scores FOLDER``: projecting scores by Y'Y, with the product.

5,008 people (the number of PRIMO's paper) have 25 public scores in groups of five (r = .7 within a
group), and up to 10,000 phenotypes of which independent effects of the scores explain .3. Each
release keeps (epsilon, n^-2) feature privacy: genotypes are protected, phenotypes are public. R^2
of the stack is that in 6,000 fresh people, from the true effects. It is measured for the default
(`auto`, which projects where it expects a gain), and without a projection. A second run continues
the first.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import numpy as np
import pandas as pd

import primo_scale as ps
from experiments.gaussian_noise import Float64
from experiments.public_scores import write_score
from experiments.releases import DEMO, People, budget_of, write_frequencies
from experiments.result_tables import markdown_table
from primo_scale.simulation.cohort import A1_COPIES, read_panel

_VARIANTS, _GROUPS, _IN_GROUP, _SHARED, _EXPLAINED = 300, 5, 5, 0.7, 0.3
_PEOPLE = {
    name: People(size, seed, _VARIANTS, mean_segment=50)
    for seed, (name, size) in enumerate((("panel", 600), ("cohort", 5_008), ("fresh", 6_000)), 1)
}
_PHENOTYPES, _EPSILONS = (100, 1_000, 10_000), (1.0, 5.0)
_METHODS = {"auto": "default", "reuse-cov-gauss": "no projection"}


def copies(folder: Path, name: str) -> Float64:
    """Return the copies of A1 of some people, shape (variants, people)."""
    return np.asarray(np.nan_to_num(A1_COPIES)[read_panel(str(folder / name)).codes])


def simulate(folder: Path) -> Float64:
    """Write genotypes and public scores, and return the scores' weights, shape (variants, K)."""
    for name, people in _PEOPLE.items():
        people.write(DEMO, folder / name)
    panel = read_panel(str(folder / "panel"))
    write_frequencies(folder / "panel.afreq", panel)
    genotypes, rng, weights = copies(folder, "panel"), np.random.default_rng(5), []
    for _ in range(_GROUPS):
        common, *own = rng.standard_normal((1 + _IN_GROUP, _VARIANTS))
        common, *own = (each / (each @ genotypes).std() for each in (common, *own))
        weights += [np.sqrt(_SHARED) * common + np.sqrt(1 - _SHARED) * each for each in own]
    (folder / "scores").mkdir(exist_ok=True)
    variants = panel.variants
    table = pd.DataFrame({
        "ID": variants.identifier, "chrom": variants.chromosome, "pos": variants.position,
        "effect_allele": variants.allele1, "other_allele": variants.allele2,
    })  # fmt: skip
    for number, values in enumerate(weights):
        name = f"S{number:02}"
        path = folder / "scores" / f"{name}.txt.gz"
        if not path.exists():  # another file would be another request
            write_score(table.assign(**{name: values}), name, path)
    return np.stack(weights, axis=1)


def release(folder: Path, epsilon: float, n_phenotypes: int, method: str) -> Path:
    """Return a release, unless it exists."""
    out = folder / f"release-{epsilon:g}-{n_phenotypes}-{method}"
    if not out.exists():
        options = {} if np.isinf(epsilon) else {"unit": "feature", "method": method}
        ps.release(
            bfile=folder / "cohort",
            pheno=folder / f"pheno{n_phenotypes}.tsv",
            pheno_bounds=folder / f"bounds{n_phenotypes}.tsv",
            ref_freq=folder / "panel.afreq",
            ld_panel=folder / "panel",
            score_features=folder / "scores",
            genome_build="GRCh38",
            ledger=folder / f"{out.name}.sqlite",
            accept_noise=True,
            purge_intermediates=True,
            out=out,
            **options,
            **budget_of(epsilon, _PEOPLE["cohort"].samples),
        )
    return out


def rows(folder: Path, n_phenotypes: int, weights: Float64) -> list[list[str]]:
    """Return the rows of the table for a number of phenotypes."""
    scores = copies(folder, "cohort").T @ weights
    mean, sd = scores.mean(axis=0), scores.std(axis=0)
    seen, fresh = ((copies(folder, n).T @ weights - mean) / sd for n in ("cohort", "fresh"))
    effects = np.random.default_rng(9).standard_normal((weights.shape[1], n_phenotypes))
    effects *= np.sqrt(_EXPLAINED) / (seen @ effects).std(axis=0)
    names = [f"T{number}" for number in range(n_phenotypes)]
    path = folder / f"pheno{n_phenotypes}.tsv"
    if not path.exists():
        fam = pd.read_csv(folder / "cohort.fam", sep="\t", header=None, usecols=[0, 1])
        noise = np.random.default_rng(10).standard_normal((len(seen), n_phenotypes))
        values = seen @ effects + np.sqrt(1 - _EXPLAINED) * noise
        table = pd.concat([fam.set_axis(["FID", "IID"], axis=1),
                           pd.DataFrame(values, columns=names)], axis=1)  # fmt: skip
        table.to_csv(path, sep="\t", index=False, float_format="%.3f")
        bounds = pd.DataFrame({"name": names, "lower": -4.5, "upper": 4.5, "mean": 0, "sd": 1})
        bounds.to_csv(folder / f"bounds{n_phenotypes}.tsv", sep="\t", index=False)
    genetic = fresh @ effects

    def r_squared(epsilon: float, method: str) -> float:
        published = release(folder, epsilon, n_phenotypes, method)
        stack = pd.read_csv(published / "stack.tsv", sep="\t", skiprows=1, index_col=0)
        missed = (genetic - fresh @ stack.to_numpy()).var(axis=0)
        left = (missed + 1 - _EXPLAINED) / (genetic.var(axis=0) + 1 - _EXPLAINED)
        return float(1 - left.mean())

    # A release of more phenotypes without noise takes long, and explains nearly all.
    exact = r_squared(np.inf, "auto") if n_phenotypes <= 1_000 else _EXPLAINED
    found = []
    for epsilon, method in itertools.product(_EPSILONS, _METHODS):
        shares = [f"{n_phenotypes:,}", f"{epsilon:g}", _METHODS[method]]
        found.append([*shares, f"{r_squared(epsilon, method) / exact:.2f}"])
        click.echo(" ".join(found[-1]))
    return found


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Simulate, release, measure and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = simulate(folder)
    table = [row for count in _PHENOTYPES for row in rows(folder, count, weights)]
    header = ("phenotypes", "epsilon", "release", "share of R^2 without noise")
    click.echo(markdown_table(header, table))


if __name__ == "__main__":
    main()
