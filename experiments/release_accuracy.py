"""``python -m experiments.release_accuracy``: what LD panels and estimators are worth.

A cohort and fresh people are mosaics of a public panel's genotypes, with phenotypes of several
genetic architectures. The product's own functions make every release: over the variants themselves,
over LD components of the panel, or over those of a panel of other mosaics, each at several numbers
of phenotypes and epsilons. Each is paid for once, of one round, finalized from the same noise with
each estimator, and scored in the fresh people, beside a release without noise and the scores of
`experiments.without_noise`. More variants than the panel has are further copies of it with effects
of their own, and have no such scores. A release that is in the table of an earlier run is not made
again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from scipy.stats import sem

import primo_scale as ps
from experiments.releases import DEMO, Accuracy, People, accuracy_in, budget_of, clear
from experiments.without_noise import accuracies

_FRESH_PEOPLE, _MOSAIC_PANELS = 6_000, {"small": 343, "large": 2_504}
_FEW = 20  # phenotypes of the release without noise; smaller releases share them
_SINGLE = 5  # releases of one phenotype for each epsilon and panel
_FACTOR_HERITABILITY, _MIXING_SEED = 0.95, 6
_OF_VARIANTS = ("known-noise", "effect-variances")
_OF_COMPONENTS = ("known-noise", "genetic-factors", "point-normal")


@dataclass(frozen=True)
class Architecture:
    """Genetic architecture of the phenotypes; `factors` of them are shared by all, if above 0."""

    causal_fraction: float = 0.1
    heritability: float = 0.3
    factors: int = 0


ARCHITECTURES = {
    "10% causal": Architecture(),
    "5% causal": Architecture(causal_fraction=0.05),
    "1% causal": Architecture(causal_fraction=0.01),
    ".1% causal": Architecture(causal_fraction=0.001),
    "all causal": Architecture(causal_fraction=1.0),
    "h2 .05": Architecture(heritability=0.05),
    "h2 .8": Architecture(heritability=0.8),
    "2 factors": Architecture(factors=2),
    "20 factors": Architecture(factors=20),
}


@dataclass(frozen=True)
class Setting:
    """Releases from one draw of the noise."""

    architecture: str
    epsilon: float  # infinite without noise
    phenotypes: int
    first: int  # number of the first phenotype
    columns: str  # ``variants``, or components of the ``panel`` or of mosaics of it
    draw: int = 1  # of the noise


@dataclass(frozen=True, kw_only=True)
class Row(Setting):
    """Accuracy of one release in fresh people, means over its phenotypes."""

    estimator: str
    r2: float
    r2_error: float
    slope: float
    forecast: float
    forecast_without_noise: float


@dataclass(frozen=True)
class Study:
    """Public inputs, the folder of everything that is made, and the simulated people.

    `seed` and the two numbers after it are the seeds of the cohort, the fresh people and the
    mosaics of the panels. `variants` is a number of copies of the panel's variants, or None.
    """

    panel: Path
    ref_freq: Path
    out: Path
    people: int
    variants: int | None
    simulated: int
    seed: int
    effects_seed: int

    @property
    def frequencies(self) -> Path:
        """Frequencies of all variants."""
        return self.out / "copies.afreq" if self.variants else self.ref_freq

    @property
    def genotypes(self) -> Path:
        """Store of the cohort's genotypes, which all architectures share."""
        return self.out / "genotypes.zarr"

    def prefix(self, who: str, architecture: str) -> Path:
        """Return the prefix of the files of the ``cohort`` or of the ``fresh`` people."""
        return self.out / f"{who}-{architecture.replace(' ', '-').replace('%', '')}"

    def panel_of(self, columns: str) -> Path:
        """Return the fileset of the panel of a release: the panel itself, or mosaics of it."""
        if columns not in _MOSAIC_PANELS and not self.variants:
            return self.panel
        return self.out / f"{columns if columns in _MOSAIC_PANELS else 'small'}_panel"

    def outcomes(self, setting: Setting) -> dict[str, Any]:
        """Return the tables of the phenotypes of a release."""
        prefix = self.prefix("cohort", setting.architecture)
        numbers = range(setting.first, setting.first + setting.phenotypes)
        names = tuple(f"QT{number}" for number in numbers)
        return {
            "pheno": f"{prefix}.pheno.tsv",
            "pheno_bounds": f"{prefix}.pheno-bounds.tsv",
            "pheno_name": names,
        }


