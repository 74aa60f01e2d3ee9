"""``primo-scale forecast``: the accuracy of releases, before a person is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import (
    CommaSeparated,
    LocalPath,
    Number,
    count_option,
    file_option,
)
from primo_scale.cli.options import ld_components_option, ld_panel_option, request_from

_COLUMNS = "{:>9} {:>10} {:>8} {:>9} {:>8} {:>9} {:>10} {:>7} {:>10} {:>10}"
_FOR_TARGET = " {:>11} {:>10} {:>14}"
_HEADINGS = (
    "people", "phenotypes", "epsilon", "variants", "columns", "R^2", "sparse R^2", "of best",
    "n without", "best R^2", "epsilon for", "people for", "phenotypes for",
)  # fmt: skip


@click.command(cls=ContractCommand)
@ld_panel_option("with the variants of the release.", required=True)
@file_option("--ref-freq", required=True, help="Their allele frequencies (plink2 --freq).")
@click.option(
    "--people",
    type=CommaSeparated(int),
    required=True,
    metavar="N[,N...]",
    help="Sizes of cohorts.",
)
@click.option(
    "--phenotypes",
    type=CommaSeparated(int),
    default="1,10,100",
    metavar="L[,L...]",
    help="Numbers of phenotypes of a release.",
)
@click.option(
    "--epsilon",
    type=CommaSeparated(float),
    default="1,5",
    metavar="E[,E...]",
    help="Values of epsilon.",
)
@click.option("--delta", type=Number(min=0, min_open=True), help="Default: 1 / people^2.")
@file_option("--extract", help="List of the variants that take part.")
@click.option(
    "--variants",
    type=CommaSeparated(int),
    metavar="K[,K...]",
    help="Numbers of variants (default: the panel's). More than the panel's tile it; fewer are the "
    "best by --extract-by-prior.",
)
@file_option(
    "--extract-by-prior",
    metavar="FILE",
    help="Public scoring file that ranks the variants, as in primo-scale release.",
)
@click.option(
    "--prior-r2",
    type=Number(min=0, min_open=True),
    metavar="R2",
    help="R^2, in people like the cohort, of a public score that the weights will build on.",
)
@count_option("--prior-people", default=100_000, help="People of the study that gave this score.")
@click.option(
    "--target",
    metavar="R2|SHARE%",
    help="Accuracy to reach, such as 0.15, or 80% of the R^2 without noise: adds the smallest "
    "epsilon, the fewest people and the most phenotypes that reach it, each with the other sizes "
    "of the row.",
)
@ld_components_option
@click.option(
    "--out",
    type=LocalPath(path_type=Path),
    help="Directory to create, with a table, JSON and a picture.",
)
def main(out: Path | None, **options: Any) -> None:
    """Forecast how accurate releases will be, from a public panel and numbers alone.

    R^2 is expected in other people of the panel's population, for a trait of heritability 0.3 that
    is spread evenly over the variants. Few phenotypes, or a public choice of few variants, can be
    worth more than epsilon.

    "columns" is the number of LD components, or of variants without them; "sparse R^2" is that of a
    trait of which 1% of the variants have effects; "best R^2" that of a release without noise, and
    "of best" the share of it; "n without" the number of people whose release without noise explains
    as much. A "-" marks a --target that no value tried reaches.
    """
    from primo_scale.run.forecast import forecast, write_forecast
    from primo_scale.run.forecast_request import ForecastRequest
    from primo_scale.storage.files import refuse_existing

    if out is not None:
        refuse_existing(out)
    rows = forecast(request_from(ForecastRequest, options))
    columns = _COLUMNS if options["target"] is None else _COLUMNS + _FOR_TARGET
    click.echo(columns.format(*_HEADINGS))
    for row in rows:
        shape = row.people, row.phenotypes, f"{row.epsilon:g}", row.variants, row.columns
        sparse = "-" if row.sparse_r2 is None else f"{row.sparse_r2:.4f}"
        numbers = f"{row.r2:.4f}", sparse, f"{row.r2 / row.r2_without_noise:.0%}"
        last = f"{row.effective_people:.0f}", f"{row.r2_without_noise:.4f}"
        epsilon = None if row.target_epsilon is None else f"{row.target_epsilon:.3g}"
        found = epsilon, row.target_people, row.target_phenotypes
        target = ("-" if each is None else each for each in found)
        click.echo(columns.format(*shape, *numbers, *last, *target))
    if out is not None:
        write_forecast(out, rows)
        click.echo(f"written to {out}")
