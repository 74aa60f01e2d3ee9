"""``primo-scale party-release``: publish noisy columns of one of several parties."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import PRIVACY, ContractCommand, log_format_option, under
from primo_scale.cli.option_types import CommaSeparated, count_option, file_option
from primo_scale.cli.options import ledger_options, out_option, request_from, work_dir_option

_columns_options = under(
    "Columns and people",
    click.option("--party", required=True, help="Public name of this party."),
    file_option("--roster", required=True, help="The parties' roster (party-roster)."),
    file_option("--party-key", required=True, help="The key that the parties share."),
    file_option("--pheno", help="Table of the columns to release."),
    file_option("--pheno-bounds", help="Public bounds: name, lower, upper."),
    click.option("--pheno-name", type=CommaSeparated(), help="Only these columns."),
    click.option(
        "--genotypes",
        metavar="PATH|URL",
        help="Genotype store whose variants are the columns, in place of --pheno.",
    ),
)
_noise_options = under(
    PRIVACY,
    click.option("--epsilon", type=float, required=True, help="Privacy parameter epsilon."),
    click.option("--delta", type=float, required=True, help="Privacy parameter delta."),
    count_option(
        "--person-columns",
        metavar="N",
        help="Columns of all parties together: epsilon and delta then hold for a person and "
        "all parties (default: for this release alone).",
    ),
    count_option(
        "--mixtures",
        metavar="K",
        help="Release K random mixtures of the people in place of their rows.",
    ),
    click.option(
        "--seed", metavar="HEX", help="Public seed of the mixtures, the same for all parties."
    ),
)


@click.command(cls=ContractCommand)
@_columns_options
@_noise_options
@out_option("The release directory to publish.")
@ledger_options
@work_dir_option(required=False)
@log_format_option
def main(**options: Any) -> None:
    """Publish noisy values of this party's columns, for models with columns of other parties.

    Where the data may be brought together, a central release (primo-scale release) is far more
    accurate; the README of each release says by how much.
    """
    from primo_scale.run.party_operations import party_release
    from primo_scale.run.party_requests import PartyReleaseRequest

    release = party_release(request_from(PartyReleaseRequest, options))
    click.echo(f"release: {release.directory}")
