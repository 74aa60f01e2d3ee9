"""README.txt of a release: instructions for scoring, and a list of the files."""

from __future__ import annotations

from primo_scale.genotypes.genome_build import NOT_REPORTED
from primo_scale.publication.document import Document, people_in_words
from primo_scale.publication.file_names import (
    CENTRE_FILE,
    COVARIATES_FILE,
    LOG_FILE,
    PGS_DIRECTORY,
    RELEASE_FILE,
    REPORT_FILE,
)
from primo_scale.publication.scoring import scoring_command_in_lines
from primo_scale.publication.weights_files import weights_files_of

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
{weights_files}
  {release_file:<16}the numbers of this release, and SHA-256 digests of its files
  {report_file:<16}what this release is, in words
  {log_file:<16}what was done
"""
_ON_X = "On X men count as 0 or 2 copies (--xchr-model {model}).\n"
_NO_BUILD = (
    "not reported.\nTools of the PGS Catalog refuse the files in {directory}/ for that reason."
)


def render_readme(document: Document) -> str:
    """Return README.txt of the release with this release.json."""
    scoring, n_phenotypes = document["scoring"], document["cohort"]["n_phenotypes"]
    build = document["public_inputs"]["genome_build"]
    software = document["software"]
    model = scoring["xchr_model"]
    files = weights_files_of(document)
    lines = [f"  {name:<16}{file.description}" for name, file in files.items()]
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
        weights_files="\n".join(lines),
        covariates_file=COVARIATES_FILE,
        centre_file=CENTRE_FILE,
        release_file=RELEASE_FILE,
        report_file=REPORT_FILE,
        log_file=LOG_FILE,
    )
