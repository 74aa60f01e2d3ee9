"""Theorem 5 of PRIMO: how the processor time of the steps of Algorithm 3 grows with n, d and l."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.gaussian_noise import Float64
from experiments.growth import draw_growth
from experiments.reproduction import PaperFigure, Row, Task

_BASE = {"n": 4000, "d": 200, "l": 200}
_FACTORS = (1, 2, 4)
_RUNS = 3  # of a step, of which the shortest counts

EXPONENTS = {
    ("X'X", "n"): 1.0,
    ("X'X", "d"): 2.0,
    ("QR", "d"): 3.0,
    ("solutions", "d"): 2.0,
    ("solutions", "l"): 1.0,
    ("SVD of Y", "n"): 1.0,
    ("SVD of Y", "l"): 2.0,
    ("U'b", "n"): 1.0,
    ("U'b", "d"): 1.0,
    ("U'b", "l"): 1.0,
}
"""Exponents of the steps in the paper's section 6.1, for l below n; others are 0."""


def steps_of(X: Float64, Y: Float64) -> dict[str, Callable[[], object]]:
    """Return the steps of Algorithm 3 that the paper counts, each on inputs that are ready."""
    gram = X.T @ X / len(X) + np.eye(X.shape[1])
    cross = X.T @ Y / len(X)
    left, triangle = np.linalg.qr(gram)
    vectors, values, rotation = np.linalg.svd(Y, full_matrices=False)
    scaled = vectors * values
    return {
        "X'X": lambda: X.T @ X,
        "QR": lambda: np.linalg.qr(gram),
        "solutions": lambda: solutions(left, triangle, cross),
        "SVD of Y": lambda: np.linalg.svd(Y, full_matrices=False),
        "U'b": lambda: scaled @ (rotation @ cross.T),
    }


def solutions(left: Float64, triangle: Float64, cross: Float64) -> Float64:
    """Solve ``Q R W = cross`` by back substitution, for all outcomes at once."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(triangle, left.T @ cross), np.float64)


def run_times(task: Task) -> list[Row]:
    """Return the processor time of each step at growing sizes, with one thread."""
    axis = str(task.setting["axis"])
    rows: list[Row] = []
    for seed in task.seeds:
        for factor in _FACTORS:
            sizes = {**_BASE, axis: factor * _BASE[axis]}
            rng = np.random.default_rng([seed, factor])
            X = rng.standard_normal((sizes["n"], sizes["d"]))
            Y = rng.standard_normal((sizes["n"], sizes["l"]))
            with threadpool_limits(limits=1):
                for name, step in steps_of(X, Y).items():
                    seconds = min(_seconds(step) for _ in range(_RUNS))
                    measured: Row = {"step": name, "factor": factor, "CPU s": seconds}
                    rows.append({**task.setting, "seed": seed, **measured})
    return rows


def _seconds(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


FIGURES = {
    "primo-theorem-5": PaperFigure(
        "PRIMO, Theorem 5: exponents of the run time of Algorithm 3",
        tuple({"axis": axis} for axis in _BASE),
        run_times,
        partial(draw_growth, value="CPU s", by="step", printed=EXPONENTS, statistic="min"),
        repetitions=3,
        quick_repetitions=1,
    )
}
