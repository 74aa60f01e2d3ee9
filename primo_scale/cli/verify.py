"""``primo-scale verify``: check a release directory."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import DIRECTORY, file_option


@click.command(cls=ContractCommand)
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option(
    "--public-key",
    metavar="HEX",
    help="The custodian's public key, learned elsewhere: the release must be signed with it.",
)
@file_option("--ledger", help="For the custodian: the ledger must have paid for this very release.")
def main(directory: Path, public_key: str | None, ledger: Path | None) -> None:
    """Check the release in DIR and recompute its guarantee from release.json.

    Exit code 0: everything holds; 1: something does not; 3: DIR holds no release.
    """
    from primo_scale.publication.verify import verify
    from primo_scale.publication.wording import NOT_PRIVATE

    verdict = verify(directory, public_key=public_key, ledger=ledger)
    width = max(len(finding.check) for finding in verdict.findings)
    for finding in verdict.findings:
        mark = "PROBLEM" if not finding.ok else "note   " if finding.note else "ok     "
        click.echo(f"{mark}  {finding.check:<{width}}  {_printable(finding.detail)}")
    if not verdict.ok:
        problems, checks = len(verdict.problems), len(verdict.findings)
        click.echo(f"NOT VERIFIED: {problems} of {checks} checks failed")
        sys.exit(1)
    if verdict.private:
        click.echo("verified: the files are intact and the guarantee follows from the numbers")
    else:
        click.echo(f"intact, but {NOT_PRIVATE}: this release promises nothing to anybody")


def _printable(detail: str) -> str:
    """Return a detail with control characters and undecodable names of files escaped."""
    escaped = (c if c.isprintable() else ascii(c)[1:-1] for c in detail)
    return "".join(escaped)
