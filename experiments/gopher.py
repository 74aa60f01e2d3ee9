"""Association tests of all variants under label privacy: GOPHER's randomization, and the product.

Genotypes are public, and one person's phenotypes are protected, all of them together. The cohort
are mosaics of the demo's panel; every method knows the mean and the standard deviation of a
phenotype. The exact tests, and those of randomized phenotypes, are correlations of one variant
with one phenotype, without covariates; those of the product are its published effects and errors.
A variant is found at 5% over the number of variants; it is false if the exact test does not find
it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2

import primo_scale as ps
from experiments.figure_drawing import Panel, draw
from experiments.gaussian_noise import Float64
from experiments.phenotype_randomization import Genotypes, by_lp, by_multi_lp, epsilon_of_each
from experiments.releases import DEMO, People, budget_of, demo_panel
from experiments.reproduction import PaperFigure, Row, Task
from primo_scale.simulation.cohort import A1_COPIES, lay_out_sites, read_panel

EPSILONS = (1.0, 3.0, 8.0)
METHODS = ("GOPHER LP", "GOPHER MultiLP", "primo_scale, label privacy")
_PEOPLE = 10_000
_LEVEL = 0.05


def run(task: Task) -> list[Row]:
    """Return the agreement of every method with the exact tests, for the cohorts of a task."""
    people, n_variants = int(task.setting["n"]), int(task.setting["variants"])
    rows: list[Row] = []
    for seed in task.seeds:
        with tempfile.TemporaryDirectory() as name:
            cohort = Path(name) / "cohort"
            simulated = People(
                people,
                seed + 1,
                n_variants,
                int(task.setting["l"]),
                causal_fraction=0.02,
                effects_seed=seed,
            )
            simulated.write(DEMO, cohort)
            rows += [{**task.setting, "seed": seed, **row} for row in _agreements(cohort, seed)]
    return rows


def _agreements(cohort: Path, seed: int) -> Iterator[Row]:
    genotypes = standardized(cohort)
    table = pd.read_csv(f"{cohort}.pheno.tsv", sep="\t").iloc[:, 2:]
    y = table.to_numpy(float)
    exact = tests_of(genotypes, y)
    for epsilon in EPSILONS:
        found = {
            **_randomized(genotypes, y, epsilon, seed),
            METHODS[2]: _released(cohort, list(table.columns), epsilon),
        }
        for method, squares in found.items():
            yield {"method": method, "epsilon": epsilon, **agreement(squares, exact)}


def standardized(cohort: Path) -> Genotypes:
    """Return genotypes with mean 0 and variance 1, shape (n, m); 0 for a monomorphic variant."""
    codes = read_panel(str(cohort)).codes
    X = A1_COPIES[codes.T].astype(np.float32)
    X -= X.mean(axis=0)
    X /= np.maximum(X.std(axis=0), 1e-6)
    return X


def tests_of(genotypes: Genotypes | Float64, y: Float64) -> Float64:
    """Return chi^2 of the score test of each variant and phenotype, shape (m, l)."""
    centred = (y - y.mean(axis=0)) / y.std(axis=0)
    correlations = genotypes.T @ centred / len(y)
    return np.asarray(len(y) * correlations**2)


def agreement(squares: Float64, exact: Float64) -> dict[str, float]:
    """Return the means over phenotypes of how tests agree with the exact ones.

    `correlation` is that of chi^2, `found` the share of the exact findings, `false` the number of
    findings that the exact test does not make, `exact` that of its findings, and `level` the mean
    of chi^2 over that of the exact tests.
    """
    limit = chi2.isf(_LEVEL / len(exact), 1)
    true, kept = exact > limit, squares > limit
    pairs = zip(squares.T, exact.T, strict=True)
    return {
        "correlation": float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs])),
        "found": float((true & kept).sum() / max(true.sum(), 1)),
        "false": float((kept & ~true).sum() / exact.shape[1]),
        "exact": float(true.sum() / exact.shape[1]),
        "level": float(squares.mean() / exact.mean()),
    }


def _randomized(genotypes: Genotypes, y: Float64, epsilon: float, seed: int) -> dict[str, Float64]:
    n_people, count = y.shape
    each = epsilon_of_each(epsilon, n_people**-2.0, count)
    rng = np.random.default_rng([seed, round(10 * epsilon)])
    lp = np.column_stack([by_lp(column, 0.0, 1.0, each, rng) for column in y.T])
    multi = [by_multi_lp(column, genotypes, (0.0, 1.0), each, rng) for column in y.T]
    return {
        METHODS[0]: tests_of(genotypes, lp),
        METHODS[1]: tests_of(genotypes, np.column_stack(multi)),
    }


def _released(cohort: Path, names: list[str], epsilon: float) -> Float64:
    """Return chi^2 of the summary statistics of a release, (m, l)."""
    out = cohort.parent / f"release-{epsilon:g}"
    with open(f"{cohort}.bim", encoding="utf-8") as lines:
        identifiers = [line.split()[1] for line in lines]
    _write_frequencies(cohort.parent / "panel.afreq", len(identifiers))
    with open(f"{cohort}.fam", encoding="utf-8") as lines:
        n_people = sum(1 for _ in lines)
    options: dict[str, Any] = budget_of(epsilon, n_people)
    ps.release(
        bfile=cohort,
        pheno=f"{cohort}.pheno.tsv",
        pheno_bounds=f"{cohort}.pheno-bounds.tsv",
        ref_freq=cohort.parent / "panel.afreq",
        ld_blocks="window:200",
        unit="label",
        sumstats=True,
        genome_build="GRCh37",
        ledger=cohort.parent / f"{out.name}.sqlite",
        accept_noise=True,
        out=out,
        **options,
    )
    columns = []
    for name in names:
        table = pd.read_csv(out / "sumstats" / f"{name}.tsv.gz", sep="\t", index_col="rsid")
        squares = (table["beta"] / table["standard_error"]) ** 2
        columns.append(squares.reindex(identifiers).fillna(0).to_numpy())
    return np.column_stack(columns)


def _write_frequencies(path: Path, n_variants: int) -> None:
    variants, panel_row, _ = lay_out_sites(demo_panel(), n_variants)
    columns = {
        "#CHROM": variants.chromosome,
        "ID": variants.identifier,
        "REF": variants.allele2,
        "ALT": variants.allele1,
        "ALT_FREQS": demo_panel().a1_frequency[panel_row],
        "OBS_CT": 2 * demo_panel().codes.shape[1],
    }
    pd.DataFrame(columns).to_csv(path, sep="\t", index=False)


def draw_figure(rows: pd.DataFrame, path: Path) -> None:
    """Draw the correlation of chi^2 against epsilon, for each number of variants and phenotypes."""
    panels = [
        Panel(
            own,
            "epsilon",
            "correlation",
            METHODS,
            f"{variants:,} variants, l = {count}",
            ("linear", "linear"),
            (0.0, 1.02),
        )
        for (variants, count), own in rows.groupby(["variants", "l"])
    ]
    draw([panels[start : start + 2] for start in range(0, len(panels), 2)], path)


def _settings(
    people: int, variants: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[dict[str, float | int | str], ...]:
    return tuple(
        {"n": people, "variants": number, "l": count} for number in variants for count in counts
    )


FIGURES = {
    "gopher": PaperFigure(
        "GOPHER: association tests under label privacy",
        _settings(_PEOPLE, (30, 300, 3000), (1, 10)),
        run,
        draw_figure,
        repetitions=5,
        quick_settings=_settings(1000, (100,), (1,)),
        quick_repetitions=2,
        seeds_per_task=1,
    )
}
