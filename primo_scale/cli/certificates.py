"""``primo-scale certificates``: make, renew and show the certificates of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import ContractGroup
from primo_scale.cli.option_types import DIRECTORY

if TYPE_CHECKING:
    from primo_scale.cluster.certificates import Certificates

_DIRECTORY_ARGUMENT = click.argument("directory", type=DIRECTORY)
_DAYS_OPTION = click.option(
    "--days",
    type=click.IntRange(1, 397),
    default=30,
    help="Number of days in which new connections are possible.",
)


@click.group(cls=ContractGroup)
def main() -> None:
    """Make, renew and check the certificates by which members of a cluster know each other.

    Give DIRECTORY to the scheduler, the workers and --tls. Whoever can read it is a member.
    """


@main.command()
@_DIRECTORY_ARGUMENT
@_DAYS_OPTION
def new(directory: Path, days: int) -> None:
    """Make an authority and a certificate for client, scheduler and workers, mode 0600."""
    from primo_scale.cluster.certificates import make_certificates

    _print(make_certificates(directory, days=days))


@main.command()
@_DIRECTORY_ARGUMENT
@_DAYS_OPTION
def renew(directory: Path, days: int) -> None:
    """Replace the certificates, which excludes the holders of the old ones.

    A running cluster refuses the new ones: renew between runs, or start the cluster again.
    """
    from primo_scale.cluster.certificates import renew_certificates

    _print(renew_certificates(directory, days=days))


@main.command()
@_DIRECTORY_ARGUMENT
def show(directory: Path) -> None:
    """Check the certificates and print the time when they expire."""
    from primo_scale.cluster.certificates import read_certificates

    _print(read_certificates(directory))


def _print(found: Certificates) -> None:
    click.echo(f"{found.directory}: valid until {found.expires:%Y-%m-%d %H:%M} UTC")
    click.echo(f"authority sha256 {found.fingerprint}")
