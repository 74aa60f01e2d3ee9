"""``python -m experiments.stacked_scores FOLDER``: what a private stack of public scores explains.

100 public traits in 20 groups of five share .7 of their effects within a group. Their scores are
releases without noise of 50,000 people of European ancestry. Two cohorts of 20,000 people, one of
the same ancestry and one of another, have phenotypes that mix the true genetic values of the public
traits: independently, or by ten common factors. Each is released with the scores as features, and
evaluated in fresh people of its own ancestry, by the product's own functions. R^2 is that with the
true genetic value times the heritability. Beside it stand the same stack without noise, the best of
the public scores (chosen in the fresh people), and releases of variants with the same scores as
`prior_weights`. A second run continues the first.
"""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import primo_scale as ps
from experiments.gaussian_noise import Float64
from experiments.public_scores import sum_of_effects, write_score
from experiments.releases import HAPMAP, budget_of, mosaic_of
from experiments.result_tables import markdown_table
from primo_scale.evaluation.scores import match_weights, open_files, read_scoring_file, score_people
from primo_scale.run.options import GenotypeFiles
from primo_scale.simulation.cohort import (
    Effects,
    TraitModel,
    draw_effects,
    genotype_slabs,
    read_panel,
    write_genotypes,
)
from primo_scale.simulation.cohort import score_people as genetic_values

_GROUPS, _IN_GROUP, _SHARED = 20, 5, 0.7
_K = _GROUPS * _IN_GROUP
_PUBLIC = TraitModel(_K, None, 0.3, 0.05)
_PEOPLE = {"public": 50_000, "cohort": 20_000, "fresh": 8_000}
_ANCESTRIES = {"own": ("CEU", "TSI"), "other": ("YRI", "LWK")}
_FACTORS = 10
_EPSILONS = (0.5, 3.0)


@dataclass(frozen=True)
class Traits:
    """Phenotypes of a cohort: their number, heritability, and whether factors mix the traits."""

    count: int
    heritability: float
    factors: bool

    @property
    def name(self) -> str:
        """Name of their files."""
        kind = "factors" if self.factors else "independent"
        return f"{kind}-{self.count}-{self.heritability:g}"

    def loadings(self) -> Float64:
        """Return the share of each public trait in each phenotype, shape (K, l)."""
        rng = np.random.default_rng(7)
        if self.factors:
            drawn = rng.standard_normal((_K, _FACTORS)) @ rng.standard_normal((_FACTORS, 100))
        else:
            drawn = rng.standard_normal((_K, 100))
        return np.asarray(drawn[:, : self.count])


_TRAITS = (
    Traits(50, 0.3, True),
    Traits(50, 0.3, False),
    Traits(50, 0.1, False),
    Traits(5, 0.3, False),
)


def true_effects() -> Effects:
    """Return the effects of the public traits."""
    panel = read_panel(str(HAPMAP / "hm3_chr1-10"))
    mosaic, frequency = mosaic_of(panel, 0), panel.a1_frequency
    own = draw_effects(mosaic, frequency, _PUBLIC, seed=11)
    group = draw_effects(mosaic, frequency, TraitModel(_GROUPS, None, 0.3, 0.05), seed=12)
    members = np.arange(_IN_GROUP)
    repeated = Effects(
        np.repeat(group.variant, _IN_GROUP),
        (group.trait[:, None] * _IN_GROUP + members).ravel(),
        np.repeat(group.a1_frequency, _IN_GROUP),
        np.repeat(group.beta, _IN_GROUP),
    )
    return sum_of_effects(repeated, own, np.sqrt(_SHARED))


def simulate(folder: Path) -> None:
    """Write panels and genotypes of each ancestry, and everybody's genetic values."""
    people = pd.read_csv(HAPMAP / "samples.tsv", sep="\t", dtype=str)
    whole, effects = read_panel(str(HAPMAP / "hm3_chr1-10")), true_effects()
    for ancestry, populations in _ANCESTRIES.items():
        here = people["POP"].isin(populations).to_numpy()
        first = np.arange(len(people)) % 2 == 0
        listed, prefix = folder / f"{ancestry}.txt", folder / f"{ancestry}-panel"
        people.loc[here & first, ["FID", "IID"]].to_csv(listed, sep=" ", header=False, index=False)
        words = ["--bfile", HAPMAP / "hm3_chr1-10", "--keep", listed, "--freq", "--make-bed"]
        command = ["plink2", "--threads", "1", *map(str, words), "--out", str(prefix)]
        subprocess.run(command, check=True, capture_output=True)
        for number, (kind, size) in enumerate(_PEOPLE.items()):
            if kind == "public" and ancestry != "own":
                continue
            mosaic = mosaic_of(whole, 50 + number, whole.codes[:, here & ~first])
            prefix = folder / f"{ancestry}-{kind}"
            write_genotypes(str(prefix), genotype_slabs(mosaic, size), whole.variants, size)
            fam = _people(size).assign(father=0, mother=0, sex=0, phenotype=-9)
            fam.to_csv(f"{prefix}.fam", sep="\t", header=False, index=False)
            np.save(f"{prefix}.npy", genetic_values(mosaic, range(size), effects.scores(), _K))


def _people(size: int) -> pd.DataFrame:
    return pd.DataFrame({name: range(1, size + 1) for name in ("FID", "IID")})


