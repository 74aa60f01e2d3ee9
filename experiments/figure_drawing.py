"""How the figures of the papers are drawn: curves with bands, as small SVG files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_TAG = re.compile(r"<[^>]*>")
_LONG_NUMBER = re.compile(r"(\d+\.\d)\d+")  # a tenth of a point suffices
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
    """Mean of a value against another, with a band of one standard error, for each method."""

    rows: pd.DataFrame  # of results with the column `method`, one for each repetition
    x: str  # column of the horizontal axis
    y: str  # column of the value, and the label
    methods: Sequence[str]  # in the order of the legend; those without rows are left out
    title: str = ""
    scales: tuple[str, str] = ("log", "linear")  # of the axes, by matplotlib's names
    y_limits: tuple[float, float] | None = None

    def __call__(self, axes: Any) -> None:
        """Draw the curves."""
        for place, method in enumerate(self.methods):
            values = self.rows[self.rows.method == method].groupby(self.x)[self.y]
            if values.ngroups:
                mean, error = values.mean(), values.sem().fillna(0)
                axes.plot(mean, label=method, color=f"C{place}")
                band = (mean.index, mean - error, mean + error)
                axes.fill_between(*band, color=f"C{place}", alpha=0.3, linewidth=0)
        axes.set(xlabel=self.x, ylabel=self.y, title=self.title)
        axes.set(xscale=self.scales[0], yscale=self.scales[1])
        if self.y_limits:
            axes.set_ylim(*self.y_limits)


def draw(panels: Sequence[Sequence[Callable[[Any], None]]], path: Path) -> None:
    """Draw rows of panels, each a function of matplotlib's axes, to an SVG file.

    One legend serves all panels, unless the first panel has drawn its own.
    """
    import matplotlib as mpl  # not needed to run a figure
    from matplotlib.figure import Figure

    size = (4 * len(panels[0]), 3 * len(panels) + 1)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(panels), len(panels[0]), squeeze=False)
        for own_axes, own_panels in zip(axes, panels, strict=True):
            for one, panel in zip(own_axes, own_panels, strict=True):
                panel(one)
                one.minorticks_off()
        if axes[0, 0].get_legend() is None:
            named = [one.get_legend_handles_labels() for one in axes.flat]
            handles = {label: handle for pair in named for handle, label in zip(*pair, strict=True)}
            names = [*handles]
            figure.legend([*handles.values()], names, loc="outside lower center", ncols=2)
        text = StringIO()
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    shortened = _TAG.sub(lambda tag: _LONG_NUMBER.sub(r"\1", tag[0]), text.getvalue())
    path.write_text(shortened)
