"""``primo-scale party-fit``: a linear model from the releases of several parties."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import DIRECTORY, CommaSeparated
from primo_scale.cli.options import out_option, request_from


@click.command(cls=ContractCommand)
@click.option(
    "--release", "releases", type=DIRECTORY, multiple=True, required=True,
    help="Release of one party. Repeatable.",
)  # fmt: skip
@click.option("--outcome", required=True, help="Column to predict, or PARTY:COLUMN.")
@click.option("--predictors", type=CommaSeparated(), help="Columns to predict with [all others].")
@click.option(
    "--method",
    type=click.Choice(["bgm", "dgm", "rmgm", "rmgm-debiased"]),
    required=True,
    help="Of rows, bgm, or dgm with the correction for the noise; of mixtures, rmgm or "
    "rmgm-debiased.",
)
@click.option(
    "--ridge", type=float, help="Penalty, as a sum over people [small eigenvalues are raised]."
)
@out_option("Directory to create, with weights.tsv and model.json.")
def main(**options: Any) -> None:
    """Fit a released column to the other columns. It costs no privacy: releases are public."""
    from primo_scale.run.party_fit import party_fit
    from primo_scale.run.party_requests import PartyFitRequest

    request = request_from(PartyFitRequest, options)
    model = party_fit(request)
    click.echo(
        f"model: {request.out}; the releases together promise epsilon {model.epsilon:.4g} at "
        f"delta {model.delta:g} to a person"
    )
