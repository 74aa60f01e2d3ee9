"""Theorems 1 and 2 and Lemma 2 of Wu et al.: exponents of the errors, and the mixing of rows.

The error of the weights at a fixed probability is measured while n, the noise or d grows, on their
synthetic data: attributes uniform on [-1, 1], and the outcome their sum with weights, without or
with residuals. For the n of a theorem rows are not drawn: sums of products over people are normal
about their means, those of the noise have a Wishart distribution, and a row of random signs times
the data is normal. This is exact for large n (`tests/experiments/test_rates.py` compares it with
drawn rows).
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import wishart

from experiments.figure_drawing import draw
from experiments.gaussian_noise import Float64, symmetric_upper
from experiments.growth import draw_growth
from experiments.multi_party import least_squares
from experiments.reproduction import PaperFigure, Row, Task

_FACTORS = (1, 2, 4, 8, 16)
_TRIALS = 40
_VARIANCE = 1 / 3  # of an attribute
_PARTY = 2  # attributes of the largest party
RESIDUALS = {"exact outcome": 0.0, "outcome with residuals": 0.3}
# n is so large that the error is below 1, the regime of the theorems.
_BASE = {
    "DGM-OLS": {"n": 1e13, "sigma": 4.0, "d": 10},
    "RMGM-OLS": {"n": 1e10, "sigma": 4.0, "d": 10},
}
# Errors at a fixed probability: beta of Theorem 1, and of Theorem 2 where beta is below 1.
_STATED = {
    "DGM-OLS": {"n": -0.5, "sigma": 2.0, "d": 1.0},
    "RMGM-OLS": {"n": -0.25, "sigma": 0.5, "d": 0.75},
}


def released_gram(
    method: str, covariance: Float64, n_people: float, noise_sd: float, rng: np.random.Generator
) -> tuple[Float64, float]:
    """Draw ``D~'D~ / n`` of the released rows, outcome last, and its bias on the diagonal.

    `covariance` is D'D / n. The number of mixtures is that of Theorem 2.
    """
    width = len(covariance)
    if method == "RMGM-OLS":
        mixtures = mixtures_of(n_people, width - 1, noise_sd)
        scale = covariance + (mixtures * noise_sd**2 / n_people) * np.eye(width)
        return np.asarray(wishart.rvs(mixtures, scale / mixtures, random_state=rng)), 0.0
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(width))
    cross = noise_sd * root @ rng.standard_normal((width, width)) / math.sqrt(n_people)
    # Of a Wishart matrix over its degrees of freedom, to order 1/sqrt(n).
    own = noise_sd**2 * (np.eye(width) + _wishart_spread(width, n_people, rng))
    return covariance + cross + cross.T + own, noise_sd**2


def _wishart_spread(width: int, n_people: float, rng: np.random.Generator) -> Float64:
    upper = symmetric_upper(width, rng)
    return (upper + (math.sqrt(2) - 1) * np.diag(np.diag(upper))) / math.sqrt(n_people)


def mixtures_of(n_people: float, size: int, noise_sd: float) -> int:
    """Return k of Theorem 2 with constant 1; `noise_sd` is ``2 sqrt(d_max) sigma``."""
    sigma = noise_sd / (2 * math.sqrt(_PARTY))
    return round(math.sqrt(n_people * size / _PARTY) / sigma)


def covariance_of(
    n_people: float, weights: Float64, residual_sd: float, rng: np.random.Generator
) -> Float64:
    """Draw D'D / n of n people with attributes uniform on [-1, 1]; the outcome is last."""
    size = len(weights)
    spread = _VARIANCE * symmetric_upper(size, rng)  # sd of a product of two attributes
    np.fill_diagonal(spread, math.sqrt(4 / 45) * rng.standard_normal(size))
    gram = _VARIANCE * np.eye(size) + spread / math.sqrt(n_people)
    with_residuals = residual_sd * math.sqrt(_VARIANCE / n_people) * rng.standard_normal(size)
    cross = gram @ weights + with_residuals
    total = weights @ gram @ weights + 2 * weights @ with_residuals + residual_sd**2
    return np.block([[gram, cross[:, None]], [cross[None], np.array([[total]])]])


