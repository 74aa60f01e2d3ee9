"""The accuracy table of docs/reference_figures.md: pooled in-sample R^2 of every row.

Every repetition draws new variants, haplotypes, effects, residuals and noise. R^2 varies between
repetitions mostly because the heritability of 25 random variants varies. The loss of a method
against least squares *in the same repetition* varies far less, so the table of losses is the more
precise comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from experiments.accuracy_rows import N_PHENOTYPES, ROWS, Trial, rows_for
from experiments.figures import markdown_table, standard_error
from experiments.gaussian_noise import Float64, draw
from experiments.haplotypes import Sizes, simulate

STATED_REPETITIONS = 10
"""Repetitions behind the figures of the specification, which states no standard errors."""

_SEED = 20261121


@dataclass(frozen=True, eq=False)
class Measured:
    """R^2 of every repetition by key of `ROWS`, each of shape (repetitions,).

    `bound_ratio` is the ratio of ``sqrt(l) max |y|`` to the bound of the row clip,
    ``sd sqrt(chi2_l^-1(.99))``.
    """

    n_phenotypes: int
    r_squared: dict[str, Float64]
    bound_ratio: Float64

    def loss(self, key: str) -> Float64:
        """Return R^2 of least squares minus R^2 of a row, shape (repetitions,)."""
        return self.r_squared["ols"] - self.r_squared[key]


def measure(
    n_phenotypes: int,
    repetitions: int,
    *,
    keys: tuple[str, ...] | None = None,
    noise_factor: float = 1.0,
) -> Measured:
    """Run rows on `repetitions` cohorts; the r-th is the same whatever their number.

    `keys` are rows besides least squares, by key of `ROWS`; None stands for all rows.
    """
    wanted = rows_for(n_phenotypes) if keys is None else ("ols", *keys)
    r_squared = {key: np.empty(repetitions) for key in wanted}
    ratios = np.empty(repetitions)
    for repetition in range(repetitions):
        rng = np.random.default_rng([_SEED, n_phenotypes, repetition])
        cohort = simulate(Sizes(n_phenotypes=n_phenotypes), rng)
        trial = Trial(cohort, draw(len(cohort.gram), n_phenotypes, rng), rng, noise_factor)
        for key in wanted:
            r_squared[key][repetition] = cohort.pooled_r_squared(ROWS[key].weights(trial))
        largest = math.sqrt(n_phenotypes) * cohort.largest_value
        clip = cohort.phenotype_sd * math.sqrt(chi2.ppf(0.99, n_phenotypes))
        ratios[repetition] = largest / clip
    return Measured(n_phenotypes, r_squared, ratios)


def stated_r_squared(key: str, n_phenotypes: int) -> float:
    """Return R^2 as the specification states it, or nan if it states none."""
    printed = ROWS[key].stated[N_PHENOTYPES.index(n_phenotypes)]
    return math.nan if printed == "-" else float(printed)


def stated_loss(key: str, n_phenotypes: int) -> float:
    """Return the loss against least squares of the specification, or nan if it has none."""
    return stated_r_squared("ols", n_phenotypes) - stated_r_squared(key, n_phenotypes)


def deviation(values: Float64, stated: float) -> float:
    """Return the mean minus `stated`, in standard errors of the difference of two experiments."""
    sd = float(values.std(ddof=1))
    spread = sd * math.sqrt(1 / len(values) + 1 / STATED_REPETITIONS)
    return (float(values.mean()) - stated) / spread


def report(repetitions: int) -> str:
    """Return the accuracy table as Markdown: R^2, then losses against least squares."""
    measured = [measure(n_phenotypes, repetitions) for n_phenotypes in N_PHENOTYPES]
    header = ("method", *(f"l = {n_phenotypes}" for n_phenotypes in N_PHENOTYPES))
    ratios = ", ".join(
        f"{m.bound_ratio.mean():.1f} (l = {m.n_phenotypes})" for m in measured if m.n_phenotypes > 1
    )
    return "\n\n".join(
        (
            "## Section 8: accuracy",
            f"Pooled in-sample R^2, mean +- standard error of {repetitions} repetitions; "
            "the specification after the semicolon, and in brackets how many standard errors of "
            "the difference lie between.",
            markdown_table(header, _table(measured, losses=False)),
            "The same as loss against OLS of the same repetition.",
            markdown_table(header, _table(measured, losses=True)),
            f"sqrt(l) max abs y over the bound of the row clip, sd sqrt(chi2_l^-1(.99)): {ratios}; "
            "the specification 3.2, 4.4, 5.4.",
        )
    )


def _table(measured: list[Measured], *, losses: bool) -> list[list[str]]:
    rows = []
    for key, row in ROWS.items():
        if losses and key == "ols":
            continue
        name = f"**{row.name}**" if row.ours else row.name
        rows.append([name, *(_cell(one, key, losses=losses) for one in measured)])
    return rows


def _cell(measured: Measured, key: str, *, losses: bool) -> str:
    if key not in measured.r_squared:
        return "-"
    values = measured.loss(key) if losses else measured.r_squared[key]
    stated = (stated_loss if losses else stated_r_squared)(key, measured.n_phenotypes)
    decimals = 4 if losses else 3
    mean, error = float(values.mean()), standard_error(values)
    shown = f"{_digits(mean, decimals)} +- {_digits(error, decimals)}"
    if math.isnan(stated):
        return shown
    return f"{shown}; {stated:.3f} ({deviation(values, stated):+.1f})"


def _digits(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}" if abs(value) < 1 else f"{value:.2f}"
