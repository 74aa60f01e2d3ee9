"""Exponents of sizes: how a measured value grows when one size is multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.figure_drawing import draw


def exponent(rows: pd.DataFrame, value: str, statistic: str = "mean") -> float:
    """Return the slope of the log of a value against the log of the column `factor`."""
    by_factor = rows.groupby("factor")[value].agg(statistic)
    return float(np.polyfit(np.log(by_factor.index), np.log(by_factor), 1)[0])


def draw_growth(
    rows: pd.DataFrame,
    path: Path,
    *,
    value: str,
    by: str,
    printed: Mapping[tuple[str, str], float],
    statistic: str = "mean",
) -> None:
    """Draw a value against the factor of each size, `axis`, with measured and printed exponents.

    One panel for each group `by`; `printed` are the exponents by group and axis.
    """

    def panel(group: str, axes: Any) -> None:
        """Draw the sizes of one group."""
        of_group = rows[rows[by] == group]
        for place, axis in enumerate(of_group.axis.unique()):
            own = of_group[of_group.axis == axis]
            found = own.groupby("factor")[value].agg(statistic)
            label = f"{axis}: {exponent(own, value, statistic):.2f}"
            if (group, axis) in printed:
                label += f" ({printed[group, axis]:g})"
                line = found.iloc[0] * found.index.to_numpy(float) ** printed[group, axis]
                axes.plot(found.index, line, color=f"C{place}", lw=0.5)
            axes.plot(found, ".-", color=f"C{place}", label=label)
        axes.set(xscale="log", yscale="log", xlabel="times the base size", ylabel=value)
        axes.set_title(group)
        axes.legend(title="exponent (printed)", fontsize="small")

    panels = [partial(panel, group) for group in rows[by].unique()]
    width = next((number for number in (3, 2) if len(panels) % number == 0), len(panels))
    draw([panels[start : start + width] for start in range(0, len(panels), width)], path)