def write_people(study: Study, name: str) -> None:
    """Simulate the cohort and the fresh people of an architecture, and what all cohorts share."""
    traits = ARCHITECTURES[name]
    sizes = {"cohort": study.people, "fresh": _FRESH_PEOPLE}
    for seed, (who, size) in enumerate(sizes.items(), study.seed):
        prefix = study.prefix(who, name)
        if Path(f"{prefix}.fam").exists():
            continue
        people = People(
            size,
            seed,
            study.variants,
            traits.factors or study.simulated,
            _FACTOR_HERITABILITY if traits.factors else traits.heritability,
            traits.causal_fraction,
            study.effects_seed,
        )
        people.write(study.panel, prefix)
        if traits.factors:
            _mix(prefix, study.simulated, traits.heritability, seed)
    cohort = study.prefix("cohort", name)
    if not study.genotypes.exists():
        ps.ingest(bfile=cohort, out=study.genotypes)
    if study.variants:
        _write_frequencies(study, Path(f"{cohort}.bim"))


def _mix(prefix: Path, count: int, heritability: float, seed: int) -> None:
    """Replace the simulated traits by random mixtures of them with noise of their own."""
    table = pd.read_csv(f"{prefix}.pheno.tsv", sep="\t")
    factors = table.iloc[:, 2:].to_numpy()
    loadings = np.random.default_rng(_MIXING_SEED).standard_normal((factors.shape[1], count))
    loadings /= np.linalg.norm(loadings, axis=0)
    share = heritability / _FACTOR_HERITABILITY
    noise = np.random.default_rng(seed).standard_normal((len(factors), count))
    mixed = np.sqrt(share) * factors @ loadings + np.sqrt(1 - share) * noise
    names = [f"QT{number + 1}" for number in range(count)]
    phenotypes = pd.DataFrame(np.round(mixed, 3), columns=names)
    found = pd.concat([table.iloc[:, :2], phenotypes], axis=1)
    found.to_csv(f"{prefix}.pheno.tsv", sep="\t", index=False)
    bounds = pd.read_csv(f"{prefix}.pheno-bounds.tsv", sep="\t").iloc[[0] * count]
    bounds.assign(name=names).to_csv(f"{prefix}.pheno-bounds.tsv", sep="\t", index=False)


def _write_frequencies(study: Study, variants: Path) -> None:
    """Write the panel's frequencies for every copy of its variants, by the IDs in a .bim file."""
    table = pd.read_csv(study.ref_freq, sep="\t", dtype=str)
    named = pd.read_csv(variants, sep="\t", header=None, dtype=str)
    copies = table.iloc[np.arange(len(named)) % len(table)].reset_index(drop=True)
    copies = copies.assign(**{"#CHROM": named[0], "ID": named[1]})
    copies.to_csv(study.frequencies, sep="\t", index=False)


def measured(study: Study, setting: Setting) -> Iterator[Row]:
    """Sum the cohort, and yield the accuracy of every estimator, and of two rounds."""
    work, release, ledger = (study.out / name for name in ("work", "release", "ledger"))
    budget = budget_of(setting.epsilon, study.people)
    fresh = study.prefix("fresh", setting.architecture)
    for rounds, estimators in _estimators(setting):
        clear(work, ledger)  # the key of the charge before the sums draws all noise
        forecast = _accumulate(study, setting, budget, rounds)
        for estimator in estimators:
            clear(release)
            shrinkage = None if np.isinf(setting.epsilon) else estimator
            request = ps.FinalizeRequest(
                work_dir=work,
                out=release,
                ledger=ledger,
                accept_noise=True,
                shrinkage=shrinkage,
                **budget,
            )
            ps.finalize(request)
            found = accuracy_in(fresh, release, study.out / "evaluation")
            yield _row(setting, "two rounds" if rounds == 2 else estimator, found, forecast)
    if np.isinf(setting.epsilon) and not study.variants:  # copies do not fit into memory
        sizes = json.loads((release / "release.json").read_text())["cohort"]["block_sizes"]
        for name, found in accuracies(
            cohort=study.prefix("cohort", setting.architecture),
            fresh=fresh,
            phenotypes=[f"QT{number}" for number in range(1, 1 + setting.phenotypes)],
            boundaries=np.cumsum([0, *sizes]).tolist(),
            h2=ARCHITECTURES[setting.architecture].heritability,
        ).items():
            yield _row(setting, name, found, forecast)


