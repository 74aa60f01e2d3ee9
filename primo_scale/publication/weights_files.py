"""Table of the files of a release that are made from the weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.publication.check_pgs import pgs_problems
from primo_scale.publication.check_sumstats import sumstats_problems
from primo_scale.publication.check_weights import (
    centre_problems,
    covariates_problems,
    weights_problems,
)
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import (
    CENTRE_FILE,
    COVARIATES_FILE,
    PGS_DIRECTORY,
    SUMSTATS_DIRECTORY,
    WEIGHTS_FILE,
)
from primo_scale.publication.pgs import PGS_SUFFIX, write_pgs_files
from primo_scale.publication.sumstats import SUMSTATS_SUFFIX, write_sumstats
from primo_scale.publication.weights import (
    ScoringWeights,
    write_centre_afreq,
    write_covariates,
    write_weights,
)

Check = Callable[[Path, Document], list[str]]
"""Function of a release directory and its release.json that returns what is wrong with a file."""


@dataclass(frozen=True)
class WeightsFile:
    """File of a release that is made from the weights."""

    # Writes the file at a path, from the weights and release.json.
    write: Callable[[Path, ScoringWeights, Document], None]
    check: Check  # of the file, for the verifier
    description: str  # in README.txt
    needs_others: bool = False  # whether the check requires that the other files were found good
    suffix: str = ""  # of the files, one per phenotype, if the name is that of a directory
    is_optional: bool = False  # whether only a release with ``summary_statistics`` has the file


WEIGHTS_FILES = {
    WEIGHTS_FILE: WeightsFile(
        write_weights,
        weights_problems,
        "one row a variant: ID, alleles, position, weight of one copy of effect_allele",
    ),
    COVARIATES_FILE: WeightsFile(
        write_covariates, covariates_problems, "intercept and weights of the covariates"
    ),
    CENTRE_FILE: WeightsFile(
        write_centre_afreq,
        centre_problems,
        "dosage / 2 that a missing genotype counts as, for plink2 --read-freq",
    ),
    f"{PGS_DIRECTORY}/": WeightsFile(
        write_pgs_files,
        pgs_problems,
        "the same weights as scoring files of the PGS Catalog; log odds for binary traits",
        needs_others=True,
        suffix=PGS_SUFFIX,
    ),
    f"{SUMSTATS_DIRECTORY}/": WeightsFile(
        write_sumstats,
        sumstats_problems,
        "effect and standard error of each variant alone (GWAS-SSF), one file a phenotype",
        needs_others=True,
        suffix=SUMSTATS_SUFFIX,
        is_optional=True,
    ),
}
"""Files with the weights by name, in the order of README.txt. A name with ``/`` is a directory."""


def weights_files_of(document: Document) -> dict[str, WeightsFile]:
    """Return the entries of `WEIGHTS_FILES` that the release with this release.json has."""
    has_summary = document.get("summary_statistics", False)
    return {
        name: file for name, file in WEIGHTS_FILES.items() if has_summary or not file.is_optional
    }
