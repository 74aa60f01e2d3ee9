"""Table 1 of PRIMO: how the worst excess loss grows with l, n and d, next to the printed rates.

The rates are upper bounds over all data with row bounds ``|X| = |Y| = 1`` and weights of norm w, at
the best ridge. Data at which they would be attained have small eigenvalues, unlike cohorts, where
the ridge is needless and the excess falls as the variance of the noise. This module therefore
searches a family of data for the worst: X'X/n is ``s I`` with ``s <= 1/d``, and Y'Y/n has r equal
eigenvalues ``l/r``. X explains no more than the variance of Y: ``s w^2 <= 1``, and for Proj_Y
``s w^2 <= d/r`` in every direction. The noise is that of Algorithm 1 as printed. E1 is drawn, and
the rest is an expectation::

    alpha = s sum_i [((kappa - 1) s - lambda - e_i)^2 w^2 / d + kappa^2 v] / (s + lambda + e_i)^2

with eigenvalues e_i of E1, the factor kappa of the projection, which is a multiple of the identity
in this family, and the variance v of the noise in X'Y that one outcome keeps in one direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import papers_constants as papers
from experiments.figure_drawing import draw
from experiments.gaussian_noise import Float64, symmetric_upper
from experiments.reproduction import PaperFigure, Row, Task

_EPSILON, _DELTA = 5.0, 1e-9  # fixed, so that n changes no logarithm
_SCALES = papers.primo_algorithm_1(_EPSILON, _DELTA)
_FACTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Sizes:
    """People n, variables d, outcomes l, and the norm of the weights of an outcome."""

    n: int
    d: int
    l: int  # noqa: E741 - the paper's name
    weight: float


@dataclass(frozen=True)
class TableRow:
    """Row of Table 1: mechanism, sizes in its regime, and printed exponents of n, d and l."""

    mechanism: str
    sizes: Sizes
    exponents: dict[str, float]


TABLE = {
    1: TableRow("Gauss", Sizes(1_000_000, 25, 4, 100.0), {"n": -1, "d": 0.5, "l": 0}),
    2: TableRow("Gauss", Sizes(1_000_000, 25, 400, 1.0), {"n": -1, "d": 0.5, "l": 0.5}),
    3: TableRow("Proj_Y", Sizes(50_000, 25, 400_000, 1000.0), {"n": -1, "d": 0.5, "l": 0}),
    4: TableRow("Proj_Y", Sizes(2_000_000, 16, 16_000_000, 1.0), {"n": -0.5, "d": 0.25, "l": 0}),
    5: TableRow("Proj_X", Sizes(8_000_000, 16, 300_000, 1.0), {"n": -0.5, "d": 0, "l": 0.25}),
}
"""Rows of Table 1. In row 5 the printed sqrt(d) is that of the norm of a row of entries |X|."""


def worst_excess(mechanism: str, sizes: Sizes, unit_noise: Float64) -> float:
    """Return the largest excess loss over the family of data, each at its best ridge.

    `unit_noise` are the eigenvalues of a symmetric d x d matrix of standard normal numbers.
    """
    spectrum = (0 if mechanism == "Proj_X" else _SCALES.gram / sizes.n) * unit_noise
    ranks = [float(sizes.l)]
    if mechanism == "Proj_Y":
        ranks = [*np.geomspace(sizes.d, sizes.l, 60)]
    worst = 0.0
    for rank in ranks:
        limit = min(1 / sizes.d, 1 / sizes.weight**2)
        if mechanism == "Proj_Y":
            limit = min(limit, sizes.d / (rank * sizes.weight**2))
        for s in limit * np.geomspace(1e-6, 1, 60):
            ridges = max(0.0, -float(spectrum.min())) + s * np.geomspace(1e-4, 1e6, 80)[:, None]
            worst = max(worst, excess_loss(mechanism, sizes, spectrum, (s, rank), ridges))
    return worst


def excess_loss(
    mechanism: str,
    sizes: Sizes,
    spectrum: Float64,
    point: tuple[float, float],
    ridge: float | Float64,
) -> float:
    """Return the excess loss at eigenvalue s and rank r, at the best of some ridges, shape (k, 1).

    `spectrum` are the eigenvalues of E1, shape (d,).
    """
    s, rank = point
    variance = (_SCALES.cross / sizes.n) ** 2 * rank
    kappa = 1.0
    if mechanism != "Gauss":
        # Squared norms of X'Y/n and of what it can be, divided by l.
        squared_radius = s if mechanism == "Proj_X" else 1 / rank
        squared_norm = s**2 * sizes.weight**2 + sizes.d * variance
        kappa = min(1.0, math.sqrt(squared_radius / squared_norm))
    bias = ((kappa - 1) * s - ridge - spectrum) ** 2 * sizes.weight**2 / sizes.d
    excess = s * ((bias + kappa**2 * variance) / (s + ridge + spectrum) ** 2).sum(axis=-1)
    return float(np.min(excess))


def run_rates(task: Task) -> list[Row]:
    """Return the worst excess loss at growing sizes, for draws of E1."""
    row, axis = TABLE[int(task.setting["row"])], str(task.setting["axis"])
    rows: list[Row] = []
    for seed in task.seeds:
        for factor in _FACTORS:
            sizes = replace(row.sizes, **{axis: factor * getattr(row.sizes, axis)})
            rng = np.random.default_rng([seed, factor])
            unit_noise = np.asarray(np.linalg.eigvalsh(symmetric_upper(sizes.d, rng)), np.float64)
            excess = worst_excess(row.mechanism, sizes, unit_noise)
            rows.append({**task.setting, "seed": seed, "factor": factor, "excess": excess})
    return rows


def exponent(rows: pd.DataFrame) -> float:
    """Return the slope of the log of the mean excess against the log of the size of one axis."""
    means = rows.groupby("factor").excess.mean()
    return float(np.polyfit(np.log(means.index), np.log(means), 1)[0])


def draw_table_1(rows: pd.DataFrame, path: Path) -> None:
    """Draw the excess against each size, with lines of the printed slopes."""

    def panel(number: int, axes: Any) -> None:
        """Draw one row of the table."""
        for place, (axis, printed) in enumerate(TABLE[number].exponents.items()):
            own = rows[(rows.row == number) & (rows.axis == axis)]
            mean, error = (
                getattr(own.groupby("factor").excess, name)() for name in ("mean", "sem")
            )
            label = f"{axis}: {exponent(own):.2f} ({printed:g})"
            axes.errorbar(mean.index, mean, error, fmt=".", color=f"C{place}", label=label)
            line = mean.iloc[0] * mean.index.to_numpy(float) ** printed
            axes.plot(mean.index, line, color=f"C{place}")
        axes.set(xscale="log", yscale="log", xlabel="times the base size", ylabel="worst excess")
        axes.set_title(f"row {number}, {TABLE[number].mechanism}")
        axes.legend(title="exponent (printed)", fontsize="small")

    draw([[partial(panel, number) for number in TABLE]], path)


FIGURES = {
    "primo-table-1": PaperFigure(
        "PRIMO, Table 1: exponents of the worst excess loss",
        tuple({"row": row, "axis": axis} for row in TABLE for axis in ("n", "d", "l")),
        run_rates,
        draw_table_1,
        repetitions=5,
        quick_repetitions=2,
    ),
}
