"""Lemmas 2 to 15 of PRIMO: what each states beside what draws of it give.

``||X|| = ||Y|| = 1``, and unnamed constants are 1. A row has the value `printed` that a lemma
states and the value `measured` that is to be compared with it: an error of an identity, a
probability of failure, a bound, or an exponent of the sample s. Lemmas 6 and 7 are Lemmas 14 and 13
of the appendix, and Lemma 10 is Lemma 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from experiments import papers_constants as papers
from experiments.figure_drawing import draw
from experiments.gaussian_noise import Float64, symmetric_upper
from experiments.reproduction import PaperFigure, Row, Task
from primo_scale.papers.estimators import ball_multiplier

_SIZE = 25  # d, as in the paper's experiments
_FAILURES = (0.05, 0.01, 0.001)  # rho
_DRAWS = 5000  # of a repetition
_SAMPLES = (100, 200, 400, 800, 1600, 3200)  # s, of the people below
_PEOPLE, _ATTRIBUTES, _RIDGE = 50_000, 10, 0.02
_EPSILON, _DELTA = 5.0, 1e-9


def lemma_2(rng: np.random.Generator) -> list[Row]:
    """Excess loss of any weights is a quadratic form."""
    X, y, w = rng.standard_normal((200, 5)), rng.standard_normal(200), rng.standard_normal(5)
    best = np.linalg.lstsq(X, y)[0]
    excess = ((y - X @ w) ** 2).mean() - ((y - X @ best) ** 2).mean()
    stated = ((X @ (w - best)) ** 2).mean()
    return [_row("2", "relative difference of the sides", 0.0, abs(excess / stated - 1))]


def lemma_3(rng: np.random.Generator) -> list[Row]:
    """``||E1|| <= lambda / 2`` at the ridge of equation 11, and at twice that; no eigenvalues."""
    norms = np.array(
        [np.abs(np.linalg.eigvalsh(symmetric_upper(_SIZE, rng))).max() for _ in range(500)]
    )
    rows = []
    for factor in (1.0, 2.0):
        ridge = factor * math.sqrt(_SIZE * math.log(2 * _SIZE**2 / 0.05))
        case = f"failures, {factor:g} x the ridge of (11), rho = 0.05"
        rows.append(_row("3", case, 0.05, float((norms > ridge / 2).mean())))
    return rows


def lemma_4(rng: np.random.Generator) -> list[Row]:
    """``||E w||_A^2 <= sigma^2 tr(A) ||w||^2 log(2 d^2 / rho)`` for ``A = w w'``, w spread."""
    w = np.full(_SIZE, _SIZE**-0.5)
    squares = np.array([(w @ symmetric_upper(_SIZE, rng) @ w) ** 2 for _ in range(_DRAWS)])
    rows = []
    for factor in (1.0, 4.0):
        for rho in _FAILURES:
            bound = factor * math.log(2 * _SIZE**2 / rho)
            case = f"failures, {factor:g} x the bound, rho = {rho:g}"
            rows.append(_row("4", case, rho, float((squares > bound).mean())))
    return rows


def lemmas_5_and_9(rng: np.random.Generator) -> list[Row]:
    """Largest constant c at which each holds for ``||C'x||`` of a row C of norm 1 or 100."""
    deviations = np.abs(np.abs(rng.standard_normal(_DRAWS * 20)) - 1)
    limits = np.linspace(0.5, 2.5, 9)
    shares = np.array([(deviations > t).mean() for t in limits])
    rows = []
    for norm in (1, 100):
        constant_9 = float((-np.log(shares / 2) / limits**2).min())  # t and ||C|| scale together
        rows.append(_row("5", f"largest c, ||C|| = {norm}", math.nan, constant_9 / norm))
        rows.append(_row("9", f"largest c, ||C|| = {norm}", math.nan, constant_9))
    return rows


def lemma_8(rng: np.random.Generator) -> list[Row]:
    """Squared error of a projection onto ``K = {C z: ||z|| <= 1}`` over each of its bounds."""
    largest = np.zeros(2)
    for _ in range(200):
        C, scale = rng.standard_normal((8, 12)) * rng.uniform(0.1, 2), rng.uniform(0.01, 3)
        z = rng.standard_normal(12)
        g = C @ (z / np.linalg.norm(z) * rng.uniform() ** 0.1)
        w = scale * rng.standard_normal(8)
        values, vectors = np.linalg.eigh(C @ C.T)
        target = vectors.T @ (g + w)
        multiplier = ball_multiplier(values, target**2, 1.0)
        projected = vectors @ (values / (values + multiplier) * target)
        bounds = np.array([4 * w @ w, 4 * np.linalg.norm(C.T @ w)])
        largest = np.maximum(largest, ((projected - g) ** 2).sum() / bounds)
    names = ("4 ||w||^2", "4 ||w||_K")
    return [
        _row("8", f"largest error over {name}", 1.0, float(value))
        for name, value in zip(names, largest, strict=True)
    ]


def lemmas_10_and_15(_: np.random.Generator) -> list[Row]:
    """Upper tail where a draw is B with probability 1/B and else 0, which has the mean 1."""
    rows = []
    for s, bound in ((1000, 100), (1000, 10), (100_000, 100)):
        for rho in (0.05, 1e-4, 1e-9):
            limit = 1 + math.sqrt(2 * bound * math.log(2 / rho) / s)
            failure = float(binom.sf(math.ceil(limit * s / bound) - 1, s, 1 / bound))
            rows.append(
                _row("10, 15", f"failures, s/B = {s // bound}, rho = {rho:g}", rho, failure)
            )
    return rows


