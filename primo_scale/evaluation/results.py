"""Results of an evaluation, their files, and their pictures if matplotlib is installed."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from primo_scale.evaluation.accuracy import Estimate, Measures
from primo_scale.genotypes.frequencies import MatchCounts
from primo_scale.verify.held_out_accuracy import EVERYBODY, NARROW, NORMAL_QUANTILE, WITHIN_GROUPS
from primo_scale.version import __version__

EVALUATION_FILE, TABLE_FILE = "evaluation.json", "evaluation.tsv"
_COLUMNS = (
    *("weights", "phenotype", "group", "n", "r", "r_lower", "r_upper"),
    *("r2", "r2_lower", "r2_upper"),
    *("incremental_r2", "incremental_r2_lower", "incremental_r2_upper"),
    *("partial_r2", "partial_r2_lower", "partial_r2_upper", "partial_slope", "partial_slope_se"),
    *("slope", "slope_se", "intercept", "intercept_se", "n_cases", "auc", "auc_lower"),
    *("auc_upper", "liability_r2", "liability_r2_lower", "liability_r2_upper"),
)
_LEVELS = r"^(measures_)?(calibration_|discrimination_)?|_value$"
_MOST_ROWS, _MOST_PANELS = 60, 12
_STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "primo-scale",
    "text.parse_math": False,  # a name may contain dollar signs
}

LOGGER = logging.getLogger("primo_scale")


@dataclass(frozen=True)
class ScoreResult:
    """Accuracy of a score for a phenotype in a group of people."""

    weights: str  # path of the weights
    phenotype: str
    group: str  # ``all`` for everybody, ``within groups`` for all groups together
    measures: Measures  # numbers with their intervals

    @property
    def is_told(self) -> bool:
        """Whether it is of several groups, or its interval of R^2 says something."""
        r2 = (self.measures.partial or self.measures).r2
        together = self.group in (WITHIN_GROUPS, EVERYBODY)
        return together or r2.lower > 0 or r2.upper - r2.lower < NARROW

    def __str__(self) -> str:
        own, partial = self.measures, self.measures.partial
        shown, line = partial or own, partial or own.calibration
        half = NORMAL_QUANTILE * line.slope_se
        return (
            f"{self.weights}: {self.phenotype}, {self.group}, n = {own.n}: "
            f"{'' if partial is None else 'beyond covariates '}r {shown.r.value:.3f}, "
            f"R^2 {_in_words(shown.r2)}, slope {line.slope:.3g} "
            f"({line.slope - half:.3g} to {line.slope + half:.3g})"
            f"{'' if partial is None else f'; not adjusted R^2 {_in_words(own.r2)}'}"
        )


def _in_words(r2: Estimate) -> str:
    return f"{r2.value:.4f} ({r2.lower:.4f} to {r2.upper:.4f})"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Accuracy of several scores in the same people. It is not private.

    Attributes
    ----------
    stamp : str
        Statement that the results are not private, with the people they were computed from.
    variants : dict of str to MatchCounts
        Numbers of matched variants by path of the weights.
    results : tuple of ScoreResult
        Accuracy of each score.
    """

    stamp: str
    variants: Mapping[str, MatchCounts]
    results: tuple[ScoreResult, ...]

    def __repr__(self) -> str:
        told = [result for result in self.results if result.is_told]
        lines = [self.stamp, *map(str, told)]
        if len(told) < len(self.results):
            lines.append(
                f"{len(self.results) - len(told)} results of single groups are in the files alone: "
                f"their intervals of R^2 contain 0 and are wider than {NARROW:g}"
            )
        return "\n".join(lines)


def write_results(directory: Path, evaluation: Evaluation) -> None:
    """Write evaluation.json and evaluation.tsv, both with the stamp."""
    content = {**asdict(evaluation), "software": f"primo-scale {__version__}"}
    (directory / EVALUATION_FILE).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")
    # A measure that only some results have is also a column of its own without values.
    table = pd.json_normalize(content["results"], sep="_").dropna(axis="columns", how="all")
    table.columns = table.columns.str.replace(_LEVELS, "", regex=True)
    with (directory / TABLE_FILE).open("w", encoding="utf-8") as file:
        file.write(f"##{evaluation.stamp}\n")
        table = table.reindex(columns=_COLUMNS)
        table.to_csv(file, sep="\t", index=False, na_rep="NA", float_format="%.9g")


def draw_pictures(directory: Path, evaluation: Evaluation) -> None:
    """Write accuracy.svg and deciles.svg of the first results, or log what they need."""
    try:
        import matplotlib
    except ImportError:
        LOGGER.info("no pictures are drawn without matplotlib (pip install matplotlib)")
        return
    with matplotlib.rc_context(_STYLE):
        for name, figure in (
            ("accuracy.svg", _accuracy(evaluation.results[:_MOST_ROWS])),
            ("deciles.svg", _deciles(evaluation.results)),
        ):
            figure.suptitle(evaluation.stamp, fontsize=8, wrap=True)
            figure.savefig(directory / name, metadata={"Date": None})


def _accuracy(results: tuple[ScoreResult, ...]) -> Any:
    """Return a figure with R^2 of every result, beyond covariates if any, and its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.5 + 0.25 * len(results)), layout="constrained")
    axes = figure.subplots()
    rows = dict.fromkeys((result.phenotype, result.group) for result in results)
    places = {row: -place for place, row in enumerate(rows)}
    weights = list(dict.fromkeys(result.weights for result in results))
    for index, name in enumerate(weights):
        shown = [result for result in results if result.weights == name]
        shift = 0.6 * (0.5 - (index + 0.5) / len(weights))
        found = [(result.measures.partial or result.measures).r2 for result in shown]
        axes.errorbar(
            [r2.value for r2 in found],
            [places[result.phenotype, result.group] + shift for result in shown],
            xerr=[[r2.value - r2.lower for r2 in found], [r2.upper - r2.value for r2 in found]],
            fmt="o",
            label=name,
        )
    axes.set_yticks([*places.values()], [f"{phenotype}, {group}" for phenotype, group in places])
    beyond = " beyond covariates" if any(result.measures.partial for result in results) else ""
    axes.set_xlabel(f"R² of the score{beyond}, with 95% interval")
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