def _estimators(setting: Setting) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield numbers of rounds, and the estimators of the statistics of each."""
    if np.isinf(setting.epsilon):
        yield 1, ("without noise",)
    elif setting.columns == "variants":
        yield 1, _OF_VARIANTS
    else:
        yield 1, _OF_COMPONENTS
        if not ARCHITECTURES[setting.architecture].factors:
            yield 2, ("point-normal",)


def _row(setting: Setting, estimator: str, found: Accuracy, forecast: tuple[float, float]) -> Row:
    return Row(
        **asdict(setting),
        estimator=estimator,
        r2=float(found.r2.mean()),
        r2_error=float(sem(found.r2)) if len(found.r2) > 1 else float("nan"),
        slope=float(found.slope.mean()),
        forecast=forecast[0],
        forecast_without_noise=forecast[1],
    )


def _accumulate(
    study: Study, setting: Setting, budget: dict[str, Any], rounds: int
) -> tuple[float, float]:
    """Sum the cohort, and return the forecasts of R^2 with and without noise, or nan."""
    of_components = setting.columns != "variants"
    factors = ARCHITECTURES[setting.architecture].factors if of_components else None
    panel = study.panel_of(setting.columns)
    request = ps.AccumulateRequest(
        genotypes=study.genotypes,
        **study.outcomes(setting),
        **budget,
        work_dir=study.out / "work",
        ref_freq=study.frequencies,
        ld_panel=(panel,),
        ld_components=of_components,
        genetic_factors=factors or None,
        rounds=rounds,
        ledger=study.out / "ledger",
        accept_noise=True,
    )
    forecast = ps.plan(request).accuracy
    ps.accumulate(request)
    if forecast is None:
        return float("nan"), float("nan")
    return forecast.r_squared, forecast.without_noise


def settings(
    architectures: tuple[str, ...],
    columns: tuple[str, ...],
    epsilons: tuple[float, ...],
    phenotypes: tuple[int, ...],
    draws: int,
) -> Iterator[Setting]:
    """Yield the setting of every release."""
    for architecture in architectures:
        yield Setting(architecture, float("inf"), _FEW, 1, "variants")
        for kind, epsilon, count in product(columns, epsilons, phenotypes):
            last = _SINGLE if count == 1 else max(1, 1 + _FEW - count)
            for first, draw in product(range(1, 1 + last, count), range(1, 1 + draws)):
                yield Setting(architecture, epsilon, count, first, kind, draw)


@click.command()
@click.option("--panel", type=Path, default=DEMO, help="[default: the demo's]")
@click.option("--ref-freq", type=Path, required=True, help="plink2 --freq of the panel.")
@click.option("--out", type=Path, required=True, help="Folder of the cohorts and the results.")
@click.option("--people", default=20_000, show_default=True)
@click.option("--variants", type=int, help="More than the panel's, of copies of it.")
@click.option("--seed", default=11, show_default=True, help="Of the people; uses three seeds.")
@click.option("--effects-seed", default=5, show_default=True)
@click.option(
    "--architecture",
    "architectures",
    type=click.Choice(list(ARCHITECTURES)),
    multiple=True,
    default=("10% causal",),
    show_default=True,
)
@click.option(
    "--columns",
    type=click.Choice(["variants", "panel", *_MOSAIC_PANELS]),
    multiple=True,
    default=("variants", "panel", "large"),
    show_default=True,
)
@click.option("--epsilon", "epsilons", multiple=True, default=(5.0, 1.0), show_default=True)
@click.option("--phenotypes", multiple=True, default=(1, 10, 100), show_default=True)
@click.option("--draws", default=1, show_default=True, help="Draws of the noise.")
def main(
    architectures: tuple[str, ...],
    columns: tuple[str, ...],
    epsilons: tuple[float, ...],
    phenotypes: tuple[int, ...],
    draws: int,
    **study_of: Any,
) -> None:
    """Make every release that is missing in OUT/release_accuracy.csv, and evaluate it."""
    study = Study(**study_of, simulated=max(*phenotypes, _FEW))
    study.out.mkdir(parents=True, exist_ok=True)
    for name, size in _MOSAIC_PANELS.items():
        People(size, study.seed + 2, study.variants).write(study.panel, study.panel_of(name))
    table = study.out / "release_accuracy.csv"
    if not table.exists():
        table.write_text(",".join(field.name for field in fields(Row)) + "\n")
    keys = [field.name for field in fields(Setting)]
    with table.open(newline="") as file:
        done = {tuple(line[key] for key in keys) for line in csv.DictReader(file)}
    for setting in settings(architectures, columns, epsilons, phenotypes, draws):
        if tuple(map(str, astuple(setting))) in done:
            continue
        write_people(study, setting.architecture)
        rows = list(measured(study, setting))
        with table.open("a", newline="") as file:
            csv.writer(file).writerows(map(astuple, rows))
        click.echo("\n".join(map(str, rows)))


if __name__ == "__main__":
    main()
