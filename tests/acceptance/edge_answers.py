"""The right answers for a degenerate cohort, from its cells: numpy, scikit-learn, Python integers.

Nothing here imports the product. Public numbers of the lattice come from its ``design.json`` or
``release.json``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from acceptance_inputs import Float64
from edge_cohorts import Column, EdgeCohort
from sklearn.linear_model import Ridge

Int64 = npt.NDArray[np.int64]

# A phenotype is made up for by at most this factor: docs/maths/counts-and-moments.md.
MOST_RESCALED = 10


@dataclass(frozen=True)
class Answer:
    """What a regression of every phenotype gives, and how far the lattice may lead away from it.

    Attributes
    ----------
    per_allele, fitted
        Weights, shape (d, l), and predictions for the cohort itself, shape (n, l), in raw units.
    weight_error, fit_error
        Largest errors that truncating each phenotype to whole lattice steps can make in them.
    """

    per_allele: Float64
    fitted: Float64
    weight_error: Float64
    fit_error: Float64


def right_answer(cohort: EdgeCohort, *, ridge: float, unit: int) -> Answer:
    """Ridge of scikit-learn, or least squares of numpy of least norm, on the cells themselves.

    Missing genotypes and covariates stand at their public centre; a missing phenotype too, and a
    column with n_j values counts ``n / max(n_j, n/10)``. The constant and the covariates are not
    penalised: they are projected out. Linear in the phenotypes with a matrix that is exact, so an
    error of at most one step, ``sd / unit``, in each changes weights by at most its row sums.

    Parameters
    ----------
    cohort
        Its covariates are on the lattice, or it has none.
    ridge
        Penalty; genotypes count copies.
    unit
        Lattice steps to one standard deviation of a phenotype.
    """
    x, fixed = cohort.codes(), fixed_columns(cohort)
    y, steps = zip(*(_filled(column, unit) for column in cohort.phenotypes.values()), strict=True)
    y, steps = np.stack(y, axis=1), np.array(steps)
    onto_fixed = fixed @ np.linalg.pinv(fixed)
    residual = x - onto_fixed @ x
    residual[np.abs(residual) < 1e-12] = 0  # codes are at most 1: this is rounding
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
    """The constant, and covariates about their centres; shape (n, 1 + c)."""
    covariates = [column.values() - column.mean for column in cohort.covariates.values()]
    return np.stack([np.ones(cohort.n), *covariates], axis=1)


def _filled(column: Column, unit: int) -> tuple[Float64, float]:
    """A phenotype about its mean with its missing values made up for, and one step of it."""
    n, observed = len(column.cells), column.observed().sum()
    rescale = n / max(observed, n / MOST_RESCALED)
    return (column.values() - column.mean) * rescale, column.sd / unit * rescale


def _solve(x: Float64, y: Float64, ridge: float) -> Float64:
    if ridge:
        fitted = Ridge(alpha=ridge, fit_intercept=False, solver="cholesky").fit(x, y)
        return fitted.coef_.reshape(y.shape[1], -1).T
    return np.linalg.lstsq(x, y, rcond=1e-10)[0]


def exact_statistics(cohort: EdgeCohort, design: dict[str, Any]) -> dict[str, Int64]:
    """X'X by blocks, X'Z, Z'Z and counts of the clipped lattice rows, in whole numbers.

    Codes of -1, 0 and 1 are never longer than their bound, so that phenotypes alone are clipped.
    """
    coding = design["outcomes"]
    columns = [np.full(cohort.n, coding["constant"])]
    for column, c in zip(cohort.covariates.values(), coding["covariates"], strict=True):
        columns.append(np.trunc((column.values() - c["centre"]) * c["scale"]))
    for column, p in zip(cohort.phenotypes.values(), coding["phenotypes"], strict=True):
        lattice = np.trunc((column.values() - p["mean"]) / p["sd"] * coding["unit"])
        columns.append(np.where(column.observed(), lattice, 0))
    z = np.stack(columns, axis=1).astype(np.int64)
    first = 1 + len(cohort.covariates)
    z[:, first:] = [_clipped(row, design["phenotype_norm"]) for row in z[:, first:].tolist()]
    x = cohort.codes().astype(np.int64)
    assert (x * x).sum(axis=1).max() <= design["row_norm"]
    statistics = {"outcome_gram": z.T @ z}
    for number, block in enumerate(blocks(design["boundaries"])):
        statistics[f"gram/{number}"] = x[:, block].T @ x[:, block]
        statistics[f"cross/{number}"] = x[:, block].T @ z
    present = [column.observed().sum() for column in cohort.phenotypes.values()]
    return {**statistics, "observed": np.array(present)}


def moment_sums(phenotypes: Iterable[Column]) -> Int64:
    """Sums of U, of ``floor(U^2 / 2^20)`` and of 2^20: docs/maths/counts-and-moments.md."""
    unit = 2**20
    sums = []
    for column in phenotypes:
        middle, half = (column.lower + column.upper) / 2, (column.upper - column.lower) / 2
        u = np.trunc(unit * (column.values() - middle) / half)[column.observed()].astype(np.int64)
        sums.append([u.sum(), (u * u // unit).sum(), unit * len(u)])
    return np.array(sums).T


def stored(group: zarr.Group, names: list[str]) -> dict[str, Int64]:
    """The same from a store of the work directory."""
    return {name: group[name][:] for name in names}


def noise_scales(
    statement: dict[str, Any], boundaries: list[int], n_fixed: int
) -> dict[str, Float64]:
    """Standard deviation of the noise on every statistic, as release.json states it."""
    sigma = {query["name"]: query["sigma"] for query in statement["mechanism"]["queries"]}

    def of(name: str, block: int = 0) -> float:
        values = sigma.get(name, [0.0])
        return values[block if len(values) > 1 else 0]

    n_phenotypes = statement["cohort"]["n_phenotypes"]
    cross = [of("fixed_cross")] * n_fixed + [of("phenotype_cross")] * n_phenotypes
    outcome = np.full((len(cross), len(cross)), of("fixed_phenotype"))
    outcome[:n_fixed, :n_fixed] = of("fixed_gram")
    outcome[n_fixed:, n_fixed:] = of("phenotype_gram")
    scales = {"outcome_gram": outcome, "observed": np.array(of("observed"))}
    for number, _ in enumerate(blocks(boundaries)):
        scales[f"gram/{number}"] = np.array(of("gram", number))
        scales[f"cross/{number}"] = np.array(cross)
    return scales


def blocks(boundaries: list[int]) -> Iterator[slice]:
    """Variants of every LD block."""
    return map(slice, boundaries[:-1], boundaries[1:])


def _clipped(row: list[int], limit: int) -> list[int]:
    """``sign(q) floor(|q| r / 2^31)``, ``r = isqrt(floor(2^62 N / |q|^2))``, if the row is long."""
    length = sum(entry * entry for entry in row)
    if length <= limit:
        return row
    ratio = math.isqrt(2**62 * limit // length)
    return [(1 if entry >= 0 else -1) * (abs(entry) * ratio // 2**31) for entry in row]