def lemma_11(_: np.random.Generator) -> list[Row]:
    """Exact epsilon of a mechanism on a sample over ``s/n`` times its epsilon."""
    rows = []
    for epsilon in (0.1, 1.0, 5.0, 25.0):
        exact = math.log1p(0.1 * math.expm1(epsilon))
        case = f"epsilon over gamma epsilon, gamma = 0.1, epsilon = {epsilon:g}"
        rows.append(_row("11", case, 1.0, exact / (0.1 * epsilon)))
    return rows


def lemma_12(rng: np.random.Generator) -> list[Row]:
    """Difference of two solutions, also for a singular B."""
    A, v, c = rng.standard_normal((6, 6)), rng.standard_normal(6), rng.standard_normal(6)
    B = np.outer(rng.standard_normal(6), rng.standard_normal(6))
    left = np.linalg.solve(A, v) - np.linalg.solve(A + B, v + c)
    right = np.linalg.solve(A + B, B @ np.linalg.solve(A, v) - c)
    error = float(np.linalg.norm(left - right) / np.linalg.norm(left))
    return [_row("12", "relative difference of the sides", 0.0, error)]


def lemmas_13_and_14(rng: np.random.Generator) -> list[Row]:
    """Exponents of s for the error of sampling, and for that of the noise on a sample."""
    X = rng.standard_normal((_PEOPLE, _ATTRIBUTES))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = X @ rng.standard_normal(_ATTRIBUTES) + 0.3 * rng.standard_normal(_PEOPLE)
    gram, cross = X.T @ X / _PEOPLE, X.T @ y / _PEOPLE
    ridge = _RIDGE * np.eye(_ATTRIBUTES)
    whole = np.linalg.solve(gram + ridge, cross)
    errors: dict[str, list[float]] = {"13": [], "14, noise of Algorithm 4": [], "14, valid": []}
    for s in _SAMPLES:
        scales = {
            "14, noise of Algorithm 4": papers.primo_algorithm_4_gram(_EPSILON, _DELTA, s / _PEOPLE)
            / _PEOPLE,
            "14, valid": papers.primo_algorithm_3(_EPSILON, _DELTA).gram / s,
        }
        found: dict[str, list[float]] = {name: [] for name in errors}
        for _ in range(40):
            sample = X[rng.choice(_PEOPLE, s, replace=False)]
            sampled = sample.T @ sample / s + ridge
            weights = np.linalg.solve(sampled, cross)
            found["13"].append(_loss(gram, weights - whole))
            noise = symmetric_upper(_ATTRIBUTES, rng)
            for name, scale in scales.items():
                # To first order, so that a small sample does not leave the linear regime.
                moved = np.asarray(scale * np.linalg.solve(sampled, noise @ weights), np.float64)
                found[name].append(_loss(gram, moved))
        for name, values in found.items():
            errors[name].append(float(np.mean(values)))
    slopes = {name: _slope(values) for name, values in errors.items()}
    return [
        _row("7, 13", "exponent of s, norm", -1.0, slopes["13"] / 2),
        _row("7, 13", "exponent of s, squared norm", -1.0, slopes["13"]),
        _row(
            "6, 14", "exponent of s, noise of Algorithm 4", -1.0, slopes["14, noise of Algorithm 4"]
        ),
        _row("6, 14", "exponent of s, valid noise", -1.0, slopes["14, valid"]),
    ]


def _loss(gram: Float64, difference: Float64) -> float:
    return float(difference @ gram @ difference)


def _slope(values: list[float]) -> float:
    return float(np.polyfit(np.log(_SAMPLES), np.log(values), 1)[0])


def _row(lemma: str, case: str, printed: float, measured: float) -> Row:
    return {"lemma": lemma, "case": case, "printed": printed, "measured": measured}


CHECKS: dict[str, Callable[[np.random.Generator], list[Row]]] = {
    check.__name__: check
    for check in (
        lemma_2,
        lemma_3,
        lemma_4,
        lemmas_5_and_9,
        lemma_8,
        lemmas_10_and_15,
        lemma_11,
        lemma_12,
        lemmas_13_and_14,
    )
}


def run_lemmas(task: Task) -> list[Row]:
    """Return the rows of one check for the seeds of a task."""
    check = CHECKS[str(task.setting["check"])]
    return [
        {**task.setting, "seed": seed, **row}
        for seed in task.seeds
        for row in check(np.random.default_rng(seed))
    ]


def draw_lemmas(rows: pd.DataFrame, path: Path) -> None:
    """Draw a table of the means of what was measured, beside what is printed."""
    named = rows.assign(lemma=rows.lemma.astype(str))
    means = named.groupby(["lemma", "case"], sort=False)[["printed", "measured"]].mean()
    cells = [
        ("lemma", "", "printed", "measured"),
        *(
            (lemma, case, f"{printed:.3g}", f"{measured:.3g}")
            for (lemma, case), (printed, measured) in zip(
                means.index, means.to_numpy(), strict=True
            )
        ),
    ]

    def panel(axes: Any) -> None:
        """Write the columns of the table in the place of a plot."""
        for place, column in zip((0.0, 0.12, 0.78, 0.9), zip(*cells, strict=True), strict=True):
            axes.text(place, 1, "\n".join(column), fontsize=5, va="top")
        axes.set_axis_off()
        axes.legend([], frameon=False)

    draw([[panel]], path)


FIGURES = {
    "primo-lemmas": PaperFigure(
        "PRIMO, Lemmas 2 to 15",
        tuple({"check": name} for name in CHECKS),
        run_lemmas,
        draw_lemmas,
        repetitions=20,
        quick_repetitions=2,
    )
}
