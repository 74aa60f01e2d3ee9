"""``python -m experiments.panel_accuracy``: what an LD panel is worth, in releases of the product.

A cohort and fresh people are mosaics of a public panel's genotypes. The product's own functions
make every release: with the variants themselves, with LD components of the panel, and with those of
a larger panel of other mosaics, each at several numbers of phenotypes and epsilons. The scores are
evaluated in the fresh people. More variants than the panel has are further copies of it with
effects of their own. A release that is in the table of an earlier run is not made again.
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
from primo_scale.privacy.accuracy import Forecast

_FRESH_PEOPLE, _MOSAIC_PANELS = 6_000, {"small": 343, "large": 2_504}
_FEW = 20  # phenotypes of the releases without noise, and evaluated ones of those with more
_SINGLE = 5  # releases of one phenotype for each epsilon and panel


@dataclass(frozen=True)
class Setting:
    """One release."""

    epsilon: float  # infinite without noise
    phenotypes: int
    first: int  # number of the first phenotype
    panel: str  # ``none`` for variants; components of the ``panel``, or of mosaics of it
    draw: int = 1  # of the noise, on the same statistics


@dataclass(frozen=True)
class Row:
    """Accuracy of one release in fresh people, means over its first twenty phenotypes."""

    people: int
    epsilon: float
    phenotypes: int
    first: int
    panel: str
    draw: int
    r2: float
    r2_error: float
    slope: float
    forecast: float
    forecast_without_noise: float


@dataclass(frozen=True)
class People:
    """Sizes and seeds of the simulated people, whose seeds are three numbers from `seed`."""

    count: int
    variants: int
    phenotypes: int
    causal_fraction: float
    seed: int
    effects_seed: int


@dataclass(frozen=True)
class Files:
    """Prefixes of the filesets, and the folder of the results."""

    panel: Path
    frequencies: Path
    out: Path
    copies: bool  # whether there are copies of the panel's variants, which only mosaics have

    @property
    def cohort(self) -> Path:
        """Fileset of the cohort."""
        return self.out / "cohort"

    @property
    def fresh(self) -> Path:
        """Fileset of the people in whom scores are evaluated."""
        return self.out / "fresh"

    def panel_of(self, columns: str) -> Path:
        """Return the fileset of the panel of a release: the panel itself, or mosaics of it."""
        if columns not in _MOSAIC_PANELS and not self.copies:
            return self.panel
        return self.out / f"{columns if columns in _MOSAIC_PANELS else 'small'}_panel"


def write_people(files: Files, people: People) -> None:
    """Simulate the cohort, fresh people with the same effects, and panels of other mosaics."""
    traits = (
        "--phenotypes", people.phenotypes, "--causal-fraction", people.causal_fraction,
        "--effects-seed", people.effects_seed,
    )  # fmt: skip
    for prefix, size, seed, more in (
        (files.cohort, people.count, people.seed, traits),
        (files.fresh, _FRESH_PEOPLE, people.seed + 1, traits),
        *((files.panel_of(name), n, people.seed + 2, ()) for name, n in _MOSAIC_PANELS.items()),
    ):
        if not prefix.with_suffix(".fam").exists():
            words = ("--bfile", files.panel, "--out", prefix, "--samples", size, "--seed", seed)
            more = ("--variants", people.variants, *more)
            simulate([str(word) for word in (*words, *more)], standalone_mode=False)


def write_frequencies(panel: Path, out: Path, variants: Path) -> None:
    """Write the panel's frequencies for every copy of its variants, by the IDs in a .bim file."""
    table = pd.read_csv(panel, sep="\t", dtype=str)
    named = pd.read_csv(variants, sep="\t", header=None, dtype=str)
    copies = table.iloc[np.arange(len(named)) % len(table)].reset_index(drop=True)
    copies.assign(**{"#CHROM": named[0], "ID": named[1]}).to_csv(out, sep="\t", index=False)


def measured(files: Files, setting: Setting) -> Row:
    """Make one release from the ingested genotypes, and evaluate it in the fresh people."""
    people = sum(1 for _ in files.cohort.with_suffix(".fam").open())
    forecast = _release(files, setting, people)
    found = ps.evaluate(
        ps.EvaluationRequest(
            weights=files.out / "release",
            pheno=f"{files.fresh}.pheno.tsv",
            bfile=files.fresh,
            out=files.out / "evaluation",
        )
    )
    measures = [result.measures for result in found.results if result.group == "all"][:_FEW]
    r2 = np.array([each.r2.value for each in measures])
    return Row(
        people=people,
        **asdict(setting),
        r2=float(r2.mean()),
        r2_error=standard_error(r2) if len(r2) > 1 else float("nan"),
        slope=float(np.mean([each.calibration.slope for each in measures])),
        forecast=float("nan") if forecast is None else forecast.r_squared,
        forecast_without_noise=float("nan") if forecast is None else forecast.without_noise,
    )


