"""Instructions for scoring with a release: the member `scoring` of release.json and README.txt."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePath

from primo_scale.genotypes.chromosomes import CHROMOSOME_X
from primo_scale.genotypes.genome_build import NOT_REPORTED
from primo_scale.genotypes.tables import canonical_chromosome
from primo_scale.publication.document import Document, people_in_words
from primo_scale.publication.file_names import (
    CENTRE_FILE,
    COVARIATES_FILE,
    LOG_FILE,
    PGS_DIRECTORY,
    RELEASE_FILE,
    REPORT_FILE,
    WEIGHTS_FILE,
)
from primo_scale.publication.weights import NAMED_COLUMNS

# plink2 --xchr-model 2, its default, counts a man's single copy on X as two copies.
_MALES_ON_X, _XCHR_MODEL = "0/2", 2

_README = """\
Weights of polygenic scores of {phenotypes}, learned from {people}
{stamp}
{software}, {created} (UTC)

To compute scores with PLINK 2, run in this directory, with the prefix of a PLINK 1 fileset in place
of GENOTYPES (of a PLINK 2 fileset with --pfile in place of --bfile):

  {command}

../scores.sscore, beside this directory, then has a column NAME_SUM for each phenotype NAME, in the
units of the phenotype. The predicted phenotype is NAME_SUM plus the intercept plus each covariate
times its weight ({covariates_file}). Variants are matched by ID, and a variant that GENOTYPES lacks
adds nothing to the score. A missing genotype counts as the public centre of its variant
({centre_file}).

Chromosomes: {chromosomes}.
{x}Genome build of the positions: {build}

Files
  {weights_file:<16}one row a variant: ID, alleles, position, weight of one copy of effect_allele
  {covariates_file:<16}intercept and weights of the covariates
  {centre_file:<16}dosage / 2 that a missing genotype counts as, for plink2 --read-freq
  {pgs_directory:<16}the same weights as scoring files of the PGS Catalog, one a phenotype
  {release_file:<16}the numbers of this release, and SHA-256 digests of its files
  {report_file:<16}what this release is, in words
  {log_file:<16}what was done
"""
_ON_X = "On X men count as 0 or 2 copies (--xchr-model {model}).\n"
_NO_BUILD = (
    "not reported.\nTools of the PGS Catalog refuse the files in {directory}/ for that reason."
)


def scoring_of(chromosomes: Iterable[str]) -> Document:
    """Return the member `scoring` of release.json.

    Parameters
    ----------
    chromosomes
        Chromosome of every variant, in any spelling.
    """
    found = list(dict.fromkeys(map(canonical_chromosome, dict.fromkeys(chromosomes))))
    on_x = CHROMOSOME_X in found
    return {
        "chromosomes": found,
        "males_on_x": _MALES_ON_X if on_x else None,
        "xchr_model": _XCHR_MODEL if on_x else None,
    }


def scoring_command(document: Document, directory: PurePath) -> list[str]:
    """Return the plink2 command that computes the scores of a release, one option per entry.

    Parameters
    ----------
    document : dict
        Contents of release.json.
    directory : PurePath
        Path of the release in the command.
    """
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


def render_readme(document: Document) -> str:
    """Return README.txt of the release with this release.json."""
    scoring, n_phenotypes = document["scoring"], document["cohort"]["n_phenotypes"]
    build = document["public_inputs"]["genome_build"]
    software = document["software"]
    model = scoring["xchr_model"]
    return _README.format(
        phenotypes=f"{n_phenotypes} phenotype{'' if n_phenotypes == 1 else 's'}",
        people=people_in_words(document),
        stamp=document["stamp"],
        software=f"{software['name']} {software['version']}",
        created=document["created"],
        command=scoring_command_in_lines(document).replace("\n", "\n  "),
        chromosomes=", ".join(scoring["chromosomes"]),
        x="" if model is None else _ON_X.format(model=model),
        build=_NO_BUILD.format(directory=PGS_DIRECTORY) if build == NOT_REPORTED else f"{build}.",
        weights_file=WEIGHTS_FILE,
        covariates_file=COVARIATES_FILE,
        centre_file=CENTRE_FILE,
        pgs_directory=f"{PGS_DIRECTORY}/",
        release_file=RELEASE_FILE,
        report_file=REPORT_FILE,
        log_file=LOG_FILE,
    )
