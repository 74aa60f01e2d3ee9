"""Results of an evaluation, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from primo_scale.evaluation.accuracy import Measures
from primo_scale.evaluation.scores import MatchCounts
from primo_scale.version import __version__

EVALUATION_FILE, TABLE_FILE = "evaluation.json", "evaluation.tsv"
EVERYBODY = "all"
"""Name of the group of all people."""
_COLUMNS = (
    *("weights", "phenotype", "group", "n", "r2", "r2_lower", "r2_upper"),
    *("incremental_r2", "incremental_r2_lower", "incremental_r2_upper"),
    *("slope", "slope_se", "intercept", "intercept_se", "n_cases", "auc", "auc_lower"),
    *("auc_upper", "liability_r2", "liability_r2_lower", "liability_r2_upper"),
)
_LEVELS = r"^(measures_)?(calibration_|discrimination_)?|_value$"


@dataclass(frozen=True)
class ScoreResult:
    """Accuracy of a score for a phenotype in a group of people."""

    weights: str  # path of the weights
    phenotype: str
    group: str  # ``all`` for everybody
    measures: Measures  # numbers with their intervals

    def __str__(self) -> str:
        r2 = self.measures.r2
        return (
            f"{self.weights}: {self.phenotype}, {self.group}, n = {self.measures.n}: "
            f"R^2 {r2.value:.4f} ({r2.lower:.4f} to {r2.upper:.4f})"
        )


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
        return "\n".join((self.stamp, *map(str, self.results)))


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
