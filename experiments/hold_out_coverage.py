"""``python -m experiments.hold_out_coverage FILE``: coverage of the intervals in people held out.

Every release is a whole one of a new cohort, by the product's own functions from genotype files to
release.json, with a quarter of the people held out. Its weights are then measured in further people
of the same population, by the product's functions for the second stage: exact sums, noise,
intervals. Families are not measured again, because further people have no siblings among those that
the weights were learned from: only the release's own intervals count. The intervals of R^2, of the
slope and, for the binary phenotype, of the AUC are compared with the truth for these weights in
`FRESH` other people, unclipped and without noise. Results are appended to FILE, one line for each
release, and the same command continues.

Cohorts: one population; eleven populations of unequal sizes with a Balding-Nichols F_ST of 0.1,
whose means of the phenotypes differ by ancestry; and families of four siblings, who share an
environment that explains `ENVIRONMENT` of each phenotype. The other people have no relatives in the
cohort.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
from bed_reader import to_bed
from scipy import stats

import primo_scale as ps
from experiments.gaussian_noise import Float64
from experiments.result_tables import markdown_table
from primo_scale.gaussian.noise import KEY_BYTES, KeystreamNoise
from primo_scale.outcomes.coding import CovariateBounds, PhenotypeBounds, code_outcomes
from primo_scale.privacy.private_statistics import (
    ScoredPeople,
    hold_out_noise,
    noisy_hold_out,
    residual_bounds,
    residual_limits,
)
from primo_scale.run.publishing import state_hold_out

Dosages = npt.NDArray[np.int8]

FAMILIES = "families of four"
COHORTS = ("one population", "eleven populations", FAMILIES)
PEOPLE, VARIANTS, FRESH, HELD_OUT = 4_000, 100, 200_000, 0.25
FAMILY_VARIANTS = 400
MEASURED = 10  # groups of people in whom the weights of a release are measured
EPSILON, DELTA = 10.0, 1e-8
HERITABILITY = {"high": 0.4, "low": 0.1, "case": 0.4}
PREVALENCE = 0.1
ENVIRONMENT = 0.2
PHENOTYPES = (
    PhenotypeBounds("high", -6, 6, 0, 1.1, "quantitative"),
    PhenotypeBounds("low", -6, 6, 0, 1.1, "quantitative"),
    PhenotypeBounds("case", 0, 1, PREVALENCE, 0.3, "binary"),
)
AGE = CovariateBounds("age", 40, 70, 55)
_SEED = 20261124


@dataclass(frozen=True)
class Population:
    """Parameters of a population: frequencies by ancestry, effects, and means by ancestry."""

    kind: str
    frequencies: Float64  # shape (ancestries, variants)
    shares: Float64  # shape (ancestries,)
    effects: Float64  # shape (variants, phenotypes)
    means: Float64  # shape (ancestries, phenotypes)

    @classmethod
    def of(cls, kind: str) -> Population:
        """Return the population of a kind of cohorts, always the same."""
        random = np.random.default_rng([_SEED, COHORTS.index(kind)])
        n_variants = FAMILY_VARIANTS if kind == FAMILIES else VARIANTS
        ancestral = random.uniform(0.1, 0.9, n_variants)
        n = 11 if kind == "eleven populations" else 1
        shares = random.dirichlet(np.full(n, 2.0))
        scale = (1 - 0.1) / 0.1
        frequencies = random.beta(ancestral * scale, (1 - ancestral) * scale, (n, n_variants))
        if n == 1:
            frequencies = ancestral[None]
        heritability = np.array([*HERITABILITY.values()])
        effects = random.standard_normal((n_variants, len(heritability)))
        mean = shares @ frequencies
        effects *= np.sqrt(heritability / ((2 * mean * (1 - mean)) @ effects**2))
        means = random.normal(0, 0.4, (n, len(heritability))) * (n > 1)
        return cls(kind, frequencies, shares, effects, means)

    def draw(self, n_people: int, random: np.random.Generator) -> tuple[Dosages, Float64, Float64]:
        """Return dosages, phenotypes and the age of new people.

        The third phenotype is 1 for a case and 0 for a control.
        """
        siblings = 4 if self.kind == FAMILIES else 1
        ancestry = random.choice(len(self.shares), n_people // siblings, p=self.shares)
        frequency = self.frequencies[ancestry]
        parents = [
            random.random((2, *frequency.shape), dtype=np.float32) < frequency for _ in range(2)
        ]
        dosages = np.zeros((n_people, self.frequencies.shape[1]), dtype=np.int8)
        for sibling in range(siblings):
            for haplotypes in parents:
                first = random.random(frequency.shape, dtype=np.float32) < 0.5
                dosages[sibling::siblings] += np.where(first, *haplotypes)
        ancestry = np.repeat(ancestry, siblings)
        age = random.uniform(40, 70, n_people)
        centred = dosages - 2 * (self.shares @ self.frequencies)
        shared = ENVIRONMENT if siblings > 1 else 0.0
        noise = np.sqrt([1 - h - shared for h in HERITABILITY.values()])
        liability = centred @ self.effects + self.means[ancestry]
        liability += noise * random.standard_normal(liability.shape) + 0.03 * (age - 55)[:, None]
        if shared:
            family = random.standard_normal((n_people // siblings, len(HERITABILITY)))
            liability += np.sqrt(shared) * np.repeat(family, siblings, axis=0)
        liability[:, 2] = liability[:, 2] > 1.2 * stats.norm.isf(PREVALENCE)
        return dosages, liability, age


def write_cohort(folder: Path, dosages: Dosages, phenotypes: Float64, age: Float64) -> None:
    """Write a fileset, tables and public bounds."""
    ids = [f"p{number}" for number in range(len(dosages))]
    places = np.arange(1, dosages.shape[1] + 1)
    properties = {
        "fid": ids,
        "iid": ids,
        "chromosome": ["1"] * len(places),
        "sid": [f"rs{place}" for place in places],
        "bp_position": 100_000 * places,
        "allele_1": ["A"] * len(places),
        "allele_2": ["G"] * len(places),
    }
    to_bed(folder / "cohort.bed", dosages, properties)
    people = {"FID": ids, "IID": ids}
    traits = dict(zip(HERITABILITY, phenotypes.T, strict=True))
    for name, table in {
        "pheno": pd.DataFrame({**people, **traits}),
        "covar": pd.DataFrame({**people, "age": age}),
        "bounds": pd.DataFrame(PHENOTYPES).rename(columns={"kind": "type"}),
        "covar_bounds": pd.DataFrame([AGE])[["name", "lower", "upper"]],
    }.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)


def make_release(folder: Path) -> ps.Release:
    """Release the weights of the cohort in a folder, with people held out."""
    pheno, bounds, covar, covar_bounds = (
        folder / f"{name}.tsv" for name in ("pheno", "bounds", "covar", "covar_bounds")
    )
    request = ps.ReleaseRequest(
        bfile=(folder / "cohort",),
        pheno=pheno,
        pheno_bounds=bounds,
        covar=covar,
        covar_bounds=covar_bounds,
        epsilon=EPSILON,
        delta=DELTA,
        hold_out=HELD_OUT,
        ledger=folder / "ledger.sqlite",
        out=folder / "release",
    )
    return ps.release(request)


def truth_of(release: ps.Release, fresh: tuple[Dosages, Float64, Float64]) -> Float64:
    """Return R^2, slope and AUC of each phenotype's weights in fresh people, (3, phenotypes)."""
    dosages, phenotypes, age = fresh
    names = [*HERITABILITY]
    scores = dosages.astype(np.float32) @ release.weights[names].to_numpy(np.float32)
    weights = release.covariates.loc["age", names].to_numpy(np.float64)
    residuals = phenotypes - age[:, None] * weights
    is_case = phenotypes[:, -1] == 1
    above = stats.mannwhitneyu(scores[is_case, -1], scores[~is_case, -1]).statistic
    area = [np.nan] * (len(names) - 1) + [above / (is_case.sum() * (~is_case).sum())]
    scores, residuals = scores - scores.mean(axis=0), residuals - residuals.mean(axis=0)
    both, own = (scores * residuals).sum(axis=0), (scores**2).sum(axis=0)
    return np.array([both**2 / own / (residuals**2).sum(axis=0), both / own, area])