def error_of(
    method: str, sizes: dict[str, float], residual_sd: float, rng: np.random.Generator
) -> float:
    """Return the error of the weights of one release."""
    size, noise_sd = int(sizes["d"]), 2 * math.sqrt(_PARTY) * sizes["sigma"]
    weights = rng.uniform(-1, 1, size) / size
    covariance = covariance_of(sizes["n"], weights, residual_sd, rng)
    gram, bias = released_gram(method, covariance, sizes["n"], noise_sd, rng)
    return float(np.linalg.norm(least_squares(gram, debias=bias) - weights))


def run_rates(task: Task) -> list[Row]:
    """Return errors at growing sizes."""
    method, axis = str(task.setting["method"]), str(task.setting["axis"])
    residual_sd = RESIDUALS[str(task.setting["outcome"])]
    rows: list[Row] = []
    for seed in task.seeds:
        for factor in _FACTORS:
            sizes = {**_BASE[method], axis: factor * _BASE[method][axis]}
            rng = np.random.default_rng([seed, factor])
            for _ in range(_TRIALS):
                error = error_of(method, sizes, residual_sd, rng)
                group = f"{method}, {task.setting['outcome']}"
                measured: Row = {"factor": factor, "error": error, "group": group}
                rows.append({**task.setting, "seed": seed, **measured})
    return rows


_CASES = tuple((method, outcome) for method in _BASE for outcome in RESIDUALS)

_POINTS, _LENGTH = 10, 400  # l and d of Lemma 2
_MIXTURES = (250, 1000, 4000)


def run_lemma_2(task: Task) -> list[Row]:
    """Return the largest deviation of an inner product, and what the lemma allows."""
    rows: list[Row] = []
    mixtures = int(task.setting["k"])
    beta = allowed_beta(mixtures, 0.05)
    for seed in task.seeds:
        rng = np.random.default_rng([seed, mixtures])
        points = rng.standard_normal((_POINTS, _LENGTH))
        points /= np.linalg.norm(points, axis=1).max()
        mixed = points @ rng.choice([-1.0, 1.0], (_LENGTH, mixtures)) / math.sqrt(mixtures)
        largest = float(np.abs(mixed @ mixed.T - points @ points.T).max())
        measured: Row = {"method": "largest deviation", "deviation": largest}
        allowed: Row = {"method": "allowed at probability 0.05", "deviation": 4 * beta}
        rows += [{**task.setting, "seed": seed, **each} for each in (measured, allowed)]
    return rows


def allowed_beta(mixtures: int, probability: float) -> float:
    """Return the smallest beta up to 1 at which Lemma 2 states at most this probability."""
    betas = np.linspace(1e-4, 1, 10_000)
    exponents = mixtures * (betas**2 / 4 - betas**3 / 6)
    stated = (_POINTS + 1) ** 2 * np.exp(-exponents)
    return float(betas[np.argmax(stated <= probability)])


def draw_lemma_2(rows: pd.DataFrame, path: Path) -> None:
    """Draw both against the number of mixtures."""

    def panel(axes: Any) -> None:
        """Draw the deviations as dots, and what the lemma allows as a line."""
        for name, own in rows.groupby("method"):
            axes.plot(own.k, own.deviation, "-" if "allowed" in str(name) else ".", label=name)
        axes.set(xscale="log", yscale="log", xlabel="k", ylabel="deviation over s^2")

    draw([[panel]], path)


FIGURES = {
    "wu-rates": PaperFigure(
        "Wu et al., Theorems 1 and 2: exponents of the error of the weights",
        tuple(
            {"method": method, "outcome": outcome, "axis": axis}
            for method, outcome in _CASES
            for axis in ("n", "sigma", "d")
        ),
        run_rates,
        partial(
            draw_growth,
            value="error",
            by="group",
            printed={
                (f"{method}, {outcome}", axis): stated
                for method, outcome in _CASES
                for axis, stated in _STATED[method].items()
            },
            statistic="median",
        ),
        repetitions=10,
        quick_repetitions=1,
    ),
    "wu-lemma-2": PaperFigure(
        "Wu et al., Lemma 2: inner products after mixing",
        tuple({"k": k} for k in _MIXTURES),
        run_lemma_2,
        draw_lemma_2,
        repetitions=200,
        quick_repetitions=5,
        seeds_per_task=50,
    ),
}
