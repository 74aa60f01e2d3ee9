"""Results of an evaluation, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from primo_scale.evaluation.accuracy import Estimate
from primo_scale.evaluation.measures import Measures
from primo_scale.evaluation.scores import MatchCounts
from primo_scale.version import __version__

EVALUATION_FILE, TABLE_FILE = "evaluation.json", "evaluation.tsv"
EVERYBODY = "all"
"""Name of the group of all people."""
_TABLE_HEADER = (
    *("weights", "phenotype", "group", "n", "r2", "r2_lower", "r2_upper"),
    *("incremental_r2", "incremental_r2_lower", "incremental_r2_upper"),
    *("slope", "slope_se", "intercept", "intercept_se", "n_cases", "auc", "auc_lower"),
    *("auc_upper", "liability_r2", "liability_r2_lower", "liability_r2_upper"),
)


@dataclass(frozen=True)
class ScoreResult:
    """Accuracy of a score for a phenotype in a group of people.

    Attributes
    ----------
    weights, phenotype, group : str
        Path of the weights, phenotype, and group (``all`` for everybody).
    measures : Measures
        Numbers with their intervals.
    """

    weights: str
    phenotype: str
    group: str
    measures: Measures


@dataclass(frozen=True)
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


def write_results(directory: Path, evaluation: Evaluation) -> None:
    """Write evaluation.json and evaluation.tsv, both with the stamp."""
    content = {**asdict(evaluation), "software": f"primo-scale {__version__}"}
    (directory / EVALUATION_FILE).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")
    rows = [_TABLE_HEADER, *(map(_cell, _row(result)) for result in evaluation.results)]
    lines = [f"##{evaluation.stamp}", *map("\t".join, rows)]
    (directory / TABLE_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _row(result: ScoreResult) -> tuple[object, ...]:
    found = result.measures
    line, traits = found.calibration, found.discrimination
    return (
        *(result.weights, result.phenotype, result.group, found.n),
        *_ends(found.r2),
        *_ends(found.incremental_r2),
        *(line.slope, line.slope_se, line.intercept, line.intercept_se),
        *((None,) * 7 if traits is None else (traits.n_cases, *_ends(traits.auc))),
        *(() if traits is None else _ends(traits.liability_r2)),
    )


def _ends(estimate: Estimate | None) -> tuple[float | None, ...]:
    return (None,) * 3 if estimate is None else (estimate.value, estimate.lower, estimate.upper)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "NA" if value is None else str(value)
