"""Pictures of an evaluation as self-contained SVG files, if matplotlib is installed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from primo_scale.evaluation.results import EVERYBODY, Evaluation, ScoreResult

_MOST_ROWS, _MOST_PANELS = 60, 12
_STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "primo-scale",
    "text.parse_math": False,  # a name may contain dollar signs
}

logger = logging.getLogger("primo_scale")


def draw_pictures(directory: Path, evaluation: Evaluation) -> None:
    """Write accuracy.svg and deciles.svg of the first results, or log what they need."""
    try:
        import matplotlib
    except ImportError:
        logger.info("no pictures are drawn without matplotlib (pip install matplotlib)")
        return
    with matplotlib.rc_context(_STYLE):
        for name, figure in (
            ("accuracy.svg", _accuracy(evaluation.results[:_MOST_ROWS])),
            ("deciles.svg", _deciles(evaluation.results)),
        ):
            figure.suptitle(evaluation.stamp, fontsize=8, wrap=True)
            figure.savefig(directory / name, metadata={"Date": None})


def _accuracy(results: tuple[ScoreResult, ...]) -> Any:
    """Return a figure with R^2 of every result and its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.5 + 0.25 * len(results)), layout="constrained")
    axes = figure.subplots()
    rows = dict.fromkeys((result.phenotype, result.group) for result in results)
    places = {row: -place for place, row in enumerate(rows)}
    weights = list(dict.fromkeys(result.weights for result in results))
    for index, name in enumerate(weights):
        shown = [result for result in results if result.weights == name]
        shift = 0.6 * (0.5 - (index + 0.5) / len(weights))
        found = [result.measures.r2 for result in shown]
        axes.errorbar(
            [r2.value for r2 in found],
            [places[result.phenotype, result.group] + shift for result in shown],
            xerr=[[r2.value - r2.lower for r2 in found], [r2.upper - r2.value for r2 in found]],
            fmt="o",
            label=name,
        )
    axes.set_yticks([*places.values()], [f"{phenotype}, {group}" for phenotype, group in places])
    axes.set_xlabel("R² of the score, with 95% interval")
    axes.set_xlim(left=0)
    figure.legend(loc="outside lower center")
    return figure


def _deciles(results: tuple[ScoreResult, ...]) -> Any:
    """Return a figure with the mean phenotype of everybody by decile of each score."""
    from matplotlib.figure import Figure

    everybody = [result for result in results if result.group == EVERYBODY]
    phenotypes = list(dict.fromkeys(result.phenotype for result in everybody))[:_MOST_PANELS]
    columns = max(1, min(3, len(phenotypes)))
    n_rows = max(1, -(-len(phenotypes) // columns))
    figure = Figure(figsize=(3 * columns + 1, 2.6 * n_rows + 1), layout="constrained")
    panels = figure.subplots(n_rows, columns, squeeze=False).ravel()
    for axes, phenotype in zip(panels, phenotypes, strict=False):
        for result in everybody:
            if result.phenotype == phenotype:
                deciles = result.measures.deciles
                means = [decile.mean_phenotype for decile in deciles]
                errors = [decile.se for decile in deciles]
                axes.errorbar(range(1, 11), means, errors, marker="o", ms=3, label=result.weights)
        axes.set(title=phenotype, xlabel="decile of the score", ylabel="mean, with SE")
    for axes in panels[len(phenotypes) :]:
        axes.set_visible(False)
    legend: dict[str, Any] = {}
    for axes in panels:
        lines, labels = axes.get_legend_handles_labels()
        legend |= zip(labels, lines, strict=True)
    figure.legend(legend.values(), legend.keys(), loc="outside lower center")
    return figure