def measure(kind: str, number: int, fresh: tuple[Dosages, Float64, Float64]) -> dict[str, Any]:
    """Return the truth and the intervals of one release, of which the first is the published."""
    population, random = Population.of(kind), np.random.default_rng([_SEED, 7, number])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_cohort(folder, *population.draw(PEOPLE, random))
        release = make_release(folder)
        document = json.loads((release.directory / "release.json").read_text())
        truth = truth_of(release, fresh).tolist()
        stated = [document["hold_out"]["phenotypes"]]
        further = 0 if kind == FAMILIES else MEASURED - 1
        stated += [measure_again(release, document, population, random) for _ in range(further)]
    return {"cohort": kind, "release": number, "stated": stated, "truth": truth}


def measure_again(
    release: ps.Release, document: dict[str, Any], population: Population, random: Any
) -> list[dict[str, Any]]:
    """Measure the released weights in a part of a new cohort, and return the statement."""
    coding = code_outcomes(PHENOTYPES, [AGE])
    people = document["hold_out"]["people"]
    dosages, phenotypes, age = population.draw(people, random)
    names = [*HERITABILITY]
    weights = release.covariates[names].to_numpy(np.float64)  # intercept and age
    scores = dosages @ release.weights[names].to_numpy(np.float64)
    means = np.array([phenotype.mean for phenotype in PHENOTYPES])
    batch = (
        scores + weights[0] + 55 * weights[1] - means,
        phenotypes - means - (age - 55)[:, None] * weights[1],
        np.ones(phenotypes.shape, dtype=bool),
        np.zeros(people, dtype=np.intp),
    )
    bounds, limits = residual_bounds(coding.phenotypes), residual_limits(coding.phenotypes)
    scored = ScoredPeople(bounds, limits, lambda: [batch])
    noise = hold_out_noise(len(names), people, document["guarantee"]["cost"]["mu_squared"], "")
    noisy = noisy_hold_out(scored, noise, KeystreamNoise(os.urandom(KEY_BYTES)), len)
    stated = state_hold_out(noisy, noise, coding, calibrate=False)
    return [asdict(phenotype) for phenotype in stated.phenotypes]


