"""Regression problem of a release without noise, stated and solved without the product's code."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from acceptance_inputs import Float64, Published, RealSet, blocks, coded, public_coding
from sklearn.linear_model import Ridge

# Weights are printed with nine digits, and solving loses a few of them.
RELATIVE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Release:
    """Release of a real data set without noise."""

    inputs: RealSet
    published: Published
    with_frequencies: bool
    ridge: float


@dataclass(frozen=True)
class Regression:
    multiplier: Float64  # k of every variant: genotype g is k g - m, and 0 if missing
    centre: Float64  # m of every variant
    genotypes: Float64  # shape (n, d)
    fixed: Float64  # constant and covariates, shape (n, 1 + c)
    phenotypes: Float64  # shape (n, l), 0 where missing, multiplied by `rescale`
    rescale: Float64  # factors n / n_j for n_j observed values, shape (l,)
    phenotype_unit: Float64  # raw units per unit of each phenotype column
    fixed_unit: Float64  # units of each fixed column per raw unit


def coding_of(release: Release) -> tuple[Float64, Float64]:
    """Return k and m of every variant; both are 1 without frequencies."""
    if release.with_frequencies:
        return public_coding(release.inputs.alt_frequencies()[variants_of(release)])
    d = len(release.published.variant_weights)
    return np.ones(d), np.ones(d)


def regression(release: Release, *, on_lattice: bool) -> Regression:
    """Return the regression problem of a release, from the input files and public numbers.

    With `on_lattice`, covariates and phenotypes are truncated as in
    docs/maths/clipping-and-integers.md; otherwise they are clamped, centred and scaled floats.
    """
    inputs, public = release.inputs, release.published.statement["public_inputs"]
    k, m = coding_of(release)
    dosages = inputs.dosages(variants_of(release))
    genotypes = np.where(np.isnan(dosages), 0.0, k * dosages - m)
    n = len(genotypes)

    constant = public["constant"] if on_lattice else 1.0
    columns, units = [np.full(n, constant)], [constant]
    table = inputs.table(inputs.covar)
    for b in public["covariates"]:
        farthest = max(b["upper"] - b["centre"], b["centre"] - b["lower"])
        units.append(b["scale"] if on_lattice else 1 / farthest)
        place = b["lower"], b["upper"], b["centre"], units[-1]
        columns.append(coded(table[b["name"]], *place, truncate=on_lattice))

    step = public["phenotype_unit"] if on_lattice else 1
    phenotypes, rescale, phenotype_units = [], [], []
    table = inputs.table(inputs.pheno)
    for b in public["phenotypes"]:
        place = b["lower"], b["upper"], b["mean"], step, b["sd"]
        phenotypes.append(coded(table[b["name"]], *place, truncate=on_lattice))
        rescale.append(n / table[b["name"]].notna().sum())
        phenotype_units.append(b["sd"] / step)
    return Regression(
        multiplier=k,
        centre=m,
        genotypes=genotypes,
        fixed=np.stack(columns, axis=1),
        phenotypes=np.stack(phenotypes, axis=1) * rescale,
        rescale=np.array(rescale),
        phenotype_unit=np.array(phenotype_units),
        fixed_unit=np.array(units),
    )


def blocks_of(release: Release) -> Iterator[slice]:
    """Return the variants of every LD block."""
    sizes = release.published.statement["cohort"]["block_sizes"]
    return blocks(np.cumsum([0, *sizes]))


def penalty_of(release: Release) -> float:
    """Return the ridge penalty in lattice units."""
    (penalty,) = set(release.published.statement["estimation"]["penalties"])
    return penalty


def solve_by_blocks(release: Release, problem: Regression) -> tuple[Float64, Float64]:
    """Solve ridge regression with scikit-learn in every block, with fixed columns projected out.

    The weights of the fixed columns are those of least squares on the residual of all blocks.
    Returns weights of shapes (d, l) and (1 + c, l).
    """
    basis = np.linalg.qr(problem.fixed)[0]
    targets = problem.phenotypes - basis @ (basis.T @ problem.phenotypes)
    weights = np.empty((problem.genotypes.shape[1], targets.shape[1]))
    for block in blocks_of(release):
        x = problem.genotypes[:, block]
        model = Ridge(alpha=penalty_of(release), fit_intercept=False).fit(
            x - basis @ (basis.T @ x), targets
        )
        weights[block] = model.coef_.reshape(targets.shape[1], -1).T
    residual = problem.phenotypes - problem.genotypes @ weights
    return weights, np.linalg.lstsq(problem.fixed, residual, rcond=None)[0]


def at_raw_units(
    release: Release, problem: Regression, weights: Float64, fixed: Float64
) -> tuple[Float64, Float64, Float64]:
    """Return weights per allele and of covariates, and the intercept, in the files' units."""
    public = release.published.statement["public_inputs"]
    means = np.array([bounds["mean"] for bounds in public["phenotypes"]])
    centres = np.array([bounds["centre"] for bounds in public["covariates"]])
    per_allele = problem.multiplier[:, None] * weights * problem.phenotype_unit
    raw_fixed = problem.fixed_unit[:, None] * fixed * problem.phenotype_unit
    intercept = (
        means
        + raw_fixed[0]
        - centres @ raw_fixed[1:]
        - problem.centre @ weights * problem.phenotype_unit
    )
    return per_allele, raw_fixed[1:], intercept