def _release(files: Files, setting: Setting, people: int) -> Forecast | None:
    """Make the release of a setting in place of the last one, and return its forecast."""
    work, release, ledger = (files.out / name for name in ("work", "release", "ledger"))
    same = "_".join(str(part) for part in astuple(setting)[:-1])  # all but the draw
    accumulated = files.out / f"accumulated_{same}"
    others = set(files.out.glob("accumulated_*")) - {accumulated}
    for path in (*others, work, release, files.out / "evaluation"):
        shutil.rmtree(path, ignore_errors=True)
    ledger.unlink(missing_ok=True)
    budget: dict[str, Any] = {"non_private": True}
    if np.isfinite(setting.epsilon):
        budget = {"epsilon": setting.epsilon, "delta": people**-2.0}
    accumulation = ps.AccumulateRequest(
        genotypes=files.out / "genotypes.zarr",
        outcomes=_outcomes(files, setting),
        privacy=ps.Privacy(**budget),
        work_dir=accumulated,
        model=ps.Model(
            ref_freq=files.frequencies,
            ld_panel=files.panel_of(setting.panel),
            ld_components=setting.panel != "none",
        ),
        ledger=ledger,
        accept_noise=True,
    )
    forecast = ps.plan(accumulation).accuracy
    if not accumulated.exists():
        ps.accumulate(accumulation)
    shutil.copytree(accumulated, work)  # a work directory makes one draw of a release
    ps.finalize(
        ps.FinalizeRequest(work_dir=work, out=release, ledger=ledger, accept_noise=True, **budget)
    )
    return forecast


def _outcomes(files: Files, setting: Setting) -> ps.OutcomeTables:
    last = setting.first + setting.phenotypes
    return ps.OutcomeTables(
        pheno=f"{files.cohort}.pheno.tsv",
        pheno_bounds=f"{files.cohort}.pheno-bounds.tsv",
        pheno_name=tuple(f"QT{number}" for number in range(setting.first, last)),
    )


def settings(
    epsilons: tuple[float, ...], phenotypes: tuple[int, ...], panels: tuple[str, ...], draws: int
) -> Iterator[Setting]:
    """Yield the setting of every release, those on the same statistics one after the other."""
    yield Setting(float("inf"), _FEW, 1, "none")
    for panel in panels:
        for epsilon in epsilons:
            for count in phenotypes:
                firsts = range(1, 1 + _SINGLE) if count == 1 else range(1, 1 + _FEW, count)
                for first, draw in product(firsts, range(1, 1 + draws)):
                    yield Setting(epsilon, count, first, panel, draw)


@click.command()
@click.option("--panel", type=Path, default="demo/1000g_eur343_chr22", show_default=True)
@click.option("--ref-freq", type=Path, required=True, help="plink2 --freq of the panel.")
@click.option("--out", type=Path, required=True, help="Folder of the cohort and the results.")
@click.option("--people", "count", default=20_000, show_default=True)
@click.option("--variants", type=int, help="More than the panel's, of copies of it.")
@click.option("--causal-fraction", default=0.1, show_default=True)
@click.option("--epsilon", "epsilons", multiple=True, default=(5.0, 1.0), show_default=True)
@click.option("--phenotypes", multiple=True, default=(1, 10, 100), show_default=True)
@click.option("--draws", default=1, show_default=True, help="Draws of the noise.")
@click.option("--seed", default=11, show_default=True, help="Of the people; uses three seeds.")
@click.option("--effects-seed", default=5, show_default=True)
@click.option(
    "--columns",
    "panels",
    type=click.Choice(["none", "panel", *_MOSAIC_PANELS]),
    multiple=True,
    default=("none", "panel", "large"),
    show_default=True,
)
def main(
    panel: Path,
    ref_freq: Path,
    out: Path,
    epsilons: tuple[float, ...],
    phenotypes: tuple[int, ...],
    panels: tuple[str, ...],
    draws: int,
    variants: int | None,
    **people: Any,
) -> None:
    """Make every release that is missing in OUT/panel_accuracy.csv, and evaluate it."""
    out.mkdir(parents=True, exist_ok=True)
    files = Files(panel, out / "copies.afreq" if variants else ref_freq, out, variants is not None)
    size = variants or sum(1 for _ in panel.with_name(f"{panel.name}.bim").open())
    write_people(files, People(variants=size, phenotypes=max(*phenotypes, _FEW), **people))
    if variants:
        write_frequencies(ref_freq, files.frequencies, files.cohort.with_suffix(".bim"))
    store = out / "genotypes.zarr"
    if not store.exists():
        ps.ingest(ps.GenotypeFiles(files.cohort), store)
    table = out / "panel_accuracy.csv"
    done = settings_done(table, Row, Setting)
    for setting in settings(epsilons, phenotypes, panels, draws):
        if tuple(map(str, astuple(setting))) in done:
            continue
        row = measured(files, setting)
        append_rows(table, [row])
        click.echo(row)


if __name__ == "__main__":
    main()
