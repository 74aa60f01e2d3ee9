"""Expected results for degenerate cohorts, from numpy, scikit-learn and Python integers.

This module does not import the product. Public numbers of the coding come from the product's
``design.json`` or ``release.json``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from acceptance_inputs import Float64, Int64, blocks, norms, ratios, scaled
from edge_cohorts import Column, EdgeCohort
from sklearn.linear_model import Ridge

# Largest factor that compensates missing values of a phenotype: docs/maths/counts-and-moments.md.
MOST_RESCALED = 10


@dataclass(frozen=True)
class Answer:
    """Regression of every phenotype, and the largest errors that truncation can cause."""

    per_allele: Float64  # weights in raw units, shape (d, l)
    fitted: Float64  # predictions for the cohort in raw units, shape (n, l)
    # Largest errors of weights and predictions from truncating phenotypes to lattice steps.
    weight_error: Float64
    fit_error: Float64


def right_answer(cohort: EdgeCohort, *, ridge: float, unit: int) -> Answer:
    """Return ridge regression (scikit-learn) or minimum-norm least squares (numpy) on the cells.

    Missing values count as the public centre, and a phenotype with n_j values is multiplied by
    ``n / max(n_j, n/10)``. The constant and the covariates are projected out and not penalised. The
    weights are linear in the phenotypes, so that errors of at most one step, ``sd / unit``, change
    them by at most the absolute row sums of the matrix. The cohort's covariates are on the lattice,
    `ridge` penalises genotypes in copies, and `unit` are the lattice steps per standard deviation
    of a phenotype.
    """
    x, fixed = cohort.codes(), fixed_columns(cohort)
    y, steps = zip(*(_filled(column, unit) for column in cohort.phenotypes.values()), strict=True)
    y, steps = np.stack(y, axis=1), np.array(steps)
    onto_fixed = fixed @ np.linalg.pinv(fixed)
    residual = x - onto_fixed @ x
    residual[np.abs(residual) < 1e-12] = 0  # rounding errors, because codes are at most 1
    weights = _solve(residual, y - onto_fixed @ y, ridge)
    inverse = _solve(residual, np.eye(cohort.n) - onto_fixed, ridge)
    hat = onto_fixed + residual @ inverse
    means = np.array([column.mean for column in cohort.phenotypes.values()])
    return Answer(
        per_allele=weights,
        fitted=means + x @ weights + onto_fixed @ (y - x @ weights),
        weight_error=np.abs(inverse).sum(axis=1)[:, None] * steps,
        fit_error=np.abs(hat).sum(axis=1)[:, None] * steps,
    )


def fixed_columns(cohort: EdgeCohort) -> Float64:
    """Return the constant and the centred covariates, shape (n, 1 + c)."""
    covariates = [column.values() - column.mean for column in cohort.covariates.values()]
    return np.stack([np.ones(cohort.n), *covariates], axis=1)


def _filled(column: Column, unit: int) -> tuple[Float64, float]:
    """Return a centred phenotype with compensated missing values, and one lattice step of it."""
    n, observed = len(column.cells), column.observed().sum()
    rescale = n / max(observed, n / MOST_RESCALED)
    return (column.values() - column.mean) * rescale, column.sd / unit * rescale


def _solve(x: Float64, y: Float64, ridge: float) -> Float64:
    if ridge:
        fitted = Ridge(alpha=ridge, fit_intercept=False, solver="cholesky").fit(x, y)
        return fitted.coef_.reshape(y.shape[1], -1).T
    return np.linalg.lstsq(x, y, rcond=1e-10)[0]


def exact_statistics(cohort: EdgeCohort, design: dict[str, Any]) -> dict[str, Int64]:
    """Return X'X by blocks, X'Z, Z'Z and counts of the clipped rows, as integers.

    Codes of -1, 0 and 1 never exceed their bound, so that only phenotypes are clipped.
    """
    coding = design["outcomes"]
    columns = [np.full(cohort.n, coding["constant"])]
    for column, c in zip(cohort.covariates.values(), coding["covariates"], strict=True):
        columns.append(np.trunc((column.values() - c["centre"]) * c["scale"]))
    fixed = np.stack(columns, axis=1).astype(np.int64)
    for j, (column, p) in enumerate(
        zip(cohort.phenotypes.values(), coding["phenotypes"], strict=True)
    ):
        sd = column.sd if coding["effects"] else p["sd"]
        lattice = np.trunc((column.values() - p["mean"]) / sd * coding["unit"])
        if coding["effects"]:  # what is left of an observed value is never 0
            values = p["mean"] + np.where(lattice == 0, 1, lattice) * (sd / coding["unit"])
            predicted = fixed @ np.array(coding["effects"][j]) / 2**15
            lattice = (values - p["mean"]) / p["sd"] * coding["unit"] - predicted
            lattice = np.trunc(np.clip(lattice, -32767, 32767))
            lattice[lattice == 0] = 1
        columns.append(np.where(column.observed(), lattice, 0))
    z = np.stack(columns, axis=1).astype(np.int64)
    first = 1 + len(cohort.covariates)
    if left_out(design):
        z, first = z[:, first:], 0
    y = z[:, first:]
    z[:, first:] = scaled(y, ratios(norms(y), design["phenotype_norm"]))
    x = cohort.codes().astype(np.int64)
    assert norms(x).max() <= design["row_norm"]
    statistics = {"outcome_gram": z.T @ z}
    for number, block in enumerate(blocks(design["boundaries"])):
        statistics[f"gram/{number}"] = x[:, block].T @ x[:, block]
        statistics[f"cross/{number}"] = x[:, block].T @ z
    present = [column.observed().sum() for column in cohort.phenotypes.values()]
    return {**statistics, "observed": np.array([cohort.n, *present])}


def left_out(design: dict[str, Any]) -> bool:
    """Return whether the constant and the covariates are in no sum (docs/maths/adjustment.md)."""
    return bool(design["clipped"]) and design["privacy"] != "label"


def noise_scales(
    statement: dict[str, Any], boundaries: list[int], n_fixed: int
) -> dict[str, Float64]:
    """Return the standard deviation of the noise on every statistic from release.json."""
    sigma = {query["name"]: query["sigma"] for query in statement["mechanism"]["queries"]}

    def of(name: str, block: int = 0) -> float:
        values = sigma.get(name, [0.0])
        return values[block if len(values) > 1 else 0]

    n_phenotypes = statement["cohort"]["n_phenotypes"]
    cross = [0.0] * n_fixed + [of("phenotype_cross")] * n_phenotypes
    outcome = np.full((len(cross), len(cross)), np.inf)  # C'Y is not measured
    outcome[:n_fixed, :n_fixed] = 0
    outcome[n_fixed:, n_fixed:] = of("phenotype_gram")
    counts = [of("observed")] * (1 + n_phenotypes)
    if statement["cohort"]["n_samples"] is not None:
        counts[0] = 0
    scales = {"outcome_gram": outcome, "observed": np.array(counts)}
    for number, _ in enumerate(blocks(boundaries)):
        scales[f"gram/{number}"] = np.array(of("gram", number))
        scales[f"cross/{number}"] = np.array(cross)
    return scales
