"""``primo-scale finalize``: from exact statistics to a published release."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import PRIVACY, ContractCommand, log_format_option, under
from primo_scale.cli.option_types import flag
from primo_scale.cli.options import (
    budget_options,
    encryption_option,
    ledger_options,
    out_option,
    release_options,
    request_from,
    work_dir_option,
)


@click.command(cls=ContractCommand)
@work_dir_option(required=True)
@budget_options
@out_option("The release directory; must not exist.")
@under(PRIVACY, flag("--non-private", help="No noise; stamps every file NOT PRIVATE."))
@release_options
@ledger_options
@encryption_option
@log_format_option
def main(**options: Any) -> None:
    """Add noise once, solve every phenotype, and publish the weights; accumulate has paid."""
    from primo_scale.run.operations import finalize
    from primo_scale.run.request import FinalizeRequest

    published = finalize(request_from(FinalizeRequest, options))
    click.echo(f"release: {published.directory}")