def write_phenotypes(prefix: Path, name: str, genetic: Float64, heritability: float) -> None:
    """Write phenotypes of variance 1 and a heritability, and their bounds."""
    genetic = genetic / genetic.std(axis=0) * np.sqrt(heritability)
    noise = np.random.default_rng(13).standard_normal(genetic.shape) * np.sqrt(1 - heritability)
    names = [f"T{number}" for number in range(genetic.shape[1])]
    table = _people(len(genetic)).join(pd.DataFrame(genetic + noise, columns=names))
    table.to_csv(f"{prefix}.{name}.tsv", sep="\t", index=False, float_format="%.4f")
    bounds = pd.DataFrame({"name": names, "lower": -4.5, "upper": 4.5, "mean": 0, "sd": 1})
    bounds.to_csv(f"{prefix}.{name}-bounds.tsv", sep="\t", index=False)


def release(prefix: Path, name: str, out: Path, ancestry: str, **options: Any) -> Path:
    """Return a release of phenotypes, unless it exists."""
    panel = prefix.with_name(f"{ancestry}-panel")
    if not out.exists():
        ps.release(
            bfile=prefix,
            pheno=f"{prefix}.{name}.tsv",
            pheno_bounds=f"{prefix}.{name}-bounds.tsv",
            ref_freq=f"{panel}.afreq",
            ld_panel=panel,
            genome_build="NCBI36",
            ledger=f"{out}.sqlite",
            accept_noise=True,
            purge_intermediates=True,
            out=out,
            **options,
        )
    return out


def public_scores(folder: Path) -> Path:
    """Return the folder of the public scores, which people of one ancestry taught."""
    scores, prefix = folder / "scores", folder / "own-public"
    if not scores.exists():
        write_phenotypes(prefix, "public", np.load(f"{prefix}.npy"), 0.3)
        taught = release(prefix, "public", folder / "public-release", "own", non_private=True)
        partial = folder / "scores.partial"
        partial.mkdir(exist_ok=True)
        weights = ps.open_release(taught).weights
        for number in range(_K):
            write_score(weights, f"T{number}", partial / f"S{number}.txt.gz")
        partial.rename(scores)
    return scores


def explained(scores: Float64, genetic: Float64, heritability: float) -> Float64:
    """Return R^2 of each score for the phenotype of each genetic value, shape (scores, l)."""
    (k, _), together = scores.T.shape, np.corrcoef(scores.T, genetic.T)
    return np.asarray(together[:k, k:] ** 2 * heritability)


def fresh_scores(folder: Path, ancestry: str, published: Path, names: list[str]) -> Float64:
    """Return the scores of the fresh people of an ancestry."""
    genotypes = open_files(GenotypeFiles((folder / f"{ancestry}-fresh",)).sources)
    found = read_scoring_file(published, names)
    return score_people(genotypes, match_weights(found, genotypes.variants))


def rows(folder: Path, ancestry: str, traits: Traits) -> list[str]:
    """Return one row of the table."""
    prefix, files = folder / f"{ancestry}-cohort", public_scores(folder)
    loadings = traits.loadings()
    fresh = np.load(folder / f"{ancestry}-fresh.npy") @ loadings
    write_phenotypes(prefix, traits.name, np.load(f"{prefix}.npy") @ loadings, traits.heritability)
    names = [f"T{number}" for number in range(traits.count)]

    def mean_r2(label: str, **options: Any) -> float:
        out = folder / f"{ancestry}-{traits.name}-{label}"
        published = release(prefix, traits.name, out, ancestry, **options)
        scores = fresh_scores(folder, ancestry, published, names)
        return float(np.diag(explained(scores, fresh, traits.heritability)).mean())

    every = sorted(files.iterdir())
    alone = np.hstack([fresh_scores(folder, ancestry, file, ["effect_weight"]) for file in every])
    best = float(explained(alone, fresh, traits.heritability).max(axis=0).mean())
    exact = mean_r2("exact", score_features=files, non_private=True)
    found = [f"{ancestry} {traits.name}", f"{exact:.3f}", f"{best / exact:.2f}"]
    for epsilon, n_rounds in itertools.product(_EPSILONS, (1, 2)):
        budget = budget_of(epsilon, _PEOPLE["cohort"])
        label = f"stack-{epsilon:g}-{n_rounds}"
        r2 = mean_r2(label, score_features=files, rounds=n_rounds, **budget)
        found.append(f"{r2 / exact:.2f}")
    for epsilon in _EPSILONS:
        budget = budget_of(epsilon, _PEOPLE["cohort"])
        r2 = mean_r2(f"prior-{epsilon:g}", prior_weights=tuple(every), **budget)
        found.append(f"{r2 / exact:.2f}")
    click.echo(" ".join(found))
    return found


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Simulate, release, measure and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "other-fresh.npy").exists():
        simulate(folder)
    stacks = (f"epsilon {e:g}, {n} round{'s'[: n - 1]}" for e in _EPSILONS for n in (1, 2))
    header = ("ancestry and traits", "R^2 of the stack without noise", "best single score", *stacks,
              *(f"prior weights, epsilon {e:g}" for e in _EPSILONS))  # fmt: skip
    cells = itertools.product(_ANCESTRIES, _TRAITS)
    click.echo(markdown_table(header, [rows(folder, *cell) for cell in cells]))


if __name__ == "__main__":
    main()
