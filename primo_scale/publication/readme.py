"""README.txt of a release: instructions for scoring, and a list of the files."""

from __future__ import annotations

from textwrap import fill

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
from primo_scale.publication.weights import scoring_command_in_lines
from primo_scale.publication.weights_files import weights_files_of
from primo_scale.publication.wording import (
    FEW_VARIANTS,
    NO_COMPLETE_CASES,
    accuracies_in_words,
    ancestry_notes,
    few_variants_in_words,
    held_out_cautions,
)

_WIDTH = 100
_README = """\
Weights of polygenic scores of {phenotypes}, learned from {people}
{stamp}
{software[name]} {software[version]}, {created} (UTC)

To compute scores with PLINK 2, run in this directory, with the prefix of a PLINK 1 fileset in place
of GENOTYPES (of a PLINK 2 fileset with --pfile in place of --bfile):

  {command}

../scores.sscore, beside this directory, then has a column NAME_SUM for each phenotype NAME, in the
units of the phenotype. Of several filesets, such as one for each chromosome, add the NAME_SUM. The
predicted phenotype is NAME_SUM plus the intercept plus each covariate times its weight
({covariates_file}). Variants are matched by ID, and a variant that GENOTYPES lacks adds nothing to
the score. A missing genotype counts as the public centre of its variant ({centre_file}).
{components}{missing}{few}{ancestry}
Chromosomes: {chromosomes}.
{x}Genome build of the positions: {build}
{scores}
{measured}Files
{weights_files}
  {release_file:<16}the numbers of this release, and SHA-256 digests of its files
  {report_file:<16}what this release is, in words
  {log_file:<16}what was done
"""
_ACCURACY = """\
Accuracy in {people} people of the cohort who were held out of the weights, with 95% intervals that
count sampling and noise (r and R^2 of score and phenotype, both less what the covariates explain of
them; slope of the phenotype on the score; phenotypes are clipped at three public standard
deviations, and scores at about three of their own):
{lines}

"""
_COMPONENTS = """
The last {n_components} covariates are principal components by {file},
restricted to {n_variants} variants of this release, in the unit of PCn_AVG of plink2 --score with
--read-freq, no-mean-imputation and variance-standardize.
"""
_MOST_LINES = 20
_ON_X = "On X men count as 0 or 2 copies (--xchr-model {model}).\n"
_SCORES = """
The weights build on public scores, and so are not independent of the studies behind these. A slope
is that of a phenotype on a public score, estimated from the {source};
a score with slope 0 changed nothing: it is of no use, or the noise hides its use.
{lines}
"""
_MOST_SLOPES = 10
_NO_BUILD = (
    "not reported.\nTools of the PGS Catalog refuse the files in {directory}/ for that reason."
)


def render_readme(document: Document) -> str:
    """Return README.txt of the release with this release.json."""
    scoring, n_phenotypes = document["scoring"], document["cohort"]["n_phenotypes"]
    build = document["public_inputs"]["genome_build"]
    model, n_variants = scoring["xchr_model"], document["cohort"]["n_variants"]
    files = weights_files_of(document)
    lines = [f"  {name:<16}{file.description}" for name, file in files.items()]
    loadings = document["public_inputs"].get("pc_loadings")
    return _README.format(
        **document,
        phenotypes=f"{n_phenotypes} phenotype{'' if n_phenotypes == 1 else 's'}",
        people=people_in_words(document),
        command=scoring_command_in_lines(document).replace("\n", "\n  "),
        chromosomes=", ".join(scoring["chromosomes"]),
        x="" if model is None else _ON_X.format(model=model),
        build=_NO_BUILD.format(directory=PGS_DIRECTORY) if build == NOT_REPORTED else f"{build}.",
        measured=_accuracy(document),
        components="" if loadings is None else _COMPONENTS.format(**loadings),
        missing="" if document["private"] else _paragraph(NO_COMPLETE_CASES),
        few=_paragraph(few_variants_in_words(n_variants)) if n_variants <= FEW_VARIANTS else "",
        ancestry="".join(_paragraph(f"WARNING: {each}.") for each in ancestry_notes(document)),
        scores=_scores_section(document),
        weights_files="\n".join(lines),
        covariates_file=COVARIATES_FILE,
        centre_file=CENTRE_FILE,
        release_file=RELEASE_FILE,
        report_file=REPORT_FILE,
        log_file=LOG_FILE,
    )


def _paragraph(text: str) -> str:
    return f"\n{fill(text, _WIDTH)}\n"


def _accuracy(document: Document) -> str:
    """Return the accuracy in the people held out; an empty text without them."""
    hold_out = document.get("hold_out")
    if hold_out is None:
        return ""
    lines = [f"  {line}" for line in accuracies_in_words(document)]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"  and {len(lines) - _MOST_LINES} more in {RELEASE_FILE}"]
    lines += [f"  WARNING: {caution}" for caution in held_out_cautions(document)]
    return _ACCURACY.format(people=hold_out["people"], lines="\n".join(lines))


def _scores_section(document: Document) -> str:
    """Return the paragraph on the public scores of a release, empty if it has none."""
    scores = document["estimation"].get("public_scores", [])
    if not scores:
        return ""
    source = "noisy statistics, at no cost in privacy" if document["private"] else "statistics"
    lines = [line for score in scores for line in _slope_lines(score)]
    more = ["  ..., listed in release.json"] if len(lines) > _MOST_SLOPES else []
    return _SCORES.format(lines="\n".join(lines[:_MOST_SLOPES] + more), source=source)


def _slope_lines(score: Document) -> list[str]:
    name = score["file"] if score["pgs_id"] is None else f"{score['file']} ({score['pgs_id']})"
    of = f"{score['n_matched']} of {score['n_variants']} variants"
    return [
        f"  {name}, {of}: {slope['phenotype']} {slope['slope']:.3g} "
        f"(SE {slope['standard_error']:.2g})"
        for slope in score["slopes"]
    ]