def report(results: list[dict[str, Any]]) -> str:
    """Return the coverage as a Markdown table."""
    rows = []
    for kind in COHORTS:
        here = [result for result in results if result["cohort"] == kind]
        pairs = [(stated, result["truth"]) for result in here for stated in result["stated"]]
        for j, name in enumerate(HERITABILITY if here else ()):
            r2, slope, auc = (np.array([truth[i][j] for _, truth in pairs]) for i in range(3))
            cells = [_coverage([stated[j] for stated, _ in pairs], "r2", r2)]
            cells += [_coverage([stated[j] for stated, _ in pairs], "slope", slope)]
            cells += ["" if np.isnan(auc[0]) else _coverage([s[j] for s, _ in pairs], "auc", auc)]
            rows.append([kind, name, str(len(pairs)), f"{r2.mean():.3f}", *cells])
    header = ("cohort", "phenotype", "intervals", "mean R^2", "R^2: covered, width", "slope", "AUC")
    return markdown_table(header, rows)


def _coverage(stated: list[dict[str, Any]], name: str, truth: Float64) -> str:
    """Return the share of truths covered and the median width, where noise hid no result."""
    lower, upper = (
        np.array([each[f"{name}_{end}"] for each in stated], dtype=np.float64)
        for end in ("lower", "upper")
    )
    known = np.array([each[name] is not None for each in stated]) & ~np.isnan(lower)
    covered = (lower <= truth) & (truth <= upper)
    width = np.median((upper - lower)[known])
    return f"{100 * covered[known].mean():.1f}%, {width:.3f}, {np.sum(~known)} unknown"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--releases", type=click.IntRange(min=1), default=40, show_default=True)
def main(file: Path, releases: int) -> None:
    """Measure the coverage of the intervals in people held out."""
    logging.getLogger("primo_scale").setLevel(logging.ERROR)
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(result["cohort"], result["release"]) for result in results}
    random = np.random.default_rng(_SEED)
    fresh = {kind: Population.of(kind).draw(FRESH, random) for kind in COHORTS}
    for number, kind in itertools.product(range(releases), COHORTS):
        if (kind, number) not in done:
            results.append(measure(kind, number, fresh[kind]))
            with file.open("a") as lines:
                lines.write(json.dumps(results[-1]) + "\n")
    click.echo(report(results))


if __name__ == "__main__":
    main()
