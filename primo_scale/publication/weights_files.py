"""Table of the files of a release that are made from the weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.publication.check_weights import (
    centre_problems,
    covariates_problems,
    pgs_problems,
    weights_problems,
)
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import (
    CENTRE_FILE,
    COVARIATES_FILE,
    PGS_DIRECTORY,
    WEIGHTS_FILE,
)
from primo_scale.publication.pgs import write_pgs_files
from primo_scale.publication.weights import (
    ScoringWeights,
    write_centre_afreq,
    write_covariates,
    write_weights,
)
from primo_scale.publication.wording import stamp_column, stamp_of

Check = Callable[[Path, Document], list[str]]
"""Function of a release directory and its release.json that returns what is wrong with a file."""


@dataclass(frozen=True)
class WeightsFile:
    """File of a release that is made from the weights.

    Attributes
    ----------
    name : str
        Name of the file, or of a directory with ``/`` at its end.
    write : callable
        Function that writes the file at a path, from the weights and release.json.
    check : callable
        Check of the file, for the verifier.
    description : str
        Description in README.txt.
    needs_others : bool
        Whether the check requires that the other files were found good.
    """

    name: str
    write: Callable[[Path, ScoringWeights, Document], None]
    check: Check
    description: str
    needs_others: bool = False


def _write_pgs(path: Path, weights: ScoringWeights, document: Document) -> None:
    build = document["public_inputs"]["genome_build"]
    write_pgs_files(path, weights, genome_build=build, stamp=stamp_of(document))


WEIGHTS_FILES = [
    WeightsFile(
        WEIGHTS_FILE,
        lambda path, weights, document: write_weights(path, weights, stamp=stamp_column(document)),
        weights_problems,
        "one row a variant: ID, alleles, position, weight of one copy of effect_allele",
    ),
    WeightsFile(
        COVARIATES_FILE,
        lambda path, weights, document: write_covariates(path, weights, stamp=stamp_of(document)),
        covariates_problems,
        "intercept and weights of the covariates",
    ),
    WeightsFile(
        CENTRE_FILE,
        lambda path, weights, document: write_centre_afreq(path, weights, stamp=stamp_of(document)),
        centre_problems,
        "dosage / 2 that a missing genotype counts as, for plink2 --read-freq",
    ),
    WeightsFile(
        f"{PGS_DIRECTORY}/",
        _write_pgs,
        pgs_problems,
        "the same weights as scoring files of the PGS Catalog, one a phenotype",
        needs_others=True,
    ),
]
"""Files that are made from the weights, in the order of README.txt."""
