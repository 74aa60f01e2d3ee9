"""Instructions for scoring with a release: the member `scoring` of release.json, and a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePath

from primo_scale.genotypes.chromosomes import CHROMOSOME_X
from primo_scale.genotypes.tables import canonical_chromosome
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import CENTRE_FILE, WEIGHTS_FILE
from primo_scale.publication.weights import NAMED_COLUMNS

# plink2 --xchr-model 2, its default, counts a man's single copy on X as two copies.
_MALES_ON_X, _XCHR_MODEL = "0/2", 2


def scoring_of(chromosomes: Iterable[str]) -> Document:
    """Return the member `scoring` of release.json for chromosomes in any spelling."""
    found = list(dict.fromkeys(map(canonical_chromosome, dict.fromkeys(chromosomes))))
    on_x = CHROMOSOME_X in found
    return {
        "chromosomes": found,
        "males_on_x": _MALES_ON_X if on_x else None,
        "xchr_model": _XCHR_MODEL if on_x else None,
    }


def scoring_command(document: Document, directory: PurePath) -> list[str]:
    """Return the plink2 command that computes the scores of a release, one option per entry."""
    first = NAMED_COLUMNS + 1
    last = NAMED_COLUMNS + document["cohort"]["n_phenotypes"]
    columns = f"{first}-{last}" if last > first else f"{first}"  # plink2 refuses 7-7
    weights, centre = (shlex.quote(str(directory / name)) for name in (WEIGHTS_FILE, CENTRE_FILE))
    model = document["scoring"]["xchr_model"]
    return [
        "plink2 --bfile GENOTYPES",
        f"--score {weights} 1 2 header-read cols=+scoresums",
        f"--score-col-nums {columns}",
        f"--read-freq {centre}",
        *([] if model is None else [f"--xchr-model {model}"]),
        # Scores of people must not be written into the release.
        "--out ../scores" if directory == PurePath() else "--out scores",
    ]


def scoring_command_in_lines(document: Document) -> str:
    """Return `scoring_command` for the directory of the release, one option per line."""
    return " \\\n  ".join(scoring_command(document, PurePath()))