def truncation_error(
    release: Release, raw: Regression, lattice: Regression, block: slice, weights: Float64
) -> Float64:
    """Return a bound on the change of a block's weights by truncation, in sds, shape (l,).

    Let W solve ``(X'MX + rI) W = X'MY`` with M the projector off the fixed columns C, and W', M',
    C' and Y' the same on the lattice, in the same units. With e = Y - XW and b = C^+ e,

        W' - W = (X'M'X + rI)^-1 X' [M' (Y' - Y) - M' (C' - C) b - C'^+' (C' - C)' Me].

    Entries of Y' - Y are below 1/s_y, and those of C' - C below 1/kappa. Entries of different
    people are independent, so that their squares add; three times the result is allowed.
    """
    public = release.published.statement["public_inputs"]
    step, coarse = 1 / public["phenotype_unit"], 1 / public["constant"]
    x = raw.genotypes[:, block]
    fixed = lattice.fixed * coarse
    inverse = np.linalg.pinv(fixed)
    error = raw.phenotypes - x @ weights
    coefficients = np.linalg.lstsq(raw.fixed, error, rcond=None)[0]
    residual = np.linalg.norm(error - raw.fixed @ coefficients, axis=0)
    slope = np.abs(coefficients[1:]).sum(axis=0)  # the constant is exact
    matrix = x.T @ (x - fixed @ (inverse @ x)) + penalty_of(release) * np.eye(x.shape[1])
    gain = np.linalg.solve(matrix, x.T)
    of_entries = np.linalg.norm(gain) * (step * np.sqrt(raw.rescale) + coarse * slope)
    of_projector = np.linalg.norm(gain @ inverse.T[:, 1:]) * coarse * residual
    return 3 * (of_entries + of_projector)


def assert_equal_columns(
    found: Float64, expected: Float64, *, relative: float = RELATIVE_TOLERANCE
) -> None:
    """Compare columns, with a tolerance for each entry that includes the size of its column."""
    allowed = relative * (np.abs(expected) + np.abs(expected).max(axis=0))
    assert np.all(np.abs(found - expected) <= allowed), np.max(np.abs(found - expected) / allowed)


def variants_of(release: Release) -> npt.NDArray[np.intp]:
    """Return the rows of the .bim file that are in the release."""
    position = pd.Series(np.arange(len(release.inputs.bim)), index=release.inputs.bim["ID"])
    return position.loc[release.published.variant_weights.index].to_numpy()
