"""Trials of the thesis' experiments: its data, its random splits, and all methods on each split.

Its section 5.2: d = 10, rows of X Gaussian and scaled to norm 1, ``||theta_0|| = 1``,
``y = X theta_0 + N(0, 0.1^2)``. Its section 5.4: ``delta = n^-1.1``, and 32 random splits of the
rows into 90% and 10%, every algorithm with fresh noise on each. The relative efficiency is the
mean squared error of the weights over that of least squares; the prediction error is the mean
squared error on the 10% over the variance of y.

Where the text is silent, the author's program (TPiazza21/Thesis, commit 0fb030b) gives the detail:
By is the largest |y|; gamma is 0.01 to 0.05 and then multiples of 0.05, and here also 1/3;
features of real tables are standardised and their rows scaled to norm 1; the outcome of bike is
log(cnt), and every other column but the row number is a feature. The text is followed where the
program differs: ``||theta_0|| = 1`` (there: 0.71), and delta of real tables (there: 1e-6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments import papers_constants as papers
from experiments import thesis
from experiments.gaussian_noise import Float64, draw
from experiments.papers_tables import read_table
from experiments.reproduction import Row

GAMMAS = (
    *(k / 100 for k in (1, 2, 3, 4, 5, 10, 15, 20, 25, 30)),
    papers.ADASSP_EIGENVALUE_SHARE,
    *(k / 100 for k in range(35, 100, 5)),
)
# Every method with its gamma, if it has one.
METHODS = (
    *((name, math.nan) for name in ("least squares", "SSP", "constSSPfull", "joint analytic")),
    *(("adaSSPbudget", gamma) for gamma in GAMMAS),
)
N_VARIABLES = 10
N_TRIALS = 32
_TRAINING_SHARE = 0.9
_RESIDUAL_SD = 0.1
# Eigenvalues of X'X below this share of the largest are 0: bike has its date twice.
_SINGULAR = 1e-10


@dataclass(frozen=True, eq=False)
class DataSet:
    """Data of an experiment.

    Attributes
    ----------
    rows : ndarray of float64, shape (n, d + 1)
        Features, of norm 1 by row, and the outcome in the last column.
    true_weights : ndarray of float64, shape (d,)
        Weights that the outcome was made from; NaN for a real table.
    least_eigenvalue : float
        Public guess of the smallest eigenvalue of X'X: n/d for synthetic data, whose features are
        independent; 0 for a real table, whose features may be collinear.
    """

    rows: Float64
    true_weights: Float64
    least_eigenvalue: float


def synthetic_data(n_people: int, rng: np.random.Generator) -> DataSet:
    """Return a data set of section 5.2."""
    theta = rng.standard_normal(N_VARIABLES)
    theta /= np.linalg.norm(theta)
    X = rng.standard_normal((n_people, N_VARIABLES))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = X @ theta + _RESIDUAL_SD * rng.standard_normal(n_people)
    return DataSet(np.column_stack([X, y]), theta, n_people / N_VARIABLES)


def real_table(name: str, folder: Path | None) -> DataSet:
    """Return a real table with standardised columns and rows of features scaled to norm 1."""
    table = read_table(name, folder)
    if name == "bike":
        table["cnt"] = np.log(table["cnt"])
    values = ((table - table.mean()) / table.std()).to_numpy()
    X, y = values[:, :-1], values[:, -1]
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    return DataSet(np.column_stack([unit, y]), np.full(X.shape[1], np.nan), 0.0)


def run_trials(data: DataSet, epsilon: float, rng: np.random.Generator) -> list[Row]:
    """Return the means over the trials of one data set, for each of `METHODS`.

    Columns: squared `error` of the weights and its relative `efficiency` (synthetic data);
    `prediction` error; `zeros`, the share of trials with lambda = 0; `expected_zeros`, the mean of
    its exact probability.
    """
    outcome, n_people = data.rows[:, -1], len(data.rows)
    whole, bound = data.rows.T @ data.rows, float(np.abs(outcome).max())
    n_test = n_people - int(_TRAINING_SHARE * n_people)
    errors, predictions, zeros, expected = (np.empty((N_TRIALS, len(METHODS))) for _ in range(4))
    for trial in range(N_TRIALS):
        test = data.rows[rng.choice(n_people, n_test, replace=False, shuffle=False)]
        held_out = test.T @ test
        gram = whole - held_out
        problem = thesis.Problem(gram[:-1, :-1], gram[:-1, -1:], bound, epsilon, n_people**-1.1)
        weights, zeros[trial], expected[trial] = _fit_all(problem, data.least_eigenvalue, rng)
        residual = np.vstack([-weights, np.ones(len(METHODS))])
        predictions[trial] = (residual * (held_out @ residual)).sum(axis=0) / n_test
        errors[trial] = ((weights - data.true_weights[:, None]) ** 2).sum(axis=0)
    columns = {
        "error": errors.mean(axis=0),
        "efficiency": errors.mean(axis=0) / errors[:, 0].mean(),
        "prediction": predictions.mean(axis=0) / outcome.var(),
        "zeros": zeros.mean(axis=0),
        "expected_zeros": expected.mean(axis=0),
    }
    return [
        {"method": name, "gamma": gamma, **{key: float(v[m]) for key, v in columns.items()}}
        for m, (name, gamma) in enumerate(METHODS)
    ]


def _fit_all(
    problem: thesis.Problem, least_eigenvalue: float, rng: np.random.Generator
) -> tuple[Float64, Float64, Float64]:
    """Return weights, shape (d, methods), whether lambda is 0, and the probability of that.

    All methods share their standard normal noise.
    """
    noise, on_eigenvalue = draw(len(problem.cross), 1, rng), float(rng.standard_normal())
    rules = [thesis.EigenvalueRidge(problem, gamma) for gamma in GAMMAS]
    weights = [
        np.linalg.lstsq(problem.gram, problem.cross, rcond=_SINGULAR)[0],
        thesis.ssp(problem, noise),
        thesis.const_ssp_full(problem, noise),
        thesis.joint(problem, noise, least_eigenvalue=least_eigenvalue),
        *(
            thesis.ada_ssp_budget(problem, noise, gamma, on_eigenvalue=on_eigenvalue)
            for gamma in GAMMAS
        ),
    ]
    without = [math.nan] * (len(METHODS) - len(GAMMAS))
    zeros = [float(rule.at(on_eigenvalue) == 0) for rule in rules]
    expected = [rule.probability_of_zero for rule in rules]
    return np.hstack(weights), np.array(without + zeros), np.array(without + expected)
