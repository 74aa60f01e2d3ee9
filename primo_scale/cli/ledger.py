"""``primo-scale ledger``: show, verify and set privacy budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from primo_scale.cli.command_line import ContractGroup
from primo_scale.cli.option_types import file_option
from primo_scale.cli.options import neighbour_options

_LEDGER_OPTION = file_option(
    "--ledger",
    "path",
    help="The ledger file [default: primo_scale/ledger.sqlite under the XDG state directory].",
)
_COHORT_OPTION = click.option(
    "--cohort", help="A cohort's name, or 8 or more first digits of its identifier (see `show`)."
)


@click.group(cls=ContractGroup)
def main() -> None:
    """Show, verify and set the privacy budgets of cohorts."""


@main.command()
@_LEDGER_OPTION
@_COHORT_OPTION
def show(path: Path | None, cohort: str | None) -> None:
    """Print what each cohort may spend, has spent and has left, and every charge.

    Others verify the signatures of releases with the public key: publish it.
    """
    from primo_scale import ledger

    click.echo(ledger.show(path, cohort=cohort))


@main.command()
@_LEDGER_OPTION
def verify(path: Path | None) -> None:
    """Recompute the whole ledger; print every problem, and exit 1 if there is one."""
    from primo_scale import ledger
    from primo_scale.ledger.ledger import default_ledger_path

    path = path or default_ledger_path()
    problems = ledger.verify(path)
    for problem in problems:
        click.echo(f"{path}: {problem}", err=True)
    if problems:
        sys.exit(1)
    click.echo(f"{path}: verified, head {ledger.show(path).head}")


@main.command("set-budget")
@_LEDGER_OPTION
@_COHORT_OPTION
@click.option("--epsilon", type=float, required=True, help="Total epsilon the cohort may spend.")
@click.option("--delta", type=float, help="Needed for a new budget; an existing one keeps its own.")
@neighbour_options()
def set_budget(**options: Any) -> None:
    """Set a cohort's total budget; --cohort may be left out when the ledger holds one cohort.

    A name that matches no cohort opens a budget for a new one, to be used with the same --cohort.
    Each --privacy and --adjacency has a budget of its own. Budgets do not add up: a guarantee
    for phenotypes alone is none for genotypes.
    """
    from primo_scale import ledger

    click.echo(ledger.set_budget(**options))
