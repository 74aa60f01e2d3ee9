"""Proposition 16 of the thesis: the excess loss of adaSSP against its bound with constant 1.

``L(theta) = ||y - X theta||^2``, a sum over people. The bound is the larger of a term without n and
one with ``tr((X'X)^-1)``; the smaller one is measured too. Both are printed with ``log(6/rho)``
where the noise of adaSSP has ``log(6/delta)``, which is used here. Independent features are those
of the thesis' synthetic data; equal ones have their last feature twice, with a millionth of its
variance between the copies.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from experiments import papers_constants as papers
from experiments import thesis
from experiments.gaussian_noise import Float64
from experiments.gaussian_noise import draw as draw_noise
from experiments.growth import draw_growth
from experiments.reproduction import PaperFigure, Row, Task

_BASE = {"n": 100_000, "d": 5, "epsilon": 0.5}
_FACTORS = (1, 2, 4, 8, 16)
_DELTA = 1e-6
_RESIDUAL_SD = 0.1
_TRIALS = 20
_PRINTED = {
    ("independent", "n"): -1.0,
    ("independent", "d"): 2.0,
    ("independent", "epsilon"): -2.0,
    ("equal", "n"): 0.0,
    ("equal", "d"): 0.5,
    ("equal", "epsilon"): -1.0,
}


def features(design: str, n_people: int, size: int, rng: np.random.Generator) -> Float64:
    """Return rows of norm 1."""
    X = rng.standard_normal((n_people, size))
    if design == "equal":
        X[:, -1] = X[:, -2] + 1e-3 * X[:, -1]
    return np.asarray(X / np.linalg.norm(X, axis=1)[:, None])


def terms(X: Float64, weights: Float64, epsilon: float) -> tuple[float, float]:
    """Return both terms of Proposition 16 with constant 1, for rows of norm at most 1."""
    size = X.shape[1]
    squared_norm = float((weights**2).sum())
    log_delta = math.log(6 / _DELTA)
    log_rho = math.log(size**2 / papers.THESIS_RHO)
    trace = float((1 / np.linalg.eigvalsh(X.T @ X)).sum())
    general = math.sqrt(size * log_rho * log_delta) * squared_norm / epsilon
    return general, squared_norm * trace * log_delta * log_rho / epsilon**2


def run_excess(task: Task) -> list[Row]:
    """Return excess losses of adaSSP and their bounds at growing sizes."""
    design, axis = str(task.setting["design"]), str(task.setting["axis"])
    rows: list[Row] = []
    for seed in task.seeds:
        for factor in _FACTORS:
            sizes = {**_BASE, axis: factor * _BASE[axis]}
            n_people, size = int(sizes["n"]), int(sizes["d"])
            rng = np.random.default_rng([seed, factor])
            X = features(design, n_people, size, rng)
            truth = rng.standard_normal(size)
            y = X @ (truth / np.linalg.norm(truth)) + _RESIDUAL_SD * rng.standard_normal(n_people)
            gram, cross = X.T @ X, (X.T @ y)[:, None]
            problem = thesis.Problem(gram, cross, float(np.abs(y).max()), sizes["epsilon"], _DELTA)
            best = np.asarray(np.linalg.solve(gram, cross), np.float64)
            general, conditioned = terms(X, best, sizes["epsilon"])
            for _ in range(_TRIALS):
                noise, on_eigenvalue = draw_noise(size, 1, rng), float(rng.standard_normal())
                found = thesis.ada_ssp_budget(
                    problem, noise, papers.ADASSP_EIGENVALUE_SHARE, on_eigenvalue=on_eigenvalue
                )
                excess = float(((found - best).T @ gram @ (found - best))[0, 0])
                measured: Row = {
                    "factor": factor,
                    "excess": excess,
                    "larger": max(general, conditioned),
                    "smaller": min(general, conditioned),
                }
                rows.append({**task.setting, "seed": seed, **measured})
    return rows


FIGURES = {
    "thesis-16": PaperFigure(
        "Thesis, Proposition 16: exponents of the excess loss of adaSSP",
        tuple(
            {"design": design, "axis": axis}
            for design in ("independent", "equal")
            for axis in _BASE
        ),
        run_excess,
        partial(draw_growth, value="excess", by="design", printed=_PRINTED),
        repetitions=10,
        quick_repetitions=1,
    )
}
