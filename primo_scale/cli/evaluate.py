"""``primo-scale evaluate``: the accuracy of scores in people who consented, or in public data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand, under
from primo_scale.cli.genotype_options import SOURCE_OPTIONS, store_option
from primo_scale.cli.option_types import file_option
from primo_scale.cli.options import column_options, out_option, request_from


@click.command(cls=ContractCommand)
@under(
    "Scores",
    click.option(
        "--weights",
        type=click.Path(path_type=Path),
        required=True,
        multiple=True,
        metavar="DIR|FILE",
        help="Release, its weights.tsv.gz, or PGS Catalog file (format 2.0). Repeatable.",
    ),
)
@under(
    "People",
    *SOURCE_OPTIONS,
    store_option(in_place_of_files=True),
    file_option(
        "--pheno",
        required=True,
        help="Phenotypes. A score is compared with the phenotype of its name.",
    ),
    file_option("--covar", help="Covariates."),
    *column_options,
    file_option(
        "--pc-loadings",
        metavar="PREFIX.eigenvec.allele",
        help="Loadings of a public panel, as for release: the principal components of each person "
        "are covariates.",
    ),
    file_option(
        "--groups",
        help="Table of IID and group, for results within the groups together, and by group.",
    ),
    click.option(
        "--prevalence",
        multiple=True,
        metavar="NAME=K",
        help="Share of cases in the population, for the liability scale. Repeatable.",
    ),
)
@out_option("Directory to create.")
def main(**options: Any) -> None:
    """Measure how well scores predict phenotypes, without noise.

    The people must have consented, be public, or be simulated: the results are NOT PRIVATE. Never
    evaluate a release in the cohort that it was made from. Its accuracy there is too high, and the
    result is not covered by the release's epsilon.
    """
    from primo_scale.evaluation.results import TABLE_FILE
    from primo_scale.run.evaluation import EvaluationRequest, evaluate

    evaluation = evaluate(request_from(EvaluationRequest, options))
    click.echo(evaluation)
    click.echo(f"results: {options['out'] / TABLE_FILE}")
