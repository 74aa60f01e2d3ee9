"""``python -m experiments.effect_estimators``: what the estimators of effects are worth.

A cohort and fresh people are mosaics of a public panel's genotypes, with phenotypes of several
genetic architectures. For each architecture, the product's own functions sum the cohort once over
LD components of a larger panel, or over the variants of its LD blocks, pay once, and finalize from
the same noise with each estimator.
The scores are evaluated in the fresh people, beside a release without noise. Rows that are in the
table of an earlier run are not made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import primo_scale as ps
from experiments.figures import standard_error
from experiments.results_table import append_rows, settings_done
from primo_scale.cli.simulate import main as simulate

_COHORT_SEED, _FRESH_SEED, _PANEL_SEED, _EFFECTS_SEED, _MIXING_SEED = 11, 12, 13, 5, 6
_FRESH_PEOPLE, _PANEL_PEOPLE = 6_000, 2_504
_FACTOR_HERITABILITY, _EVALUATED = 0.95, 20
ESTIMATORS = {
    "components": ("known-noise", "genetic-factors", "point-normal"),
    "variants": ("known-noise", "effect-variances"),
}


@dataclass(frozen=True)
class Architecture:
    """Genetic architecture of the phenotypes; `factors` of them are shared by all, if above 0."""

    causal_fraction: float = 0.1
    heritability: float = 0.3
    factors: int = 0


ARCHITECTURES = {
    "10% causal": Architecture(),
    "1% causal": Architecture(causal_fraction=0.01),
    "all causal": Architecture(causal_fraction=1.0),
    "h2 .05": Architecture(heritability=0.05),
    "h2 .8": Architecture(heritability=0.8),
    "2 factors": Architecture(factors=2),
    "20 factors": Architecture(factors=20),
}


@dataclass(frozen=True)
class Setting:
    """Release of the first phenotypes of an architecture."""

    architecture: str
    people: int
    epsilon: float  # infinite without noise
    phenotypes: int
    first: int
    columns: str

    @property
    def simulated(self) -> int:
        """Number of simulated phenotypes: releases of one phenotype have different ones."""
        return max(self.phenotypes, 10)


@dataclass(frozen=True)
class Row:
    """Accuracy of one estimator in fresh people, means over its first twenty phenotypes."""

    architecture: str
    people: int
    epsilon: float
    phenotypes: int
    first: int
    columns: str
    estimator: str
    r2: float
    r2_error: float
    slope: float


@dataclass(frozen=True)
class Study:
    """Public inputs, and the folder of everything that is made."""

    panel: Path
    frequencies: Path
    out: Path

    def prefix(self, who: str, setting: Setting) -> Path:
        """Return the prefix of the files of the cohort or of the fresh people."""
        kind = setting.architecture.replace(" ", "-").replace("%", "")
        shared = ARCHITECTURES[setting.architecture].factors
        count = setting.phenotypes if shared else setting.simulated
        people = f"-{setting.people}" if who == "cohort" else ""
        return self.out / f"{who}{people}-{kind}-{count}"


def write_people(study: Study, setting: Setting) -> None:
    """Simulate the larger panel, the cohort and the fresh people of a setting."""
    _simulate(study, study.out / "large_panel", "--samples", _PANEL_PEOPLE, "--seed", _PANEL_SEED)
    traits = ARCHITECTURES[setting.architecture]
    heritability = _FACTOR_HERITABILITY if traits.factors else traits.heritability
    for who, people, seed in (
        ("cohort", setting.people, _COHORT_SEED),
        ("fresh", _FRESH_PEOPLE, _FRESH_SEED),
    ):
        prefix = study.prefix(who, setting)
        if Path(f"{prefix}.pheno.tsv").exists():
            continue
        count = traits.factors or setting.simulated
        sizes = ("--samples", people, "--seed", seed, "--phenotypes", count)
        effects = ("--causal-fraction", traits.causal_fraction, "--heritability", heritability)
        _simulate(study, prefix, *sizes, *effects, "--effects-seed", _EFFECTS_SEED)
        if traits.factors:
            _mix(prefix, setting.phenotypes, traits.heritability, seed)


def _simulate(study: Study, prefix: Path, *words: object) -> None:
    if not prefix.with_suffix(".fam").exists():
        given = ("--bfile", study.panel, "--out", prefix, *words)
        simulate([str(word) for word in given], standalone_mode=False)


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


def measured(study: Study, setting: Setting) -> Iterator[Row]:
    """Sum the cohort of a setting once, and yield the accuracy of every estimator."""
    store = study.out / f"genotypes-{setting.people}.zarr"
    if not store.exists():
        ps.ingest(ps.GenotypeFiles(study.prefix("cohort", setting)), store)
    work, release, ledger = (study.out / name for name in ("work", "release", "ledger"))
    shutil.rmtree(work, ignore_errors=True)
    ledger.unlink(missing_ok=True)
    private = bool(np.isfinite(setting.epsilon))
    budget: dict[str, Any] = {"non_private": True}
    if private:
        budget = {"epsilon": setting.epsilon, "delta": float(setting.people) ** -2}
    model = ps.Model(
        ref_freq=study.frequencies,
        ld_panel=study.out / "large_panel",
        ld_components=private and setting.columns == "components",
        genetic_factors=(private and ARCHITECTURES[setting.architecture].factors) or None,
    )
    ps.accumulate(
        ps.AccumulateRequest(
            genotypes=store,
            outcomes=_outcomes(study, setting),
            privacy=ps.Privacy(**budget),
            work_dir=work,
            model=model,
            ledger=ledger,
            accept_noise=True,
        )
    )
    for estimator in ESTIMATORS[setting.columns] if private else (None,):
        shutil.rmtree(release, ignore_errors=True)
        fit = ps.Fit(shrinkage=estimator)
        ps.finalize(
            ps.FinalizeRequest(
                work_dir=work, out=release, ledger=ledger, accept_noise=True, fit=fit, **budget
            )
        )
        yield _row(study, setting, estimator or "without noise", release)


def _outcomes(study: Study, setting: Setting) -> ps.OutcomeTables:
    prefix = study.prefix("cohort", setting)
    numbers = range(setting.first, setting.first + setting.phenotypes)
    return ps.OutcomeTables(
        pheno=f"{prefix}.pheno.tsv",
        pheno_bounds=f"{prefix}.pheno-bounds.tsv",
        pheno_name=tuple(f"QT{number}" for number in numbers),
    )


def _row(study: Study, setting: Setting, estimator: str, release: Path) -> Row:
    evaluation = study.out / "evaluation"
    shutil.rmtree(evaluation, ignore_errors=True)
    fresh = study.prefix("fresh", setting)
    found = ps.evaluate(
        ps.EvaluationRequest(
            weights=release, pheno=f"{fresh}.pheno.tsv", bfile=fresh, out=evaluation
        )
    )
    measures = [result.measures for result in found.results if result.group == "all"][:_EVALUATED]
    r2 = np.array([each.r2.value for each in measures])
    return Row(
        **asdict(setting),
        estimator=estimator,
        r2=float(r2.mean()),
        r2_error=standard_error(r2) if len(r2) > 1 else float("nan"),
        slope=float(np.mean([each.calibration.slope for each in measures])),
    )


@click.command()
@click.option("--panel", type=Path, default="demo/1000g_eur343_chr22", show_default=True)
@click.option("--ref-freq", type=Path, required=True, help="plink2 --freq of the panel.")
@click.option("--out", type=Path, required=True, help="Folder of the cohorts and the results.")
@click.option("--people", default=20_000, show_default=True)
@click.option("--epsilon", "epsilons", multiple=True, default=(5.0,), show_default=True)
@click.option("--phenotypes", multiple=True, default=(1, 10), show_default=True)
@click.option(
    "--architecture", "architectures", multiple=True, type=click.Choice(list(ARCHITECTURES))
)
@click.option(
    "--columns", type=click.Choice(list(ESTIMATORS)), default="components", show_default=True
)
def main(panel: Path, ref_freq: Path, out: Path, **grid: Any) -> None:
    """Make every release that is missing in OUT/effect_estimators.csv, and evaluate it."""
    out.mkdir(parents=True, exist_ok=True)
    study, table = Study(panel, ref_freq, out), out / "effect_estimators.csv"
    done = settings_done(table, Row, Setting)
    for setting in settings(**grid):
        if tuple(map(str, astuple(setting))) in done:
            continue
        write_people(study, setting)
        rows = list(measured(study, setting))
        append_rows(table, rows)
        click.echo("\n".join(map(str, rows)))


def settings(
    people: int,
    epsilons: tuple[float, ...],
    phenotypes: tuple[int, ...],
    architectures: tuple[str, ...],
    columns: str,
) -> Iterator[Setting]:
    """Yield the setting of every release, without noise first."""
    for architecture, count in product(architectures or ARCHITECTURES, phenotypes):
        for epsilon in (float("inf"), *epsilons):
            for first in range(1, 4) if count == 1 else (1,):
                yield Setting(architecture, people, epsilon, count, first, columns)


if __name__ == "__main__":
    main()
