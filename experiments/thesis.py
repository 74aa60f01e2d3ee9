"""Relative efficiency of the thesis' algorithms on its synthetic data (docs/maths/figures.md).

Its section 5.2: d = 10, rows of X Gaussian and scaled to norm 1, ``||theta_0|| = 1``,
``y = X theta_0 + N(0, 0.1^2)``, ``delta = n^-1.1``. Its section 5.4: one data set for each n, 32
random halves of 90% and 10%, every algorithm with fresh noise on each; the relative efficiency is
the mean squared error of the weights over that of least squares. Both means are over the 32 trials
of one data set, whose least-squares error is a single draw (chi-square on 10 degrees of freedom),
so that relative efficiencies of two data sets differ by a factor of about 2. Here there are many
data sets, and the table gives the median over them and the range of the middle 90%.

Inferred: By is the largest |y| of the data; the joint release is the product's calibration for
add-remove at its optimal split without an eigenvalue, solved with no ridge, or where
docs/maths/figures.md says so with one at the norm of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from experiments import papers_constants as papers
from experiments.figures import markdown_table
from experiments.gaussian_noise import Draws, Float64, draw
from primo_scale.gaussian.calibration import mu_for, optimal_split
from primo_scale.gaussian.sensitivity import Adjacency
from primo_scale.methods.shrinkage import noise_norm
from primo_scale.privacy.planning import PRIOR_HERITABILITY

N_VARIABLES = 10
N_TRIALS = 32
_TRAINING_SHARE = 0.9
_RESIDUAL_SD = 0.1
_SEED = 20261121
# (n, eps) and what docs/maths/figures.md states for the rows of the table.
_STATED: dict[tuple[int, float], tuple[str, ...]] = {
    (1280, 0.1): ("19190", "", "1095", "1213", "545"),
    (1280, 1.0): ("173", "", "215", "250", "22.6"),
    (20480, 0.1): ("2223", "", "4035", "4242", "264"),
    (20480, 1.0): ("23", "", "101", "52", "5.3"),
}
_RIDGE_AT_NOISE_NORM = (1280, 0.1)
ALGORITHMS = ("SSP", "SSP, median of trials", "constSSPfull", "adaSSP", "joint analytic")


@dataclass(frozen=True, eq=False)
class Problem:
    """Statistics X'X, shape (d, d), and X'y, (d, 1), of rows of norm at most 1, and the budget."""

    gram: Float64
    cross: Float64
    outcome_bound: float
    epsilon: float
    delta: float


def ssp(problem: Problem, noise: Draws) -> Float64:
    """Return the weights of Algorithm 1 of the thesis."""
    scale = papers.thesis_gaussian(problem.epsilon / 2, problem.delta / 2)
    return _solve(problem, noise, scale, 1.0)


def const_ssp_full(problem: Problem, noise: Draws) -> Float64:
    """Return the weights of Algorithm 4 of the thesis."""
    epsilon, delta = problem.epsilon / 2, problem.delta / 2
    ridge = papers.thesis_ridge(epsilon, delta, len(problem.cross))
    return _solve(problem, noise, papers.thesis_gaussian(epsilon, delta), ridge + 1)


def ada_ssp_budget(
    problem: Problem, noise: Draws, share: float, *, on_eigenvalue: float
) -> Float64:
    """Return the weights of Algorithm 3 of the thesis; adaSSP at ``share = 1/3``.

    `on_eigenvalue` is a standard normal number, the noise on the smallest eigenvalue.
    """
    hyper = papers.thesis_gaussian(share * problem.epsilon, share * problem.delta)
    epsilon, delta = (1 - share) / 2 * problem.epsilon, (1 - share) / 2 * problem.delta
    smallest = float(np.linalg.eigvalsh(problem.gram)[0]) + 1
    margin = hyper * math.sqrt(2 * math.log(2 / (share * problem.delta)))
    bound = max(smallest + hyper * on_eigenvalue - margin, 0.0)
    ridge = max(0.0, papers.thesis_ridge(epsilon, delta, len(problem.cross)) - bound)
    return _solve(problem, noise, papers.thesis_gaussian(epsilon, delta), ridge + 1)


def joint(problem: Problem, noise: Draws, *, at_noise_norm: bool) -> Float64:
    """Return the weights under one joint calibration for add-remove, with noise in svec layout."""
    size = len(problem.cross)
    mu = mu_for(problem.epsilon, problem.delta)
    effects = PRIOR_HERITABILITY * size / 2  # rows of norm 1: every variable has variance 1/d
    split = optimal_split(effects, problem.outcome_bound**2, Adjacency.ADD_REMOVE)
    gram = math.sqrt(1 + split) / mu
    cross = problem.outcome_bound * gram / math.sqrt(split)
    ridge = noise_norm(gram, size) if at_noise_norm else 0.0
    noisy = problem.gram + gram * noise.svec + ridge * np.eye(size)
    return np.asarray(np.linalg.solve(noisy, problem.cross + cross * noise.cross), np.float64)


def _solve(problem: Problem, noise: Draws, scale: float, ridge: float) -> Float64:
    noisy = problem.gram + scale * noise.upper + ridge * np.eye(len(problem.cross))
    target = problem.cross + scale * problem.outcome_bound * noise.cross
    return np.asarray(np.linalg.solve(noisy, target), np.float64)


def relative_efficiencies(
    n_people: int, epsilon: float, *, n_data_sets: int, rng: np.random.Generator
) -> Float64:
    """Return the relative efficiency of `ALGORITHMS` on each data set, shape (data sets, 5).

    The noisy X'X of SSP can be nearly singular, so its mean squared error has no limit at small n
    and epsilon; the median over trials does.
    """
    at_norm = (n_people, epsilon) == _RIDGE_AT_NOISE_NORM
    results = np.empty((n_data_sets, len(ALGORITHMS)))
    for data_set in range(n_data_sets):
        theta, X, y = _data_set(n_people, rng)
        errors = np.zeros((N_TRIALS, len(ALGORITHMS)))
        for trial in range(N_TRIALS):
            rows = rng.permutation(n_people)[: int(_TRAINING_SHARE * n_people)]
            problem = Problem(
                X[rows].T @ X[rows],
                X[rows].T @ y[rows, None],
                float(np.abs(y).max()),
                epsilon,
                n_people**-1.1,
            )
            noise, on_eigenvalue = draw(N_VARIABLES, 1, rng), float(rng.standard_normal())
            share = papers.ADASSP_EIGENVALUE_SHARE
            estimates = (
                np.linalg.solve(problem.gram, problem.cross),
                ssp(problem, noise),
                const_ssp_full(problem, noise),
                ada_ssp_budget(problem, noise, share, on_eigenvalue=on_eigenvalue),
                joint(problem, noise, at_noise_norm=at_norm),
            )
            errors[trial] = [((w[:, 0] - theta) ** 2).sum() for w in estimates]
        means = errors.mean(axis=0)
        middle = float(np.median(errors[:, 1]))
        results[data_set] = np.array([means[1], middle, *means[2:]]) / means[0]
    return results


def _data_set(n_people: int, rng: np.random.Generator) -> tuple[Float64, Float64, Float64]:
    theta = rng.standard_normal(N_VARIABLES)
    theta /= np.linalg.norm(theta)
    X = rng.standard_normal((n_people, N_VARIABLES))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return theta, X, X @ theta + _RESIDUAL_SD * rng.standard_normal(n_people)


def report(n_data_sets: int) -> str:
    """Return the rows of the thesis as Markdown."""
    rows: list[list[str]] = [[name] for name in ALGORITHMS]
    for (n_people, epsilon), stated in _STATED.items():
        rng = np.random.default_rng([_SEED, n_people, round(10 * epsilon)])
        values = relative_efficiencies(n_people, epsilon, n_data_sets=n_data_sets, rng=rng)
        for row, column, printed in zip(rows, values.T, stated, strict=True):
            low, middle, high = np.quantile(column, (0.05, 0.5, 0.95))
            row.append(f"{middle:.4g} ({low:.3g} to {high:.3g}); {printed or '-'}")
    header = ("algorithm", *(f"n = {n}, eps = {epsilon:g}" for n, epsilon in _STATED))
    return "\n\n".join(
        (
            "### The thesis: relative efficiency",
            f"Median over {n_data_sets} data sets of {N_TRIALS} trials (middle 90% of data sets); "
            "docs/maths, one data set, after the semicolon.",
            markdown_table(header, rows),
        )
    )
