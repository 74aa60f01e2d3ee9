"""Cost curves: time and memory against people and variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from benchmarks.programs import median

_AXES = (("people", "samples", "people n"), ("variants", "variants", "variants d"))


def cost_curves(measured: dict[str, Any], path: Path) -> None:
    """Write an SVG with time above and memory below, on logarithmic axes."""
    mpl.rcParams.update({"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 10})
    figure, axes = plt.subplots(2, 2, figsize=(9, 7), sharex="col")
    for column, (part, size, label) in enumerate(_AXES):
        _time(axes[0, column], measured, part, size)
        _memory(axes[1, column], measured[part], size)
        axes[1, column].set_xlabel(label)
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("peak memory, GiB")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _time(axes: Axes, measured: dict[str, Any], part: str, size: str) -> None:
    rows = measured[part]
    x, y = [row[size] for row in rows], [median(row["seconds"]) for row in rows]
    axes.loglog(x, y, "o-", label="measured")
    fit = measured[f"exponent_{part}"]
    if fit is not None:
        last, slope = fit["sizes"][-1], fit["exponent"]
        at_last = y[x.index(last)]
        line = [at_last * (value / last) ** slope for value in fit["sizes"]]
        axes.loglog(fit["sizes"], line, "--", label=f"exponent {slope:.2f}")
    few = measured["few"][part]
    label = f"{few['samples']:,} people, {few['variants']:,} variants"
    axes.axhline(median(few["seconds"]), color="grey", linewidth=0.8, label=label)
    axes.legend(frameon=False)
    axes.set_title(_title(rows, size))


def _title(rows: list[dict[str, Any]], size: str) -> str:
    if size == "samples":
        return f"{rows[0]['variants']:,} variants"
    return f"{rows[0]['samples']:,} people"


def _memory(axes: Axes, rows: list[dict[str, Any]], size: str) -> None:
    for name, label in (
        ("total", "all processes"),
        ("child", "largest worker"),
        ("main", "client"),
    ):
        sizes = [row["memory"][name] / 2**30 for row in rows]
        axes.semilogx([row[size] for row in rows], sizes, "o-", label=label)
    axes.set_xticks([row[size] for row in rows], [f"{row[size]:,}" for row in rows], rotation=30)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
