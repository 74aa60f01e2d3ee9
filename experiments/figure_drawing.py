"""How the figures of the papers are drawn: curves with standard errors, as small SVG files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

# Small files, and the same file for the same rows. Text stays text.
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "primo_scale",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, eq=False)
class Panel:
    """Mean of a value against another, with its standard error, as one curve for each method.

    Attributes
    ----------
    rows : DataFrame
        Rows of results with the column `method`, one row for each repetition.
    x, y : str
        Columns of the horizontal axis and of the value; y is also the label.
    methods : sequence of str
        Methods in the order of the legend; those without rows are left out.
    title : str
        Title of the panel.
    scales : tuple of str
        Scales of the axes by matplotlib's names.
    y_limits : tuple of float, optional
        Limits of the vertical axis.
    """

    rows: pd.DataFrame
    x: str
    y: str
    methods: Sequence[str]
    title: str = ""
    scales: tuple[str, str] = ("log", "linear")
    y_limits: tuple[float, float] | None = None

    def __call__(self, axes: Any) -> None:
        """Draw the curves."""
        for place, method in enumerate(self.methods):
            values = self.rows[self.rows.method == method].groupby(self.x)[self.y]
            if values.ngroups:
                mean, error = values.mean(), values.sem().fillna(0)
                style = {"marker": ".", "color": f"C{place}"}
                axes.errorbar(mean.index, mean, error, label=method, **style)
        axes.set(xlabel=self.x, ylabel=self.y, title=self.title)
        axes.set(xscale=self.scales[0], yscale=self.scales[1])
        if self.y_limits:
            axes.set_ylim(*self.y_limits)


def draw(panels: Sequence[Sequence[Callable[[Any], None]]], path: Path) -> None:
    """Draw rows of panels, each a function of matplotlib's axes, to an SVG file.

    The first panel has the legend, unless it has drawn one.
    """
    import matplotlib as mpl  # not needed to run a figure
    from matplotlib.figure import Figure

    size = (4 * len(panels[0]), 3 * len(panels))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(panels), len(panels[0]), squeeze=False)
        for own_axes, own_panels in zip(axes, panels, strict=True):
            for one, panel in zip(own_axes, own_panels, strict=True):
                panel(one)
                one.minorticks_off()
        if axes[0, 0].get_legend() is None and axes[0, 0].get_legend_handles_labels()[0]:
            axes[0, 0].legend(fontsize="small")
        svg = StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
    path.write_text(_shortened(svg.getvalue()))


def _shortened(svg: str) -> str:
    """Return an SVG file without indentation, with coordinates to a tenth of a point."""
    unindented = re.sub(r"\n +", "\n", svg)
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", unindented)
